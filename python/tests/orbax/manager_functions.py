"""Functions that the processes of `test_manager_processes.py` run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from process_functions import place, sharding, values_of

import holdfast.orbax as ocp


def array_of(step: int) -> Any:
    count = len(jax.devices())
    over_all = sharding((count,), ("x",))
    return place(values_of((count * 2, 3)) + step, over_all)


def args_of(step: int) -> Any:
    tree = {"w": array_of(step), "numpy": np.arange(3) + step}
    return ocp.args.Composite(
        tree=ocp.args.StandardSave(tree),
        data=ocp.args.JsonSave({"step": step}),
        key=ocp.args.NumpyRandomKeySave(
            np.random.RandomState(step).get_state()
        ),
    )


def options_of(given: dict[str, Any]) -> Any:
    given = dict(given)
    mode = given.pop("mode", None)
    if mode is not None:
        given["atomicity_options"] = ocp.options.AtomicityOptions(
            mode=ocp.options.AtomicityMode[mode]
        )
    return ocp.CheckpointManagerOptions(**given)


def problems_of(restored: Any, step: int) -> list[str]:
    problems = []
    want = np.asarray(values_of((len(jax.devices()) * 2, 3)) + step)
    for shard in restored.tree["w"].addressable_shards:
        if not np.array_equal(shard.data, want[shard.index]):
            problems.append(f"step {step}: {shard.index}: {shard.data}")
    if not np.array_equal(restored.tree["numpy"], np.arange(3) + step):
        problems.append(f"step {step}: {restored.tree['numpy']}")
    if restored.data != {"step": step}:
        problems.append(f"step {step}: {restored.data}")
    key = np.random.RandomState(step).get_state()
    if not np.array_equal(restored.key[1], key[1]):
        problems.append(f"step {step}: {restored.key}")
    return problems


def train(path: str, count: int, **given: Any) -> Any:
    """Saves steps; returns what the process then knows and restores."""
    options = options_of(given)
    with ocp.CheckpointManager(
        path, options=options, metadata={"run": 1}
    ) as manager:
        saved = [manager.save(s, args=args_of(s)) for s in range(count)]
        manager.wait_until_finished()
        assert not manager.is_saving_in_progress()
        steps = list(manager.all_steps())
        target = {"w": array_of(0), "numpy": np.arange(3)}
        restored = manager.restore(
            steps[-1],
            args=ocp.args.Composite(
                tree=ocp.args.StandardRestore(target),
                data=ocp.args.JsonRestore(),
                key=ocp.args.NumpyRandomKeyRestore(),
            ),
        )
        return saved, steps, problems_of(restored, steps[-1])


def delete(path: str, step: int) -> Any:
    with ocp.CheckpointManager(path) as manager:
        manager.delete(step)
        return list(manager.all_steps()), os.path.exists(f"{path}/{step}")


class _Failing(ocp.JsonCheckpointHandler):
    """A handler that fails to write on process 1."""

    async def async_save(self, directory: Any, **kwargs: Any) -> Any:
        if jax.process_index() == 1:
            raise OSError("no room here")
        return await super().async_save(directory, **kwargs)


def fail(path: str) -> Any:
    """Makes a save that fails on one process, then a save that succeeds."""
    with ocp.CheckpointManager(path) as manager:
        good = manager.save(1, args=args_of(1))
    registry = ocp.DefaultCheckpointHandlerRegistry()
    registry.add("data", ocp.args.JsonSave, _Failing())
    with ocp.CheckpointManager(path, handler_registry=registry) as manager:
        try:
            manager.save(2, args=args_of(2))
            manager.wait_until_finished()
        except OSError as error:
            failure = f"{type(error).__name__}: {error}"
    with ocp.CheckpointManager(path) as manager:
        again = manager.save(3, args=args_of(3))
        manager.wait_until_finished()
        return good, failure, again, list(manager.all_steps())


def own_directories(path: str) -> Any:
    """Saves with a separate root for each process."""
    root = Path(path) / str(jax.process_index())
    root.mkdir(parents=True)
    processes = ocp.options.MultiprocessingOptions(
        primary_host=None, active_processes={jax.process_index()}
    )
    handler = ocp.StandardCheckpointHandler(multiprocessing_options=processes)
    options = ocp.CheckpointManagerOptions(
        multiprocessing_options=processes, create=False, max_to_keep=1
    )
    with ocp.CheckpointManager(
        root, options=options, item_handlers=handler
    ) as manager:
        tree = {"a": np.arange(3) + jax.process_index()}
        for step in range(2):
            manager.save(step, args=ocp.args.StandardSave(tree))
        manager.wait_until_finished()
        found = manager.restore(1)["a"].tolist()
    return found, sorted(os.listdir(root))


def decide(path: str) -> Any:
    """Saves with a policy by time: the primary process decides for all."""
    policies = ocp.checkpoint_managers
    options = ocp.CheckpointManagerOptions(
        save_decision_policy=policies.ContinuousCheckpointingPolicy(
            minimum_interval_secs=0 if jax.process_index() == 0 else 3600
        )
    )
    with ocp.CheckpointManager(path, options=options) as manager:
        saved = []
        for step in range(3):
            saved.append(manager.save(step, args=args_of(step)))
            manager.wait_until_finished()
    return json.dumps(saved)
