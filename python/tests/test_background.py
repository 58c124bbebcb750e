"""Saves in the background: what they store, their futures, cancellation."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import errors


def large_tree(array_count: int = 200) -> dict[str, Any]:
    """Returns a tree that takes one thread seconds to compress, but needs
    little memory."""
    noise = np.random.default_rng(0).integers(0, 255, 4 << 20, np.uint8)
    noise = noise & 0x77
    return {f"a{i}": noise for i in range(array_count)}


def test_writing_to_every_array_changes_nothing(ckpt: Path) -> None:
    base = np.arange(1000.0)
    row = np.arange(4.0)
    tree = {
        "c": np.arange(600, dtype=np.int32).reshape(20, 30),
        "f": np.asfortranarray(np.arange(600.0).reshape(20, 30)),
        "reversed": np.arange(50)[::-1],
        "view": base[100:200:3],
        "big_endian": np.arange(9, dtype=">i4"),
        "0d": np.array(5),
        "broadcast": np.broadcast_to(row, (1000, 4)),
        "large": np.ones(3 << 20),
    }
    before = {key: array.copy() for key, array in tree.items()}
    future = holdfast.save(ckpt, tree, background=True)
    base[...] = -1
    for array in tree.values():
        if array.flags.writeable:
            array[...] = 0
    row[...] = -1
    tree.clear()
    stats = future.result()
    got = holdfast.load(ckpt)
    for key, want in before.items():
        np.testing.assert_array_equal(got[key], want, err_msg=key)
    # Only one row of the broadcast array is copied.
    nbytes = sum(a.nbytes for key, a in before.items() if key != "broadcast")
    assert stats.copied_bytes == nbytes + row.nbytes


def test_a_future_that_succeeds(ckpt: Path) -> None:
    future = holdfast.save(ckpt, {"a": 1}, background=True)
    stats = future.result(timeout=60)
    assert future.done() and not future.cancelled()
    assert future.state == "durable" and future.exception() is None
    assert stats is future.stats and stats.decoded_bytes == 8
    assert not future.cancel()
    assert str(ckpt) in repr(future) and "durable" in repr(future)


def test_a_future_that_fails(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": 1})
    future = holdfast.save(ckpt, {"a": 2}, background=True)
    with pytest.raises(errors.AlreadyExistsError, match="already exists"):
        future.result()
    with pytest.raises(errors.AlreadyExistsError):
        future.result()
    assert isinstance(future.exception(), errors.AlreadyExistsError)
    assert future.state == "failed" and future.stats is None


def test_what_is_wrong_with_the_tree_is_raised_at_once(ckpt: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match='leaf "a"'):
        holdfast.save(ckpt, {"a": b"bytes"}, background=True)


def test_progress_comes_from_the_futures_thread(ckpt: Path) -> None:
    threads = set()

    def progress(phase: str, done: int, total: int) -> None:
        threads.add(threading.current_thread())

    tree = {"a": np.ones(1 << 20)}
    holdfast.save(ckpt, tree, background=True, progress=progress).result()
    assert len(threads) == 1
    (thread,) = threads
    assert thread is not threading.main_thread() and not thread.daemon


def test_cancelling_leaves_nothing(ckpt: Path) -> None:
    future = holdfast.save(
        ckpt, large_tree(), background=True, threads=1, durable=False
    )
    assert future.cancel()
    with pytest.raises(errors.CancelledError):
        future.result()
    assert future.cancelled() and future.state == "cancelled"
    assert list(ckpt.parent.iterdir()) == []


def test_waiting_has_a_limit(ckpt: Path) -> None:
    goes_on = threading.Event()

    def progress(phase: str, done: int, total: int) -> None:
        goes_on.wait()

    future = holdfast.save(
        ckpt, {"a": np.ones(10)}, background=True, progress=progress
    )
    with pytest.raises(errors.DeadlineExceededError, match="0.01 s") as info:
        future.result(timeout=0.01)
    assert isinstance(info.value, TimeoutError)
    assert future.state == "staged" and future.stats is None
    goes_on.set()
    future.result()


def test_a_future_calls_back(
    ckpt: Path, caplog: pytest.LogCaptureFixture
) -> None:
    goes_on = threading.Event()
    future = holdfast.save(
        ckpt,
        {"a": np.ones(10)},
        background=True,
        progress=lambda *_: goes_on.wait(),
    )
    called: list[tuple[str, Any]] = []
    all_called = threading.Event()

    def note(ended: holdfast.Future[Any]) -> None:
        called.append((ended.state, threading.current_thread()))

    def fail(ended: holdfast.Future[Any]) -> None:
        raise ZeroDivisionError("mine")

    future.add_done_callback(note)
    future.add_done_callback(fail)
    future.add_done_callback(lambda _: all_called.set())
    assert called == []
    goes_on.set()
    assert all_called.wait(60)
    future.add_done_callback(note)
    states, threads = zip(*called, strict=True)
    assert states == ("durable", "durable")
    assert threads[0] is not threads[1] is threading.current_thread()
    (record,) = caplog.records
    assert record.name == "holdfast" and str(ckpt) in record.message
    assert record.exc_info is not None and "mine" in str(record.exc_info[1])


def test_futures_are_awaited(ckpt: Path) -> None:
    async def save_twice() -> holdfast.Stats:
        stats = await holdfast.save(ckpt, {"a": 1}, background=True)
        with pytest.raises(errors.AlreadyExistsError):
            await holdfast.save(ckpt, {"a": 2}, background=True)
        return stats

    assert asyncio.run(save_twice()).decoded_bytes == 8


def test_a_save_goes_on_when_its_task_is_cancelled(ckpt: Path) -> None:
    goes_on = threading.Event()
    future = holdfast.save(
        ckpt,
        {"a": 1},
        background=True,
        progress=lambda *_: goes_on.wait(),
    )

    async def give_up() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(future, timeout=0.01)

    asyncio.run(give_up())
    goes_on.set()
    assert future.result(60).decoded_bytes == 8
    assert holdfast.load(ckpt) == {"a": 1}


def failed_save(path: Path) -> holdfast.Future[holdfast.Stats]:
    """Returns a background save that has failed, because the path exists."""
    path.mkdir(exist_ok=True)
    future = holdfast.save(path, {"a": 1}, background=True)
    while not future.done():
        threading.Event().wait(0.001)
    return future


def test_the_next_save_raises_what_nobody_asked_for(tmp_path: Path) -> None:
    future = failed_save(tmp_path / "0")
    with pytest.raises(errors.AlreadyExistsError, match="/0") as info:
        holdfast.save(tmp_path / "1", {"a": 1})
    if hasattr(info.value, "__notes__"):
        assert any("earlier save to" in note for note in info.value.__notes__)
    assert not (tmp_path / "1").exists()
    # Only one later call raises the error; the future itself still has it.
    holdfast.save(tmp_path / "1", {"a": 1})
    with pytest.raises(errors.AlreadyExistsError):
        future.result()
    assert future.state == "failed"


def test_a_failure_that_was_asked_for_is_not_raised_again(
    tmp_path: Path,
) -> None:
    future = failed_save(tmp_path / "0")
    assert isinstance(future.exception(), errors.AlreadyExistsError)
    holdfast.save(tmp_path / "1", {"a": 1})


def test_failures_are_raised_one_at_a_time(tmp_path: Path) -> None:
    goes_on = threading.Event()

    def progress(phase: str, done: int, total: int) -> None:
        goes_on.wait()
        raise RuntimeError("stop")

    tree = {"a": np.ones(10)}
    paths = [tmp_path / "0", tmp_path / "1"]
    futures = [
        holdfast.save(path, tree, background=True, progress=progress)
        for path in paths
    ]
    goes_on.set()
    while not all(future.done() for future in futures):
        threading.Event().wait(0.001)
    for _ in paths:
        with pytest.raises(RuntimeError, match="stop"):
            holdfast.save(tmp_path / "2", tree)
    holdfast.save(tmp_path / "2", tree)


def test_dropping_a_running_save_warns_and_does_not_stop_it(
    ckpt: Path,
) -> None:
    goes_on = threading.Event()

    def progress(phase: str, done: int, total: int) -> None:
        goes_on.wait()

    before = set(threading.enumerate())
    with pytest.warns(ResourceWarning, match="was dropped before it ended"):
        holdfast.save(
            ckpt, {"a": np.ones(10)}, background=True, progress=progress
        )
    goes_on.set()
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert holdfast.load(ckpt)["a"].tolist() == [1] * 10


def test_several_at_once(tmp_path: Path) -> None:
    futures = [
        holdfast.save(
            tmp_path / str(i), {"a": np.full(1000, i)}, background=True
        )
        for i in range(8)
    ]
    for future in futures:
        future.result()
    for i in range(8):
        assert holdfast.load(tmp_path / str(i))["a"].tolist() == [i] * 1000
