"""Systems on which no more threads can be started."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast import errors, megatron
from holdfast.orbax import (
    AsyncCheckpointer,
    CheckpointManager,
    PyTreeCheckpointHandler,
    args,
)
from holdfast.orbax.future import CommitFuture

TREE = {"a": np.arange(1000), "b": np.full((30, 40), 2.5, np.float32)}


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes starts of Python threads fail; returns a list that gets the
    threads' names."""
    refused: list[str] = []

    def start(thread: threading.Thread) -> None:
        refused.append(thread.name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    return refused


def test_a_background_save_is_done_when_its_future_is_there(
    tmp_path: Path, no_threads: list[str]
) -> None:
    future = holdfast.save(tmp_path / "c", TREE, background=True)
    assert future.done() and future.state == "durable"
    future.result()
    assert len(no_threads) == 1
    np.testing.assert_array_equal(holdfast.load(tmp_path / "c")["a"], TREE["a"])


def test_its_error_is_raised_by_its_future(
    tmp_path: Path, no_threads: list[str]
) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/x").write_text("mine")
    future = holdfast.save(tmp_path / "c", TREE, background=True)
    with pytest.raises(errors.AlreadyExistsError):
        future.result()


def test_orbax_saves_and_manages(tmp_path: Path, no_threads: list[str]) -> None:
    with AsyncCheckpointer(PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "c", args=args.PyTreeSave(TREE))
        checkpointer.wait_until_finished()
    with CheckpointManager(tmp_path / "m") as manager:
        for step in (1, 2):
            manager.save(step, args=args.StandardSave(TREE))
        manager.wait_until_finished()
        assert manager.all_steps() == [1, 2]
    assert no_threads


def test_a_future_that_waits_for_others_fails_in_words(
    no_threads: list[str],
) -> None:
    async def work() -> None: ...

    with pytest.raises(errors.ResourceExhaustedError, match="gives no thread"):
        CommitFuture(work(), name="a write", receive_signals=["s"])


def test_ranks_that_are_threads_all_come_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    left = [1]

    def start_one(thread: threading.Thread) -> None:
        if left[0] == 0:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(errors.ResourceExhaustedError, match="only 1 threads"):
        megatron.save_ranks([{}, {}], tmp_path / "c")
