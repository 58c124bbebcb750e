"""CheckpointManager saves, keeps and deletes."""

from __future__ import annotations

import datetime
import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ocp
from holdfast import _engine
from holdfast.orbax import checkpoint_managers
from holdfast.orbax._manager import trash
from holdfast.orbax.checkpoint_manager import StepAlreadyExistsError


def state(step: int) -> ocp.args.StandardSave:
    return ocp.args.StandardSave({"w": np.arange(4) + step})


def options(**given: Any) -> ocp.CheckpointManagerOptions:
    return ocp.CheckpointManagerOptions(**given)


class Gate:
    """Holds a save back before its commit."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.fails = False

    def __call__(self) -> None:
        self.reached.set()
        assert self.opened.wait(timeout=60)
        if self.fails:
            raise OSError("the disk has gone")


def gated(root: Path, **given: Any) -> tuple[ocp.CheckpointManager, Gate]:
    gate = Gate()
    async_options = ocp.AsyncOptions(post_finalization_callback=gate)
    chosen = options(async_options=async_options, **given)
    return ocp.CheckpointManager(root, options=chosen), gate


def steps_on_disk(root: Path) -> list[str]:
    return sorted(n for n in os.listdir(root) if n != trash.TRASH_NAME)


def test_save_in_the_background(tmp_path: Path) -> None:
    manager, gate = gated(tmp_path)
    args = state(1)
    assert manager.save(1, args=args)
    args.item["w"][:] = 99
    assert gate.reached.wait(60)
    assert manager.is_saving_in_progress()
    assert manager.all_steps() == [1]
    assert steps_on_disk(tmp_path) == ["1.orbax-checkpoint-tmp"]
    gate.opened.set()
    manager.wait_until_finished()
    assert not manager.is_saving_in_progress()
    np.testing.assert_array_equal(manager.restore(1)["w"], [1, 2, 3, 4])
    manager.close()


def test_old_steps_stay_until_the_new_one_exists(tmp_path: Path) -> None:
    manager, gate = gated(tmp_path, max_to_keep=1)
    gate.opened.set()
    manager.save(1, args=state(1))
    manager.wait_until_finished()
    gate.opened.clear()
    gate.reached.clear()
    manager.save(2, args=state(2))
    assert gate.reached.wait(60)
    assert "1" in steps_on_disk(tmp_path)
    gate.opened.set()
    manager.close()
    assert steps_on_disk(tmp_path) == ["2"]
    assert os.listdir(tmp_path) == ["2"]


def test_a_failed_save_deletes_nothing(tmp_path: Path) -> None:
    manager, gate = gated(tmp_path, max_to_keep=1)
    gate.opened.set()
    manager.save(1, args=state(1))
    manager.wait_until_finished()
    gate.fails = True
    manager.save(2, args=state(2))
    with pytest.raises(OSError, match="the disk has gone"):
        manager.wait_until_finished()
    assert manager.all_steps() == [1]
    assert steps_on_disk(tmp_path) == ["1"]
    manager.wait_until_finished()  # the error is reported only once
    gate.fails = False
    assert manager.save(2, args=state(2))
    manager.close()
    assert steps_on_disk(tmp_path) == ["2"]


@pytest.mark.parametrize(
    ("is_async", "in_background"), [(True, False), (True, True), (False, True)]
)
def test_no_save_waits_for_removing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_async: bool,
    in_background: bool,
) -> None:
    removing = threading.Event()
    go_on = threading.Event()
    remove = trash.remove_entry

    def slow(path: str) -> None:
        removing.set()
        assert go_on.wait(60)
        remove(path)

    monkeypatch.setattr(trash, "remove_entry", slow)
    chosen = options(
        max_to_keep=1,
        enable_async_checkpointing=is_async,
        enable_background_delete=in_background,
    )
    manager = ocp.CheckpointManager(tmp_path, options=chosen)
    for step in range(4):
        assert manager.save(step, args=state(step))
    assert removing.wait(60)
    if in_background:
        manager.wait_until_finished()
        assert steps_on_disk(tmp_path) == ["3"]
        assert len(os.listdir(tmp_path / trash.TRASH_NAME)) == 3
    go_on.set()
    manager.wait_until_finished()
    if in_background:
        manager.close()
    assert os.listdir(tmp_path) == ["3"]


def test_nothing_is_left_of_deleted_steps(tmp_path: Path) -> None:
    for is_async in (True, False):
        root = tmp_path / str(is_async)
        chosen = options(max_to_keep=2, enable_async_checkpointing=is_async)
        manager = ocp.CheckpointManager(root, options=chosen)
        for step in range(5):
            manager.save(step, args=state(step))
            if is_async:
                manager.wait_until_finished()
            kept = [str(s) for s in range(max(0, step - 1), step + 1)]
            assert sorted(os.listdir(root)) == kept
        manager.delete(3)
        assert os.listdir(root) == ["4"]
        manager.close()


def test_the_next_manager_removes_leftovers(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(1, args=state(1))
        manager.save(2, args=state(2))
    _engine.dispose_of_steps(str(tmp_path), ["1"])
    wanted_back = tmp_path / trash.TRASH_NAME / "5.123"
    wanted_back.mkdir()
    assert ocp.CheckpointManager(
        tmp_path, options=options(read_only=True)
    ).all_steps() == [2]
    assert len(os.listdir(wanted_back.parent)) == 2
    manager = ocp.CheckpointManager(tmp_path)
    manager.close()
    for thread in threading.enumerate():
        if thread.name == "holdfast: remove":
            thread.join()
    assert os.listdir(wanted_back.parent) == ["5.123"]


def test_the_last_step_stays(tmp_path: Path) -> None:
    with ocp.CheckpointManager(
        tmp_path, options=options(max_to_keep=0)
    ) as manager:
        for step in range(3):
            manager.save(step, args=state(step))
            assert manager.all_steps() == [step]
    assert os.listdir(tmp_path) == ["2"]


def test_delete(tmp_path: Path) -> None:
    manager = ocp.CheckpointManager(tmp_path)
    for step in range(3):
        manager.save(step, args=state(step))
    manager.delete(2)  # waits for its save
    manager.delete(0)
    assert manager.all_steps() == [1]
    assert os.listdir(tmp_path) == ["1"]
    with pytest.raises(FileNotFoundError) as caught:
        manager.delete(2)
    assert str(caught.value) == "Requested deleting a non-existent step: 2."
    manager.close()


def test_todelete(tmp_path: Path) -> None:
    chosen = options(max_to_keep=1, todelete_subdir="old")
    with ocp.CheckpointManager(tmp_path, options=chosen) as manager:
        for step in range(3):
            manager.save(step, args=state(step))
    assert sorted(os.listdir(tmp_path / "old")) == ["0", "1"]
    chosen = options(max_to_keep=1, todelete_full_path="x")
    manager = ocp.CheckpointManager(tmp_path, options=chosen)
    manager.save(3, args=state(3))
    with pytest.raises(NotImplementedError):
        manager.wait_until_finished()
    manager.close()
    assert manager.all_steps() == [2]


def test_arguments(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path) as manager:
        with pytest.raises(ValueError, match="^Must provide `args` for `save`"):
            manager.save(0)
        assert manager.save(1, args=state(1))
        assert not manager.save(0, args=state(0))
        assert not manager.save(1, args=state(1))
        with pytest.raises(StepAlreadyExistsError) as caught:
            manager.save(1, args=state(1), force=True)
        assert str(caught.value) == "Checkpoint for step 1 already exists."
        assert not manager.is_saving_in_progress()
        with pytest.raises(ValueError, match="Cannot provide `args` of type"):
            manager.save(2, args=ocp.args.Composite(a=state(2)))
        with pytest.raises(ValueError, match="Found an instance of"):
            manager.save(2, state(2))
    with ocp.CheckpointManager(tmp_path / "many", item_names=("a",)) as manager:
        with pytest.raises(ValueError, match="^Must provide `args` of type"):
            manager.save(1, args=state(1))
        with pytest.raises(ValueError, match="does not match with any"):
            manager.save(1, args=ocp.args.Composite(b=state(1)))
        assert manager.all_steps() == []


def test_continuous_checkpointing(tmp_path: Path) -> None:
    gate = Gate()
    chosen = checkpoint_managers.continuous_checkpointing_options(
        4, async_options=ocp.AsyncOptions(post_finalization_callback=gate)
    )
    manager = ocp.CheckpointManager(tmp_path, options=chosen)
    assert manager.save(1, args=state(1))
    assert gate.reached.wait(timeout=60)
    assert not manager.save(2, args=state(2))
    assert manager.should_save(4), "a multiple waits for the save before"
    gate.opened.set()
    assert manager.save(4, args=state(4))
    manager.wait_until_finished()
    assert manager.save(5, args=state(5)), "no save is running"
    manager.close()
    assert manager.all_steps() == [1, 4, 5]
    for wrong, error in (
        (0, ValueError),
        (dict(save_decision_policy=None), TypeError),
        (dict(no_such_option=1), TypeError),
    ):
        given = wrong if isinstance(wrong, dict) else {}
        interval = 4 if isinstance(wrong, dict) else wrong
        with pytest.raises(error):
            checkpoint_managers.continuous_checkpointing_options(
                interval, **given
            )


def test_read_only(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(1, args=state(1))
    chosen = options(read_only=True)
    with ocp.CheckpointManager(tmp_path, options=chosen) as manager:
        assert not manager.save(2, args=state(2))
        manager.delete(1)
        assert manager.save(3, args=state(3), force=True)
    assert sorted(os.listdir(tmp_path)) == ["1", "3"]


def test_legacy_calls(tmp_path: Path) -> None:
    saver = ocp.PyTreeCheckpointer()
    with ocp.CheckpointManager(tmp_path / "one", saver) as manager:
        save_args = {"a": ocp.SaveArgs(dtype=np.dtype(np.float16))}
        manager.save(1, {"a": np.arange(3.0)}, {"save_args": save_args})
        assert manager.restore(1)["a"].dtype == np.float16
    both = {"x": ocp.PyTreeCheckpointer(), "y": ocp.StandardCheckpointer()}
    with ocp.CheckpointManager(tmp_path / "two", both) as manager:
        manager.save(1, {"x": {"a": 1}, "y": {"b": 2}})
        manager.wait_until_finished()
        restored = manager.restore(1, {"x": None, "y": None})
    assert restored["x"] == {"a": 1} and restored["y"] == {"b": 2}


def test_metrics_and_metadata(tmp_path: Path) -> None:
    def loss(metrics: Any) -> float:
        return float(metrics["loss"])

    chosen = options(best_fn=loss, best_mode="min", max_to_keep=2)
    with ocp.CheckpointManager(
        tmp_path, options=chosen, metadata={"run": 1}
    ) as manager:
        for step, value in enumerate([3.0, 1.0, 2.0, 4.0]):
            manager.save(
                step,
                args=state(step),
                metrics={"loss": value},
                custom_metadata={"lr": value},
            )
        assert manager.best_step() == 1
        assert manager.all_steps() == [1, 2]
        assert manager.latest_step() == 2
        manager.wait_until_finished()
        assert manager.metrics(2) == {"loss": 2.0}
        metadata = manager.metadata(2)
        assert metadata.metrics == {"loss": 2.0}
        assert metadata.custom_metadata == {"lr": 2.0}
        assert manager.metadata().custom_metadata == {"run": 1}
    with ocp.CheckpointManager(tmp_path, metadata={"run": 2}) as manager:
        assert manager.metadata().custom_metadata == {"run": 1}


def test_cleanup(tmp_path: Path) -> None:
    (tmp_path / "5.orbax-checkpoint-tmp" / "default").mkdir(parents=True)
    (tmp_path / "6.orbax-checkpoint-tmp-1234").mkdir()
    (tmp_path / "mine").mkdir()
    chosen = options(cleanup_tmp_directories=True)
    with ocp.CheckpointManager(tmp_path, options=chosen) as manager:
        manager.save(7, args=state(7))
    assert sorted(os.listdir(tmp_path)) == ["7", "mine"]


def test_cleanup_beside_markers(tmp_path: Path) -> None:
    """A cleanup removes only what a save has made, not every directory without
    a marker."""
    marks = ocp.options.AtomicityOptions(
        mode=ocp.options.AtomicityMode.COMMIT_FILE
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("keep")
    (tmp_path / "4").mkdir()
    (tmp_path / "4" / "_CHECKPOINT_METADATA").write_text("{}")
    chosen = options(cleanup_tmp_directories=True, atomicity_options=marks)
    with ocp.CheckpointManager(
        tmp_path, options=chosen, metadata={"a": 1}
    ) as manager:
        assert manager.all_steps() == []
        manager.save(7, args=state(7))
    assert sorted(os.listdir(tmp_path)) == ["7", "metadata", "mine"]


def test_readers_beside_a_writer(tmp_path: Path) -> None:
    """A reader finds only complete steps."""
    done = threading.Event()
    problems: list[Any] = []

    def read() -> None:
        while not done.is_set():
            reader = ocp.CheckpointManager(
                tmp_path, options=options(read_only=True)
            )
            for step in reversed(reader.all_steps()):
                try:
                    found = reader.restore(step)["w"]
                except (FileNotFoundError, ValueError) as error:
                    # Correct only if the step was deleted in the meantime.
                    reader.reload()
                    if step in reader.all_steps():
                        problems.append((step, error))
                    continue
                if not np.array_equal(found, np.arange(4) + step):
                    problems.append((step, found))
            reader.close()

    with ocp.CheckpointManager(
        tmp_path, options=options(max_to_keep=2)
    ) as manager:
        manager.save(0, args=state(0))
        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for step in range(1, 15):
            manager.save(step, args=state(step))
        manager.wait_until_finished()
        done.set()
        for reader in readers:
            reader.join()
    assert problems == []


def test_logger(tmp_path: Path) -> None:
    entries: list[Any] = []

    class Logger(ocp.logging.AbstractLogger):
        def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
            entries.append(msg)

    logger = ocp.logging.CompositeLogger(Logger())
    with ocp.CheckpointManager(tmp_path, logger=logger) as manager:
        manager.save(3, args=state(3))
        manager.restore(3)
    kinds = [(entry["event_type"], entry["step"]) for entry in entries]
    assert kinds == [("save", 3), ("restore", 3)]
    assert entries[0]["synchronous"] is False


def test_steps_are_read_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step's files are opened until they are needed; then one call reads all
    steps."""
    described: list[list[str]] = []
    describe = _engine.describe_steps

    def counted(paths: list[str]) -> Any:
        described.append(paths)
        return describe(paths)

    monkeypatch.setattr(_engine, "describe_steps", counted)
    for step in range(50):
        (tmp_path / str(step)).mkdir()
        (tmp_path / str(step) / "_CHECKPOINT_METADATA").touch()
    found = ocp.CheckpointManager(tmp_path)
    assert found.latest_step() == 49
    assert described == []
    for info in found._checkpoints:
        assert info.metrics is None
        assert isinstance(info.time, datetime.datetime)
    assert described == [[str(tmp_path / str(step)) for step in range(50)]]


