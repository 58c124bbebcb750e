"""training.Checkpointer: the ways in which background saves end, retention, and
several Checkpointers of one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
import holdfast.orbax
from holdfast import _engine, errors
from holdfast.orbax import v1
from holdfast.orbax._manager import trash

training = v1.training
policies = training.preservation_policies


def tree(step: int) -> dict[str, Any]:
    return {"w": np.full(1000, step), "n": step}


def names(root: Path) -> list[str]:
    return sorted(os.listdir(root))


def steps_of(run: training.Checkpointer) -> list[int]:
    return [checkpoint.step for checkpoint in run.checkpoints]


class Gate:
    """A checkpointable whose write waits or fails, as the test chooses."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()
        self.error: BaseException | None = None

    async def save(self, directory: Any) -> Any:
        async def write() -> None:
            await directory.await_creation()
            self.has_begun.set()
            self.may_go_on.wait()
            if self.error is not None:
                raise self.error

        return write()

    async def load(self, directory: Any) -> Any:
        raise NotImplementedError

    def fail(self) -> None:
        self.error = OSError("no space left")
        self.may_go_on.set()


def begin(
    run: training.Checkpointer, step: int, **options: Any
) -> tuple[Any, Gate]:
    """Begins a save that runs until its gate is opened; returns both."""
    gate = Gate()
    response = run.save_checkpointables_async(
        step, {"state": tree(step), "gate": gate}, force=True, **options
    )
    gate.has_begun.wait()
    return response, gate


def test_states(tmp_path: Path) -> None:
    with training.Checkpointer(tmp_path) as run:
        response, gate = begin(run, 3)
        assert response.state == "staged" and run.is_saving_in_progress()
        assert steps_of(run) == [3] and not (tmp_path / "3").exists()
        with pytest.raises(TimeoutError):
            response.result(timeout=0.01)
        ended: list[bool] = []
        response.on_complete(ended.append)
        gate.may_go_on.set()
        assert response.result() is True and ended == [True]
        assert response.state == "durable" and not run.is_saving_in_progress()
        assert run.load(3)["n"] == 3


def test_what_is_changed_after_the_call_is_not_saved(tmp_path: Path) -> None:
    with training.Checkpointer(tmp_path) as run:
        state = tree(5)
        metrics = {"loss": [1, 2]}
        gate = Gate()
        run.save_checkpointables_async(
            0, {"state": state, "gate": gate}, metrics=metrics
        )
        state["w"][:] = -1
        metrics["loss"].append(3)
        gate.may_go_on.set()
        run.wait()
        np.testing.assert_array_equal(run.load()["w"], np.full(1000, 5))
    with training.Checkpointer(tmp_path) as run:
        assert run.latest.metrics == {"loss": [1, 2]}


def test_a_failure_is_raised_by_result(tmp_path: Path) -> None:
    with training.Checkpointer(tmp_path) as run:
        run.save(1, tree(1))
        response, gate = begin(run, 2)
        gate.fail()
        for _ in range(2):
            with pytest.raises(OSError, match="no space left"):
                response.result()
        assert response.state == "failed"
        # The error was already reported, so later calls do not raise it.
        assert steps_of(run) == [1]
        run.save(3, tree(3))
        assert names(tmp_path) == ["1", "3"]


@pytest.mark.parametrize("how", ["save", "wait", "close", "delete"])
def test_a_failure_that_nobody_has_seen_is_raised_once(
    tmp_path: Path, how: str
) -> None:
    run = training.Checkpointer(tmp_path)
    run.save(1, tree(1))
    calls: dict[str, Callable[[], Any]] = {
        "save": lambda: run.save(3, tree(3), force=True),
        "wait": run.wait,
        "close": run.close,
        "delete": lambda: run.delete(1),
    }
    _, gate = begin(run, 2)
    gate.fail()
    with pytest.raises(OSError, match="no space left"):
        calls[how]()
    assert steps_of(run) == [1] and names(tmp_path) == ["1"]
    calls[how]()
    run.close()


def test_steps_that_a_failed_save_would_have_replaced_stay(
    tmp_path: Path,
) -> None:
    with training.Checkpointer(
        tmp_path, preservation_policy=policies.LatestN(2)
    ) as run:
        run.save(1, tree(1))
        run.save(2, tree(2))
        response, gate = begin(run, 3)
        assert steps_of(run) == [2, 3]
        gate.fail()
        assert isinstance(response.exception(), OSError)
        assert steps_of(run) == [1, 2] and run.latest.step == 2
        assert names(tmp_path) == ["1", "2"]
        response, gate = begin(run, 2, overwrite=True)
        gate.fail()
        with pytest.raises(OSError, match="no space left"):
            response.result()
        assert steps_of(run) == [1, 2] and run.load(2)["n"] == 2


