"""Makes the same calls on a holdfast manager and on an Orbax manager.

A case is a set of options and a list of calls, drawn from a seed. `play` makes
the calls in a directory and describes what is there afterwards.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

# Metadata that differ between runs, and files that only holdfast writes.
_TIMES = ("init_timestamp_nsecs", "commit_timestamp_nsecs")
_OWN_FILES = ("_HOLDFAST_DIGESTS",)


@dataclasses.dataclass
class Case:
    """The calls of a case.

    Attributes:
        seed: the seed that the case is drawn from.
        options: the CheckpointManagerOptions that are plain values.
        policies: names of policies and their arguments, by option.
        is_single: whether steps have a single item.
        metadata: the run's metadata.
        calls: names of calls and their arguments.
    """

    seed: int
    options: dict[str, Any]
    policies: dict[str, Any]
    is_single: bool
    metadata: dict[str, Any] | None
    calls: list[tuple[str, dict[str, Any]]]


def draw(seed: int, call_count: int = 8) -> Case:
    """Draws the case of a seed."""
    rng = random.Random(seed)
    options: dict[str, Any] = {}
    policies: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["save_interval_steps"] = rng.choice([1, 2, 3])
        options["save_on_steps"] = rng.sample(range(12), 2)
    elif rng.random() < 0.5:
        policies["save_decision_policy"] = rng.choice(_DECISIONS)
    if rng.random() < 0.3:
        options["step_prefix"] = rng.choice(["ckpt", "a.b"])
    if rng.random() < 0.3:
        options["step_format_fixed_length"] = rng.choice([2, 5])
    if rng.random() < 0.2:
        options["todelete_subdir"] = "old"
    if rng.random() < 0.3:
        options["enable_async_checkpointing"] = False
    if rng.random() < 0.25:
        options["atomicity"] = rng.choice(["COMMIT_FILE", "ATOMIC_RENAME"])
    _draw_keeping(rng, options, policies)
    return Case(
        seed=seed,
        options=options,
        policies=policies,
        is_single=rng.random() < 0.5,
        metadata=rng.choice([None, {"run": seed, "tags": ["a", None]}]),
        calls=_draw_calls(rng, call_count),
    )


_DECISIONS = [
    ("FixedIntervalPolicy", [2]),
    ("SpecificStepsPolicy", [[1, 4, 5, 9]]),
    (
        "AnySavePolicy",
        [("FixedIntervalPolicy", [3]), ("InitialSavePolicy", [])],
    ),
]
_PRESERVATIONS = [
    ("LatestN", [2]),
    ("PreserveAll", []),
    ("AnyPreservationPolicy", [("EveryNSteps", [3]), ("LatestN", [1])]),
    ("AnyPreservationPolicy", [("CustomSteps", [[2, 5]]), ("LatestN", [2])]),
    ("AnyPreservationPolicy", [("EveryNSeconds", [3600]), ("LatestN", [1])]),
    ("EveryNStepsClosest", [4]),
    ("LatestDuration", [datetime.timedelta(hours=1)]),
]


def _draw_keeping(
    rng: random.Random, options: dict[str, Any], policies: dict[str, Any]
) -> None:
    if rng.random() < 0.25:
        policies["preservation_policy"] = rng.choice(_PRESERVATIONS)
        return
    options["max_to_keep"] = rng.choice([None, 1, 2, 3])
    if rng.random() < 0.3:
        options["keep_period"] = rng.choice([2, 3, 5])
    if rng.random() < 0.2:
        options["keep_time_interval"] = datetime.timedelta(hours=1)
    if rng.random() < 0.5:
        options["best_fn"] = lambda metrics: metrics["loss"]
        options["best_mode"] = rng.choice(["min", "max"])
        options["keep_checkpoints_without_metrics"] = rng.random() < 0.5
        options["prevent_write_metrics"] = rng.random() < 0.2


def _draw_calls(
    rng: random.Random, count: int
) -> list[tuple[str, dict[str, Any]]]:
    calls: list[tuple[str, dict[str, Any]]] = []
    step = 0
    for _ in range(count):
        name = rng.choices(
            ["save", "delete", "reopen", "reload", "stale"], [12, 1, 1, 1, 1]
        )[0]
        call: dict[str, Any] = {}
        if name in ("save", "stale"):
            call["step"] = step if name == "save" else max(0, step - 2)
            call["force"] = rng.random() < 0.3
            call["custom_metadata"] = rng.choice([None, {"lr": 0.5}])
            call["metrics"] = rng.choice([None, {"loss": rng.randrange(5)}])
            step += rng.choice([1, 1, 2])
        if name == "delete":
            call["index"] = rng.randrange(3)
        calls.append((name, call))
    return calls


def _policy(ocp: Any, spec: Any) -> Any:
    name, args = spec
    policies = ocp.checkpoint_managers.save_decision_policy
    if not hasattr(policies, name):
        policies = ocp.checkpoint_managers.preservation_policy
    if name.startswith("Any"):
        return getattr(policies, name)([_policy(ocp, s) for s in args])
    return getattr(policies, name)(*args)


def make_options(ocp: Any, case: Case) -> Any:
    """Returns the case's options, made with the classes of a package."""
    given = dict(case.options)
    mode = given.pop("atomicity", None)
    if mode is not None:
        given["atomicity_options"] = ocp.options.AtomicityOptions(
            mode=ocp.options.AtomicityMode[mode]
        )
    for name, spec in case.policies.items():
        given[name] = _policy(ocp, spec)
    return ocp.CheckpointManagerOptions(**given)