def _random_policy(rng: random.Random, ocp_: Any, depth: int = 0) -> Any:
    policies = ocp_.checkpoint_managers.preservation_policy
    kinds = [
        lambda: policies.LatestN(rng.choice([None, 0, 1, 3, 9])),
        lambda: policies.PreserveAll(),
        lambda: policies.EveryNSeconds(rng.choice([1, 60, 3600])),
        lambda: policies.EveryNSteps(
            rng.choice([1, 2, 5]), rng.random() < 0.5, rng.choice([None, 0, 2])
        ),
        lambda: policies.EveryNStepsClosest(
            rng.choice([2, 4, 7]), rng.choice([None, 0, 1, 3])
        ),
        lambda: policies.CustomSteps(rng.sample(range(30), 4)),
        lambda: policies.BestN(
            get_metric_fn=lambda metrics: metrics["loss"],
            reverse=rng.random() < 0.5,
            n=rng.choice([None, 0, 1, 3]),
            keep_checkpoints_without_metrics=rng.random() < 0.5,
        ),
        lambda: policies.LatestDuration(
            datetime.timedelta(minutes=rng.choice([1, 30, 500]))
        ),
    ]
    if depth == 0 and rng.random() < 0.4:
        count = rng.choice([1, 2, 3])
        return policies.AnyPreservationPolicy(
            [_random_policy(rng, ocp_, 1) for _ in range(count)]
        )
    return rng.choice(kinds)()


