"""Programs with v1's `training.Checkpointer` and `delete`, for real Orbax and
for holdfast. Each notes what it sees, which must be the same with both."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


class Notes:
    """Collects notes of what a program sees."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lines: list[Any] = []

    def see(self, what: str, value: Any) -> None:
        self.lines.append((what, plain(value)))

    def attempt(self, what: str, call: Callable[[], Any]) -> None:
        """Makes a call; notes its result, or the class and bases of its
        error."""
        try:
            value = call()
        except Exception as error:
            kinds = [k.__name__ for k in type(error).__mro__]
            known = [k for k in kinds if k in _BUILT_IN]
            value = [kinds[0], known]
        self.see(what, value)

    def disk(self, run: Any, what: str = "disk") -> None:
        """Waits for the run's saves; notes the names in its directory."""
        run.wait()
        names = os.listdir(run.directory)
        self.see(what, sorted(n for n in names if not n.startswith(".")))


_BUILT_IN = {
    "ValueError",
    "TypeError",
    "KeyError",
    "OSError",
    "FileNotFoundError",
    "FileExistsError",
    "NotImplementedError",
    "RuntimeError",
}


def plain(value: Any) -> Any:
    """Returns a value that can be compared, whichever package it comes
    from."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if type(value).__name__ == "CheckpointMetadata":
        return {
            "step": getattr(value, "step", None),
            "metrics": plain(getattr(value, "metrics", None)),
            "metadata": plain(value.metadata),
            "custom_metadata": plain(value.custom_metadata),
        }
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return [type(value).__name__, list(value.shape), str(value.dtype)]
    return value


CASES: dict[str, Callable[[Any, Notes], None]] = {}


def case(function: Callable[[Any, Notes], None]) -> Any:
    CASES[function.__name__] = function
    return function


def tree(step: int) -> dict[str, Any]:
    return {"w": np.arange(6.0).reshape(2, 3) + step, "n": step, "s": "text"}


class Counter:
    """An object that saves itself."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    async def save(self, directory: Any) -> Any:
        value = self.value

        async def write() -> None:
            path = await directory.await_creation()
            (Path(str(path)) / "value").write_text(str(value))

        return write()

    async def load(self, directory: Any) -> Any:
        async def read() -> None:
            self.value = int((Path(str(directory)) / "value").read_text())

        return read()


def steps_of(run: Any) -> list[int]:
    return [checkpoint.step for checkpoint in run.checkpoints]


@case
def by_default(ocp: Any, notes: Notes) -> None:
    with ocp.training.Checkpointer(notes.root / "run") as run:
        notes.see("latest", run.latest)
        notes.attempt("load", lambda: run.load())
        notes.attempt("metadata", lambda: run.metadata())
        for step in (0, 1, 5, 3, 5):
            notes.see("should", run.should_save(step))
            notes.attempt("save", lambda s=step: run.save(s, tree(s)))
            notes.see("steps", steps_of(run))
        notes.see("in progress", run.is_saving_in_progress())
        notes.see("loaded", run.load())
        notes.see("loaded", run.load(1))
        notes.see("loaded", run.load(run.checkpoints[0]))
        notes.see("metadata", run.metadata(0))
        notes.see("checkpointables", run.checkpointables_metadata())
        notes.see("latest", run.latest)
        notes.disk(run)
        notes.attempt("load 7", lambda: run.load(7))
        notes.attempt("load_async", lambda: run.load_async(1))
        notes.attempt("bad name", lambda: run.load(checkpointable_name="x"))
    for step in ("0", "1", "5"):
        handlers = json.loads(
            (notes.root / "run" / step / "_CHECKPOINT_METADATA").read_text()
        )["item_handlers"]
        notes.see("handlers", handlers)
        files = sorted(
            str(p.relative_to(notes.root))
            for p in (notes.root / "run" / step).rglob("*")
            if "ocdbt" not in str(p)
            and p.parent.name != "d"
            and "_HOLDFAST" not in p.name
        )
        notes.see("files", files)