def item_of(step: int) -> dict[str, Any]:
    return {"w": np.arange(6.0) * step, "step": step}


def _args(ocp: Any, case: Case, step: int) -> Any:
    state = ocp.args.StandardSave(item_of(step))
    if case.is_single:
        return state
    return ocp.args.Composite(state=state, data=ocp.args.JsonSave({"n": step}))


class Player:
    """Makes calls on a package's manager."""

    def __init__(self, ocp: Any, case: Case, root: Path) -> None:
        self.ocp = ocp
        self.case = case
        self.root = root
        self.told: list[Any] = []
        self.open()

    def open(self) -> None:
        self.manager = self.ocp.CheckpointManager(
            self.root,
            options=make_options(self.ocp, self.case),
            metadata=self.case.metadata,
        )

    def call(self, name: str, given: dict[str, Any]) -> None:
        """Makes a call; records what it returns or raises."""
        try:
            answer = self._call(name, dict(given))
        except (ValueError, FileNotFoundError) as error:
            answer = f"{type(error).__name__}: {error}"
        self.told.append((name, answer, list(self.manager.all_steps())))

    def _call(self, name: str, given: dict[str, Any]) -> Any:
        if name == "reopen":
            self.manager.close()
            self.open()
            return None
        if name == "reload":
            self.manager.wait_until_finished()
            self.manager.reload()
            return None
        if name == "delete":
            self.manager.wait_until_finished()
            steps = self.manager.all_steps()
            step = steps[given["index"] % len(steps)] if steps else 99
            return self.manager.delete(step)
        step = given.pop("step")
        return self.manager.save(
            step, args=_args(self.ocp, self.case, step), **given
        )

    def close(self) -> None:
        self.manager.wait_until_finished()
        self.told.append(self.manager.best_step())
        self.manager.close()


def play(ocp: Any, case: Case, root: Path) -> dict[str, Any]:
    """Makes the case's calls; returns their answers, and the contents of the
    directory afterwards."""
    player = Player(ocp, case, root)
    for name, given in case.calls:
        player.call(name, given)
    player.close()
    return {"told": player.told, **describe(ocp, case, root)}


def describe(ocp: Any, case: Case, root: Path) -> dict[str, Any]:
    """Returns the JSON files, markers and directories, and what a new manager
    finds."""
    found: dict[str, Any] = {"files": {}, "directories": []}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_dir():
            if "ocdbt.process" not in name and path.name != "d":
                found["directories"].append(name)
        elif path.name in ("_CHECKPOINT_METADATA", "_ROOT_METADATA"):
            data = json.loads(path.read_text())
            found["files"][name] = {
                key: key in _TIMES and value is not None or value
                for key, value in data.items()
            }
        elif path.name in ("metadata", "metrics", "commit_success.txt"):
            text = path.read_text().replace(str(root), "ROOT")
            # Removes holdfast's line, which follows Orbax's in the marker.
            text = text.removesuffix("\nIts checksums are in _HOLDFAST_DIGESTS")
            found["files"][name] = text
    with contextlib.closing(
        ocp.CheckpointManager(root, options=make_options(ocp, case))
    ) as manager:
        found["steps"] = list(manager.all_steps())
        found["best"] = manager.best_step()
        found["metrics"] = {s: manager.metrics(s) for s in found["steps"]}
        found["run"] = manager.metadata().custom_metadata
        found["restored"] = {
            step: _plain(manager.restore(step)) for step in found["steps"]
        }
    return found


def _plain(restored: Any) -> Any:
    """Returns values as lists, and Composites as dicts."""
    if hasattr(restored, "items"):
        return {k: _plain(v) for k, v in restored.items()}
    return np.asarray(restored).tolist()