def test_policies_answer_as_orbax_does() -> None:
    stock = pytest.importorskip("orbax.checkpoint")
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    for seed in range(3000):
        rng = random.Random(seed)
        count = rng.randrange(12)
        steps = sorted(rng.sample(range(30), count))
        infos = [
            ocp.checkpoint_manager.CheckpointInfo(
                step,
                now - datetime.timedelta(minutes=rng.randrange(100)),
                rng.choice([None, {"loss": rng.randrange(4)}]),
            )
            for step in steps
        ]
        infos.sort(key=lambda info: info.step)
        answers = []
        for package in (stock, ocp):
            policy = _random_policy(random.Random(seed), package)
            policies = package.checkpoint_managers.preservation_policy
            context = policies.PreservationContext()
            answers.append(policy.should_preserve(infos, context=context))
        assert list(answers[0]) == list(answers[1]), seed
    with pytest.raises(ValueError, match="interval_steps must not be 0"):
        checkpoint_managers.EveryNSteps(0).should_preserve(
            [], context=checkpoint_managers.PreservationContext()
        )


def test_errors_of_a_users_function_come_through() -> None:
    """If a user's function, which the engine calls, raises, the user gets that
    exception."""
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    infos = [
        ocp.checkpoint_manager.CheckpointInfo(step, now, {"a": step})
        for step in range(3)
    ]

    def metric(metrics: dict[str, int]) -> float:
        return metrics["gone"]

    keep = checkpoint_managers.BestN(get_metric_fn=metric, n=1)
    context = checkpoint_managers.PreservationContext()
    with pytest.raises(KeyError, match="gone") as caught:
        keep.should_preserve(infos, context=context)
    assert caught.traceback[-1].name == "metric"
    few = keep.should_preserve(infos[:1], context=context)
    assert few == [True]  # with so few steps, none is ranked

    def should_save(step: int, latest: int | None) -> bool:
        raise RuntimeError(f"{step} after {latest}")

    save = ocp.checkpoint_manager._ShouldSaveFnPolicy(should_save)
    with pytest.raises(RuntimeError, match="9 after 2"):
        save.should_save(
            ocp.checkpoint_manager.CheckpointInfo(9, now, None),
            infos,
            context=checkpoint_managers.DecisionContext(
                is_saving_in_progress=False,
                reached_preemption=False,
                multiprocessing_options=ocp.options.MultiprocessingOptions(),
            ),
        )


def test_preemption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step at which the program is about to be preempted is saved."""
    utils = pytest.importorskip("jax.experimental.multihost_utils")
    monkeypatch.setattr(
        utils, "reached_preemption_sync_point", lambda step: step == 7
    )
    chosen = options(save_interval_steps=5)
    with ocp.CheckpointManager(tmp_path, options=chosen) as manager:
        saved = [s for s in range(9) if manager.save(s, args=state(s))]
        assert saved == [0, 5, 7]
        assert manager.reached_preemption(7)


def test_root_metadata_is_orbaxs(tmp_path: Path) -> None:
    ocp.CheckpointManager(tmp_path, metadata={"a": [1]}).close()
    assert os.listdir(tmp_path / "metadata") == ["_ROOT_METADATA"]
    text = (tmp_path / "metadata" / "_ROOT_METADATA").read_text()
    assert json.loads(text) == {
        "internal_metadata": {},
        "custom_metadata": {"a": [1]},
    }