@case
def forced_and_overwritten(ocp: Any, notes: Notes) -> None:
    with ocp.training.Checkpointer(notes.root / "run") as run:
        run.save(5, tree(5))
        notes.attempt("again", lambda: run.save(5, tree(6)))
        notes.attempt("forced", lambda: run.save(5, tree(6), force=True))
        notes.attempt("earlier", lambda: run.save(3, tree(3), force=True))
        notes.see("steps", steps_of(run))
        notes.see("after an earlier one", run.should_save(4))
        notes.attempt(
            "overwritten", lambda: run.save(5, tree(8), overwrite=True)
        )
        notes.see("loaded", run.load(5))
        notes.see("steps", steps_of(run))


@case
def metrics_and_metadata(ocp: Any, notes: Notes) -> None:
    run = ocp.training.Checkpointer(
        notes.root / "run", custom_metadata={"run": [1, None]}
    )
    run.save(0, tree(0), metrics={"loss": 1.5}, custom_metadata={"a": 1})
    run.save(1, tree(1), metrics={})
    run.save_checkpointables(
        2, {"x": tree(2), "doc": {"a": 1}}, metrics={"loss": 0.5, "n": {"m": 2}}
    )
    notes.see("metrics", [c.metrics for c in run.checkpoints])
    notes.see("metadata", [run.metadata(0), run.metadata(1)])
    notes.see("checkpointables", run.checkpointables_metadata(2))
    notes.see("root", run.root_metadata().custom_metadata)
    run.close()
    run = ocp.training.Checkpointer(
        notes.root / "run", custom_metadata={"other": 1}
    )
    notes.see("reopened", [c.metrics for c in run.checkpoints])
    notes.see("root", run.root_metadata().custom_metadata)
    run.close()
    run = ocp.training.Checkpointer(
        notes.root / "run", lightweight_initialize=True
    )
    run.reload()
    notes.see("loaded", run.load_checkpointables(2))
    notes.see("reloaded", [c.metrics for c in run.checkpoints])
    run.close()
    empty = ocp.training.Checkpointer(notes.root / "empty")
    notes.see("root", empty.root_metadata().custom_metadata)
    notes.see("directory", Path(empty.root_metadata().directory).name)
    empty.close()
    text = (notes.root / "run" / "metadata" / "_ROOT_METADATA").read_text()
    notes.see("file", json.loads(text))


@case
def refused(ocp: Any, notes: Notes) -> None:
    with ocp.training.Checkpointer(notes.root / "run") as run:
        notes.attempt("leaf", lambda: run.save(0, {"a": object()}))
        notes.attempt("none", lambda: run.save_checkpointables(0, {"a": None}))
        notes.attempt("empty", lambda: run.save_checkpointables(0, {}))
        notes.attempt(
            "name", lambda: run.save(0, tree(0), checkpointable_name="")
        )
        notes.attempt(
            "reserved",
            lambda: run.save_checkpointables(0, {"metrics": {"a": 1}}),
        )
        notes.disk(run)
        notes.attempt("afterwards", lambda: run.save(0, tree(0)))
        notes.attempt("abstract", lambda: run.load(0, {"w": object()}))
        notes.attempt("cancel", lambda: run.cancel())
        notes.attempt("cancel 9", lambda: run.cancel(9))
        notes.disk(run)


def preserving(policy: Callable[[Any], Any], order: list[int]) -> Any:
    def program(ocp: Any, notes: Notes) -> None:
        policies = ocp.training.preservation_policies
        with ocp.training.Checkpointer(
            notes.root / "run", preservation_policy=policy(policies)
        ) as run:
            for i, step in enumerate(order):
                loss = abs(4 - i)
                metrics = None if i % 5 == 3 else {"loss": loss}
                run.save(step, tree(step), metrics=metrics, force=True)
                notes.see("steps", steps_of(run))
                notes.disk(run)

    return program


