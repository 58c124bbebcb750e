"""ProcessGroup: messages that Python transports, and which ranks must wait."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from thread_ranks import Post, groups_of, on_all, transports

import holdfast
from holdfast import _engine, _process_group, errors


def test_meetings() -> None:
    post = Post()
    groups = [
        _engine.ProcessGroup(each, timeout_seconds=30)
        for each in transports(3, post)
    ]
    assert [(g.rank, g.size) for g in groups] == [(0, 3), (1, 3), (2, 3)]
    gathered = on_all(
        3, lambda rank: groups[rank].all_gather("p", "f", b"\0%d" % rank)
    )
    assert gathered == [[b"\x000", b"\x001", b"\x002"]] * 3
    told = on_all(
        3, lambda rank: groups[rank].broadcast("p", "f", 1, b"%d" % rank)
    )
    assert told == [b"1"] * 3
    assert on_all(3, lambda rank: groups[rank].agree("p", "f")) == [None] * 3
    assert post.keys() == []  # all are received and deleted
    problem = ValueError("no leaf")
    for error in on_all(
        3, lambda rank: groups[rank].agree("p", "f", problem if rank else None)
    ):
        assert isinstance(error, errors.InvalidArgumentError)
        assert "ranks 1-2" in str(error) or "ranks 1, 2" in str(error), error
        assert "ValueError: no leaf" in str(error)


@pytest.mark.parametrize("excess", [-1, 0, 1])
def test_large_messages_go_in_pieces(excess: int) -> None:
    piece = _process_group._PIECE_BYTES
    post = Post()
    groups = [_engine.ProcessGroup(each) for each in transports(2, post)]
    large = os.urandom(1000) * ((3 * piece + 1000) // 1000)
    large = large[: 3 * piece + excess]
    got = on_all(
        2, lambda rank: groups[rank].broadcast("p", "", 1, large * rank)
    )
    assert got == [large, large]
    assert post.value_bytes_max <= piece + 4 and post.keys() == []


def test_a_rank_that_does_not_come() -> None:
    group = _engine.ProcessGroup(transports(2)[0], timeout_seconds=0.05)
    with pytest.raises(
        errors.DeadlineExceededError, match=r"a phase: f.*rank 1"
    ):
        group.agree("a phase", "f")


def test_what_a_transport_raises_comes_back() -> None:
    class Broken:
        rank = 1
        size = 2

        def send(self, to: int, topic: str, message: bytes) -> None:
            raise LookupError("no such host")

        def receive(self, from_: int, topic: str, seconds: float) -> bytes:
            return "text"  # type: ignore[return-value]

    group = _engine.ProcessGroup(Broken())
    with pytest.raises(LookupError, match="no such host"):
        group.agree("p")
    Broken.send = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(errors.InternalError, match="did not return bytes"):
        group.agree("p")


def test_bad_groups() -> None:
    class Odd:
        rank = 2
        size = 2

    with pytest.raises(errors.InvalidArgumentError, match="rank 2 of 2"):
        _engine.ProcessGroup(Odd())  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="timeout"):
        _engine.ProcessGroup(transports(1)[0], timeout_seconds=-1)
    with pytest.raises(errors.InvalidArgumentError, match="'mpi'"):
        holdfast.process_group("mpi")
    with pytest.raises(errors.InvalidArgumentError, match="timeout"):
        holdfast.save(
            "/nowhere", {"a": 1}, group=groups_of(2)[0], timeout_seconds=-1
        )


def test_control_c_ends_a_wait() -> None:
    group = _engine.ProcessGroup(transports(2)[0], timeout_seconds=600)
    asked = threading.Event()
    receive = transports(2)[0].receive

    class Asked:
        rank = 0
        size = 2

        def send(self, to: int, topic: str, message: bytes) -> None: ...

        def receive(
            self, from_: int, topic: str, seconds: float
        ) -> bytes | None:
            asked.set()
            got: bytes | None = receive(from_, topic, seconds)
            return got

    group = _engine.ProcessGroup(Asked(), timeout_seconds=600)

    def interrupt() -> None:
        asked.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        group.agree("p")
    assert time.monotonic() - start < 60


def test_two_threads_are_refused() -> None:
    inside: queue.Queue[bool] = queue.Queue()
    go_on = threading.Event()

    class Slow:
        rank = 1
        size = 2

        def send(self, to: int, topic: str, message: bytes) -> None:
            inside.put(True)
            go_on.wait()

        def receive(self, from_: int, topic: str, seconds: float) -> None: ...

    group = _engine.ProcessGroup(Slow(), timeout_seconds=0)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(group.agree, "p")
        inside.get()
        with pytest.raises(errors.FailedPreconditionError, match="thread"):
            group.agree("p")
        go_on.set()
        assert isinstance(first.exception(), errors.DeadlineExceededError)


def test_saves_of_threads(tmp_path: Path) -> None:
    groups = groups_of(3)
    path = tmp_path / "c"

    def save(rank: int) -> holdfast.Stats:
        tree = {"w": np.full(4, rank), "name": f"rank {rank}", "step": rank}
        stats: holdfast.Stats = holdfast.save(
            path, tree, group=groups[rank], timeout_seconds=60
        )
        return stats

    stats = on_all(3, save)
    assert all(isinstance(each, holdfast.Stats) for each in stats), stats
    got = holdfast.load(path)
    assert got["w"].tolist() == [0] * 4
    assert got["name"] == "rank 0" and got["step"] == 0
    assert holdfast.verify(path)


def test_a_tree_that_one_rank_cannot_save(tmp_path: Path) -> None:
    groups = groups_of(3)
    for bad_rank in (0, 2):

        def save(rank: int, bad_rank: int = bad_rank) -> object:
            leaf = {1, 2} if rank == bad_rank else 3
            return holdfast.save(
                tmp_path / "c",
                {"p": {"w": leaf}},
                group=groups[rank],
                timeout_seconds=60,
            )

        raised = on_all(3, save)
        for rank, error in enumerate(raised):
            assert isinstance(error, errors.InvalidArgumentError), error
            assert "'p.w': cannot save builtins.set" in str(error)
            named = f"rank {bad_rank}" in str(error)
            assert named == (rank != bad_rank), error
        assert list(tmp_path.iterdir()) == []


def test_loads_of_threads(tmp_path: Path) -> None:
    holdfast.save(tmp_path / "c", {"w": np.arange(6.0), "b": np.ones(2)})
    groups = groups_of(3)

    def load(rank: int) -> Any:
        target = {"w": np.zeros(6), "b": np.zeros(2) if rank else ...}
        return holdfast.load(
            tmp_path / "c", target, group=groups[rank], timeout_seconds=60
        )

    loaded = on_all(3, load)
    for rank, tree in enumerate(loaded):
        assert tree["w"].tolist() == [0, 1, 2, 3, 4, 5]
        tree["w"][0] = rank + 10  # no other rank sees the change
        assert tree["b"] is ... if rank == 0 else tree["b"].tolist() == [1, 1]
    assert [tree["w"][0] for tree in loaded] == [10, 11, 12]

    def load_wrongly(rank: int) -> Any:
        target = {"w": np.zeros(7 if rank == 1 else 6), "b": np.zeros(2)}
        return holdfast.load(
            tmp_path / "c", target, group=groups[rank], timeout_seconds=60
        )

    for rank, error in enumerate(on_all(3, load_wrongly)):
        assert isinstance(error, errors.InvalidArgumentError), error
        assert "'w': shape" in str(error)
        assert ("rank 1" in str(error)) == (rank != 1)


def test_saves_in_the_background_do_not_mix(tmp_path: Path) -> None:
    groups = groups_of(2)

    def save(rank: int) -> list[Any]:
        futures = [
            holdfast.save(
                tmp_path / str(i),
                {"w": np.full(3, i)},
                group=groups[rank],
                timeout_seconds=60,
                background=True,
            )
            for i in range(4)
        ]
        return [future.result() for future in futures]

    assert all(isinstance(each, list) for each in on_all(2, save))
    for i in range(4):
        assert holdfast.load(tmp_path / str(i))["w"].tolist() == [i] * 3


@pytest.mark.parametrize("idle", [0, 1])
@pytest.mark.parametrize("first", [0, 1])
def test_a_rank_that_left_a_save_out_joins_the_others_in_the_next(
    tmp_path: Path, idle: int, first: int
) -> None:
    post = Post()
    groups = [holdfast.ProcessGroup(each) for each in transports(2, post)]

    def save(rank: int, name: str, timeout: float = 60) -> object:
        return holdfast.save(
            tmp_path / name,
            {"w": 1},
            group=groups[rank],
            timeout_seconds=timeout,
        )

    with pytest.raises(errors.DeadlineExceededError):
        save(1 - idle, "a", 0)

    def save_in_order(rank: int, name: str, has_begun: threading.Event) -> Any:
        if rank != first:
            assert has_begun.wait(60)
        with post.noticing(has_begun):
            return save(rank, name)

    for name in "bcd":
        has_begun = threading.Event()
        for stats in on_all(
            2, lambda rank, n=name, e=has_begun: save_in_order(rank, n, e)
        ):
            assert isinstance(stats, holdfast.Stats), stats
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b", "c", "d"]


def test_progress_is_rank_0s(tmp_path: Path) -> None:
    groups = groups_of(2)
    said: list[int] = []

    def save(rank: int) -> object:
        return holdfast.save(
            tmp_path / "c",
            {"w": np.ones(3)},
            group=groups[rank],
            timeout_seconds=60,
            progress=lambda *_: said.append(rank),
        )

    on_all(2, save)
    assert set(said) == {0}


def test_alone(ckpt: Path) -> None:
    assert holdfast.process_group("single") is None
    assert holdfast.process_group(None) is None
    holdfast.save(ckpt, {"a": 1}, group=None)
    holdfast.save(ckpt, {"a": 2}, group="single", overwrite=True)
    (only,) = groups_of(1)
    holdfast.save(ckpt, {"a": 3}, group=only, overwrite=True)
    assert holdfast.load(ckpt)["a"] == 3


def test_groups_that_are_not_there(ckpt: Path) -> None:
    with pytest.raises(errors.FailedPreconditionError, match="jax.distributed"):
        holdfast.save(ckpt, {"a": 1}, group="jax")
    with pytest.raises(
        errors.FailedPreconditionError, match="torch.distributed"
    ):
        holdfast.save(ckpt, {"a": 1}, group="torch")