def test_one_save_at_a_time(tmp_path: Path) -> None:
    with training.Checkpointer(tmp_path) as run:
        _, gate = begin(run, 1)
        # The policy skips steps while a save is running.
        assert not run.should_save(2) and run.save(2, tree(2)) is False
        assert run.save_async(2, tree(2)) is None
        timer = threading.Timer(0.05, gate.may_go_on.set)
        timer.start()
        assert run.save(3, tree(3), force=True)
        assert not run.is_saving_in_progress() and steps_of(run) == [1, 3]
        timer.join()


def test_cancelling(tmp_path: Path) -> None:
    with training.Checkpointer(
        tmp_path, preservation_policy=policies.LatestN(1)
    ) as run:
        run.save(1, tree(1))
        response, gate = begin(run, 2)
        opener = threading.Thread(
            target=lambda: (cancelled.wait(), gate.may_go_on.set())
        )
        cancelled = threading.Event()
        opener.start()
        assert response.cancel()
        cancelled.set()
        run.cancel()
        opener.join()
        with pytest.raises(errors.CancelledError):
            response.result()
        assert response.state == "cancelled"
        assert steps_of(run) == [1] and names(tmp_path) == ["1"]
        # The committed step's files are deleted.
        assert run.save_async(2, tree(2)).result()
        run.cancel()
        assert steps_of(run) == [2]
        run.cancel(2)
        assert steps_of(run) == []
        run.cancel(7)


def test_the_engine_stops_when_a_save_is_cancelled(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, 4 << 20, np.uint8)
    noise &= 0x77
    large = {f"a{i}": noise for i in range(40)}
    with training.Checkpointer(tmp_path) as run:
        response = run.save_async(0, large)
        run.cancel()
        with pytest.raises(errors.CancelledError):
            response.result()
        assert names(tmp_path) == []


def test_the_last_good_step_stays(tmp_path: Path) -> None:
    for n, policy in enumerate(
        [
            policies.LatestN(0),
            policies.CustomSteps([]),
            policies.EveryNSteps(50),
        ]
    ):
        root = tmp_path / str(n)
        with training.Checkpointer(root, preservation_policy=policy) as run:
            for step in (1, 2, 3):
                run.save(step, tree(step))
                assert steps_of(run) == [step]
        assert names(root) == ["3"]


def test_removed_steps_are_out_of_the_way_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_remove = threading.Event()
    remove = trash.remove_entry

    def wait_and_remove(path: str) -> None:
        may_remove.wait()
        remove(path)

    monkeypatch.setattr(trash, "remove_entry", wait_and_remove)
    run = training.Checkpointer(
        tmp_path, preservation_policy=policies.LatestN(1)
    )
    for step in range(4):  # None of them waits for removals.
        run.save(step, tree(step))
    assert names(tmp_path) == [trash.TRASH_NAME, "3"]
    assert len(names(tmp_path / trash.TRASH_NAME)) == 3
    assert holdfast.orbax.CheckpointManager(tmp_path).all_steps() == [3]
    assert holdfast.steps(tmp_path) == [3]
    may_remove.set()
    run.close()
    assert names(tmp_path) == ["3"]


def test_what_a_dead_process_was_removing_is_removed(tmp_path: Path) -> None:
    with training.Checkpointer(tmp_path) as run:
        for step in range(3):
            run.save(step, tree(step))
    _engine.dispose_of_steps(str(tmp_path), ["0"])
    kept = tmp_path / trash.TRASH_NAME / "7.0123"
    kept.mkdir()
    with training.Checkpointer(
        tmp_path, preservation_policy=policies.LatestN(1)
    ) as run:
        assert steps_of(run) == [1, 2]
        run.save(3, tree(3))
    # A step in the trash that another program has put there stays.
    assert names(tmp_path) == [trash.TRASH_NAME, "3"]
    assert names(tmp_path / trash.TRASH_NAME) == ["7.0123"]