RISING = [0, 1, 2, 9, 10, 11, 20]
POLICIES: dict[str, Callable[[Any], Any]] = {
    "all": lambda p: p.PreserveAll(),
    "latest": lambda p: p.LatestN(3),
    "latest_all": lambda p: p.LatestN(),
    "every": lambda p: p.EveryNSteps(10),
    "every_inexact": lambda p: p.EveryNSteps(4, exact_interval=False),
    "every_few": lambda p: p.EveryNSteps(1, max_to_keep=2),
    "closest": lambda p: p.EveryNStepsClosest(10),
    "closest_few": lambda p: p.EveryNStepsClosest(5, max_to_keep=2),
    "custom": lambda p: p.AnyPreservationPolicy(
        [p.CustomSteps([1, 9]), p.LatestN(1)]
    ),
    "seconds": lambda p: p.AnyPreservationPolicy(
        [p.EveryNSeconds(1000), p.LatestN(1)]
    ),
    "best": lambda p: p.AnyPreservationPolicy(
        [p.BestN(get_metric_fn=lambda m: m["loss"], n=2), p.LatestN(1)]
    ),
    "best_reversed": lambda p: p.AnyPreservationPolicy(
        [
            p.BestN(
                get_metric_fn=lambda m: m["loss"],
                n=2,
                reverse=True,
                keep_checkpoints_without_metrics=False,
            ),
            p.LatestN(2),
        ]
    ),
}
for _name, _policy in POLICIES.items():
    CASES[f"preserved_{_name}"] = preserving(_policy, RISING)
CASES["preserved_unordered"] = preserving(POLICIES["latest"], [5, 3, 9, 1, 7])


@case
def decided(ocp: Any, notes: Notes) -> None:
    p = ocp.training.save_decision_policies
    for name, policy in {
        "interval": p.FixedIntervalPolicy(3),
        "specific": p.SpecificStepsPolicy({1, 4}),
        "initial": p.InitialSavePolicy(),
        "seldom": p.ContinuousCheckpointingPolicy(minimum_interval_secs=1000),
        "any": p.AnySavePolicy(
            [p.SpecificStepsPolicy([2]), p.FixedIntervalPolicy(5)]
        ),
        "preemption": p.PreemptionCheckpointingPolicy(),
    }.items():
        with ocp.training.Checkpointer(
            notes.root / name, save_decision_policy=policy
        ) as run:
            for step in range(7):
                notes.see(
                    name, [run.should_save(step), run.save(step, tree(1))]
                )
            notes.disk(run)


@case
def named(ocp: Any, notes: Notes) -> None:
    names = ocp.path.step
    plain_names = names.standard_name_format()
    prefixed = names.standard_name_format(
        step_prefix="s", step_format_fixed_length=4
    )
    with ocp.training.Checkpointer(
        notes.root / "run", step_name_format=prefixed
    ) as run:
        run.save(7, tree(7))
        run.save(8, tree(8), metrics={"a": 1})
        notes.disk(run)
        notes.see("loaded", run.load(7))
        notes.see("path", Path(run.latest.path).name)
    (notes.root / "run" / "s_0009").mkdir()
    (notes.root / "run" / "s_10").mkdir()
    (notes.root / "run" / "other").mkdir()
    found = sorted(f.step for f in prefixed.find_all(notes.root / "run"))
    notes.see("found", found)
    one = prefixed.find_step(notes.root / "run", 8)
    notes.see("one", [one.step, one.path.name, one.init_timestamp_nsecs > 0])
    notes.attempt("none", lambda: prefixed.find_step(notes.root / "run", 3))
    both = names.composite_name_format(plain_names, [plain_names, prefixed])
    (notes.root / "run" / "s_0009").rmdir()
    with ocp.training.Checkpointer(
        notes.root / "run", step_name_format=both
    ) as run:
        notes.see("steps", steps_of(run))
        run.save(20, tree(20))
        notes.disk(run)
    notes.attempt(
        "not read",
        lambda: names.composite_name_format(plain_names, [prefixed]),
    )


@case
def reloaded(ocp: Any, notes: Notes) -> None:
    run = ocp.training.Checkpointer(notes.root / "run")
    run.save(0, tree(0))
    run.save(1, tree(1))
    with ocp.training.Checkpointer(notes.root / "run") as other:
        other.save(2, tree(2))
        other.delete(0)
    notes.see("steps", steps_of(run))
    run.reload()
    notes.see("steps", steps_of(run))
    notes.see("loaded", run.load())
    run.close()


@case
def left_over(ocp: Any, notes: Notes) -> None:
    with ocp.training.Checkpointer(notes.root / "run") as run:
        run.save(0, tree(0))
    half = notes.root / "run" / "1.orbax-checkpoint-tmp"
    half.mkdir()
    (half / "file").write_text("x")
    (notes.root / "run" / "mine").mkdir()
    with ocp.training.Checkpointer(notes.root / "run") as run:
        notes.see("steps", steps_of(run))
        notes.disk(run)
    with ocp.training.Checkpointer(
        notes.root / "run", cleanup_tmp_directories=True
    ) as run:
        notes.see("steps", steps_of(run))
        run.save(1, tree(1))
        notes.disk(run)


@case
def kinds(ocp: Any, notes: Notes) -> None:
    with ocp.training.Checkpointer(notes.root / "run") as run:
        run.save_checkpointables(
            0,
            {"counter": Counter(7), "tree": tree(0), "doc": [1, "a"]},
        )
        target = Counter()
        got = run.load_checkpointables(0, {"counter": target, "doc": None})
        notes.see("doc", got["doc"])
        notes.see("counter", [target.value, got["counter"] is target])
        notes.attempt("without", lambda: run.load_checkpointables(0))
        notes.see("metadata", sorted(run.checkpointables_metadata().metadata))
        notes.attempt("tree", lambda: run.load(0, checkpointable_name="tree"))
        notes.attempt("state", lambda: run.load(0))


@case
def deleted(ocp: Any, notes: Notes) -> None:
    with ocp.training.Checkpointer(notes.root / "run") as run:
        for step in range(4):
            run.save_checkpointables(step, {"a": tree(1), "b": tree(2)})
        notes.attempt("whole", lambda: run.delete(1))
        notes.see("steps", steps_of(run))
        notes.disk(run)
        notes.attempt("again", lambda: run.delete(1))
        notes.attempt("missing", lambda: run.delete(1, missing_ok=True))
        notes.attempt("part", lambda: run.delete(2, checkpointable_name="a"))
        notes.attempt("loaded", lambda: run.load_checkpointables(2))
        notes.attempt("last", lambda: run.delete(2, checkpointable_name="b"))
        for name in ("metrics", "AUTO", "", "x/y", "..", 5, "nothing"):
            notes.attempt(
                f"name {name}",
                lambda n=name: run.delete(2, checkpointable_name=n),
            )
        for step in (True, -1, "2", None, 1.0):
            notes.attempt(f"step {step}", lambda s=step: run.delete(s))
        notes.attempt("bad missing", lambda: run.delete(2, missing_ok=1))
        notes.attempt("by metadata", lambda: run.delete(run.checkpoints[0]))
        notes.attempt("async", lambda: run.delete_async(3).result())
        notes.see("steps", steps_of(run))
        notes.disk(run)