def test_a_failing_removal_does_not_fail_the_save(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with training.Checkpointer(
        tmp_path, preservation_policy=policies.LatestN(1)
    ) as run:
        run.save(0, tree(0))
        with training.Checkpointer(tmp_path) as other:
            other.delete(0)
        assert run.save(1, tree(1))
        assert steps_of(run) == [1] and names(tmp_path) == ["1"]


def test_a_step_that_another_has_saved_is_not_replaced(tmp_path: Path) -> None:
    run = training.Checkpointer(tmp_path)
    with training.Checkpointer(tmp_path) as other:
        other.save(1, tree(1))
    with pytest.raises(training.errors.StepAlreadyExistsError, match="reload"):
        run.save(1, tree(9))
    run.reload()
    assert run.load(1)["n"] == 1
    run.close()


def test_the_context_counts(tmp_path: Path) -> None:
    called: list[str] = []
    context = v1.Context()
    context.array.saving.use_zarr3 = False
    context.asynchronous.post_finalization_callback = lambda: called.append(
        ",".join(names(tmp_path))
    )
    run = training.Checkpointer(tmp_path, context=context)
    context.array.saving.use_zarr3 = True  # The Checkpointer has a copy.
    run.save(0, tree(0))
    run.save_async(1, tree(1)).result()
    assert called == ["0", "0,1"]
    metadata = json.loads((tmp_path / "0" / "state" / "_METADATA").read_text())
    assert metadata["use_zarr3"] is False
    run.close()


def test_directories_may_be_made_before_the_call_returns(
    tmp_path: Path,
) -> None:
    context = v1.Context()
    context.asynchronous.create_directories_asynchronously = False
    with context:
        gate = Gate()
        gate.may_go_on.set()
        response = v1.save_checkpointables_async(tmp_path / "a", {"gate": gate})
        made = names(tmp_path)
        response.result()
    assert made in (["a"], ["a.orbax-checkpoint-tmp"])


def test_lightweight(tmp_path: Path) -> None:
    with training.Checkpointer(tmp_path) as run:
        run.save(0, tree(0), metrics={"loss": 1})
    with training.Checkpointer(tmp_path, lightweight_initialize=True) as run:
        assert run.latest.metrics is None and run.load()["n"] == 0
        run.reload()
        assert run.latest.metrics == {"loss": 1}


def test_cleaning_up_leaves_a_save_that_goes_on(tmp_path: Path) -> None:
    with training.Checkpointer(tmp_path) as run:
        response, gate = begin(run, 1)
        half = tmp_path / "2.orbax-checkpoint-tmp"
        half.mkdir()
        training.Checkpointer(tmp_path, cleanup_tmp_directories=True).close()
        assert names(tmp_path) == ["1.orbax-checkpoint-tmp"]
        gate.may_go_on.set()
        response.result()
        assert run.load()["n"] == 1


def test_a_thousand_steps(tmp_path: Path) -> None:
    """Opening a run of a thousand steps reads only their names."""
    for step in range(1000):
        (tmp_path / str(step)).mkdir()
    reads: list[Any] = []
    real_open = open

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "builtins.open",
            lambda *a, **k: (reads.append(a[0]), real_open(*a, **k))[1],
        )
        run = training.Checkpointer(tmp_path)
        assert run.should_save(1000)
    assert reads == []
    assert run.latest.step == 999


@pytest.mark.filterwarnings("ignore")
def test_corpus(tmp_path: Path) -> None:
    """Every step that Orbax's Checkpointer wrote is found, and restores its
    values."""
    jax = pytest.importorskip("jax")
    pytest.importorskip("ml_dtypes")
    import replay_cases

    del jax
    corpus = replay_cases.unpack_corpus(tmp_path)
    count = 0
    for case in sorted(corpus.glob("v1_training_*/expected.json")):
        expected = json.loads(case.read_text("utf-8"))
        root = case.parent / expected["root"]
        run = training.Checkpointer(root)
        want = expected["steps"]
        assert steps_of(run) == [step["step"] for step in want]
        metadata = expected["root_metadata"]["_ROOT_METADATA"]
        custom = metadata["custom_metadata"]
        assert run.root_metadata().custom_metadata == custom
        for step, known in zip(want, run.checkpoints, strict=True):
            record = step["checkpoint_metadata"]
            described = run.metadata(step["step"])
            assert known.metrics == step["metrics"] == described.metrics
            for field in ("init_timestamp_nsecs", "commit_timestamp_nsecs"):
                assert getattr(described, field) == record[field]
            assert described.custom_metadata == record["custom_metadata"]
            digests = holdfast.digest(root / str(step["step"]) / "state")
            assert digests and run.load(known)
            count += 1
        run.close()
    assert count >= 3


TRAINING_PROGRAM = """
import sys
import numpy as np
from holdfast.orbax import v1

policies = v1.training.preservation_policies
with v1.training.Checkpointer(
    sys.argv[1], preservation_policy=policies.LatestN(2)
) as run:
    first = run.latest.step + 1 if run.latest else 0
    for step in range(first, first + 50):
        tree = {f"a{i}": np.full(20_000, step) for i in range(10)}
        print("begin", flush=True)
        response = run.save_async(step, tree, force=True)
        print("staged", flush=True)
        if step % 3:
            response.result()
            print("durable", flush=True)
"""


def test_a_run_that_is_killed_again_and_again(tmp_path: Path) -> None:
    root = tmp_path / "run"
    before = -1
    for line_count in (2, 5, 9, 13, 16):
        with subprocess.Popen(
            [sys.executable, "-c", TRAINING_PROGRAM, root],
            stdout=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout is not None
            lines = [program.stdout.readline() for _ in range(line_count)]
            program.kill()
        assert lines[0] == "begin\n"
        with training.Checkpointer(root) as run:
            steps = steps_of(run)
            for step in steps:
                assert holdfast.verify(root / str(step)).ok
                for array in run.load(step).values():
                    np.testing.assert_array_equal(array, np.full(20_000, step))
            if "durable\n" in lines:
                assert steps[-1] > before
            before = steps[-1] if steps else before
    with training.Checkpointer(root, cleanup_tmp_directories=True) as run:
        run.wait()
        kept = {str(step) for step in steps_of(run)}
    assert set(names(root)) - {trash.TRASH_NAME} == kept