@case
def free_functions(ocp: Any, notes: Notes) -> None:
    root = notes.root
    ocp.save_checkpointables(root / "c", {"a": tree(1), "b": tree(2)})
    ocp.save(root / "one", tree(1))
    (root / "file").write_text("x")
    (root / "plain").mkdir()
    (root / "plain" / "file").write_text("x")
    (root / "hollow").mkdir()
    (root / "link").symlink_to(root / "c")
    for name in ("file", "plain", "link", "nothing", "c/a", "one/state"):
        notes.attempt(name, lambda n=name: ocp.delete(root / n))
    notes.attempt("nothing", lambda: ocp.delete(root / "no", missing_ok=True))
    notes.attempt("hollow", lambda: ocp.delete(root / "hollow"))
    notes.attempt(
        "final", lambda: ocp.delete(root / "one", checkpointable_name="state")
    )
    notes.attempt(
        "part", lambda: ocp.delete(root / "c", checkpointable_name="a")
    )
    notes.attempt(
        "part again", lambda: ocp.delete(root / "c", checkpointable_name="a")
    )
    notes.attempt(
        "part missing",
        lambda: ocp.delete(
            root / "c", checkpointable_name="a", missing_ok=True
        ),
    )
    notes.attempt("loaded", lambda: ocp.load_checkpointables(root / "c"))
    notes.attempt("whole", lambda: ocp.delete_async(root / "c").result())
    notes.see("disk", sorted(n for n in os.listdir(root) if n[0] != "."))


@case
def interrupted_deletion(ocp: Any, notes: Notes) -> None:
    path = notes.root / "c"
    ocp.save_checkpointables(path, {"a": tree(1), "b": tree(2), "x": tree(3)})
    metadata = json.loads((path / "_CHECKPOINT_METADATA").read_text())
    handlers = metadata["item_handlers"]
    rest = {k: v for k, v in handlers.items() if k != "a"}
    record = {
        "operation_id": "0123456789abcdef" * 2,
        "checkpointable_name": "a",
        "destination": None,
        "original_metadata": metadata,
        "updated_metadata": {**metadata, "item_handlers": rest},
    }
    file = path / "_CHECKPOINT_DELETION"
    file.write_text(json.dumps(record))

    def delete(name: str) -> Any:
        return ocp.delete(path, checkpointable_name=name)

    notes.attempt("all", lambda: ocp.load_checkpointables(path))
    notes.attempt("named", lambda: ocp.load_checkpointables(path, {"b": None}))
    notes.attempt("gone", lambda: ocp.load_checkpointables(path, {"a": None}))
    notes.attempt("load", lambda: ocp.load(path, checkpointable_name="a"))
    notes.attempt("load b", lambda: ocp.load(path, checkpointable_name="b"))
    notes.attempt("auto", lambda: ocp.load(path))
    notes.attempt("metadata", lambda: ocp.checkpointables_metadata(path))
    notes.attempt("metadata a", lambda: ocp.metadata(path, "a"))
    notes.attempt("is", lambda: ocp.is_orbax_checkpoint(path))
    notes.attempt("over", lambda: ocp.save(path, tree(1), overwrite=True))
    notes.attempt("other", lambda: delete("b"))
    shutil.rmtree(path / "a")
    notes.attempt("all", lambda: ocp.load_checkpointables(path))
    notes.attempt("finished", lambda: delete("a"))
    notes.see("record", file.exists())
    notes.attempt("all", lambda: ocp.load_checkpointables(path))
    text = (path / "_CHECKPOINT_METADATA").read_text()
    notes.see("handlers", json.loads(text)["item_handlers"])
    for damaged in (
        "",
        "[]",
        "{}",
        json.dumps({**record, "operation_id": "x"}),
        json.dumps({**record, "destination": 5}),
        json.dumps({**record, "checkpointable_name": ".."}),
        json.dumps({**record, "updated_metadata": {}}),
        json.dumps(record),
    ):
        file.write_text(damaged)
        notes.attempt("damaged", lambda: ocp.load_checkpointables(path))
        notes.attempt("damaged", lambda: delete("b"))
    notes.attempt("whole", lambda: ocp.delete(path))
    notes.see("disk", path.exists())
