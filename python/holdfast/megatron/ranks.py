"""The ranks that save or load one checkpoint together.

They are the processes of torch.distributed if it is initialised, threads of
this process in `run_in_threads`, and otherwise only this process.

The ranks wait for each other only to exchange metadata. A call in which they do
so ends with a barrier, so if one rank fails, the call fails on all ranks. An
error names the ranks that do not arrive in time.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from holdfast import _engine, _process_group, errors
from holdfast._lazy import importing
from holdfast._threads import try_start
from holdfast.megatron import _tensors
from holdfast.megatron.core import CheckpointingException

__all__ = [
    "TIMEOUT_SECONDS",
    "Ranks",
    "call",
    "current",
    "run_in_threads",
    "subgroup",
    "this_rank",
]

# How long a rank waits for the slowest rank at one barrier.
TIMEOUT_SECONDS = 600.0
_PHASE = "megatron checkpoint"


class Ranks:
    """The ranks of one save or load, as seen from one rank."""

    def __init__(
        self,
        path: str,
        rank: int = 0,
        size: int = 1,
        make_call: Callable[[], _Call] | None = None,
        *,
        board: _Board | None = None,
        torch_group: Any = None,
    ) -> None:
        """Stores its arguments. `make_call` returns the call that connects the
        ranks; None means a single rank.
        """
        self.path = path
        self.rank = rank
        self.size = size
        self.board = board
        self.torch_group = torch_group
        self._make_call = make_call
        self._call: _Call | None = None

    @property
    def meet(self) -> bool:
        """Whether all ranks make this call."""
        return self._call is not None

    def begin(self) -> None:
        """Declares that all ranks make this call.

        The first barrier does so too, but a rank may fail before it. Until a
        rank begins, it does not tell the other ranks about a failure.
        """
        if self._call is None and self._make_call is not None:
            self._call = self._make_call()

    def end(self, error: BaseException | None) -> None:
        """Waits for all ranks a last time, or sends `error` to them."""
        call, self._call = self._call, None
        if call is None:
            return
        try:
            if error is None:
                self._all_gather(call, b"")
        except BaseException as late:
            call.end(late)
            raise
        call.end(error)

    def all_gather(self, value: Any) -> list[Any]:
        """Returns the values of all ranks. Uses pickle, because ranks trust
        each other."""
        self.begin()
        if self._call is None:
            return [value]
        values = self._all_gather(self._call, pickle.dumps(value))
        return [pickle.loads(each) for each in values]

    def barrier(self) -> None:
        """Waits until all ranks have arrived; raises if a rank has failed."""
        self.all_gather(None)

    def broadcast(self, value: Any) -> Any:
        """Returns rank 0's value."""
        values = self.all_gather(value if self.rank == 0 else None)
        return values[0]

    def _all_gather(self, call: _Call, value: bytes) -> list[bytes]:
        try:
            return call.engine.all_gather(_PHASE, self.path, value)
        except errors.HoldfastError as error:
            failed_count = len(call.engine.failed_ranks)
            if failed_count == 0:
                raise
            raise CheckpointingException(
                f"{self.path}: {failed_count} of {self.size} ranks failed:"
                f" {error}",
                code="RANK_FAILED",
            ) from error

    def share(self, mine: dict[Any, Any], wanted: set[Any]) -> dict[Any, Any]:
        """Returns the tensors that this rank wants, from those that all ranks
        have loaded.

        Exactly one rank holds each tensor. `mine` and the result map ids to
        (dtype name, carrier's array).
        """
        if self._make_call is None:
            return dict(mine)
        if self.board is not None:
            return self._share_in_process(self.board, mine, wanted)
        return self._share_by_torch(mine, wanted)

    def _share_in_process(
        self, board: _Board, mine: dict[Any, Any], wanted: set[Any]
    ) -> dict[Any, Any]:
        with board.lock:
            board.values.update(mine)
        self.barrier()
        with board.lock:
            shared = {k: board.values[k] for k in wanted if k in board.values}
        self.barrier()
        with board.lock:
            board.values.clear()
        self.barrier()
        return {**shared, **mine}

    def _share_by_torch(
        self, mine: dict[Any, Any], wanted: set[Any]
    ) -> dict[Any, Any]:
        with importing:
            import torch

        forms = {k: (name, a.shape) for k, (name, a) in mine.items()}
        all_forms = self.all_gather(forms)
        # Allocate everything first, because no rank may fail during
        # collectives.
        arrays = {
            (rank, key): np.ascontiguousarray(mine[key][1])
            if rank == self.rank
            else _tensors.empty(shape, name)
            for rank, held in enumerate(all_forms)
            for key, (name, shape) in held.items()
        }
        self.barrier()
        shared = dict(mine)
        for (rank, key), array in arrays.items():
            root = rank
            if self.torch_group is not None:
                root = torch.distributed.get_global_rank(self.torch_group, rank)
            flat = torch.from_numpy(array.reshape(-1).view(np.uint8))
            torch.distributed.broadcast(flat, src=root, group=self.torch_group)
            if rank != self.rank and key in wanted:
                shared[key] = (all_forms[rank][key][0], array)
        return shared


class _Call(Protocol):
    """The protocol that `holdfast._process_group.Call` also implements."""

    @property
    def engine(self) -> _engine.ProcessGroup: ...

    def end(self, error: BaseException | None) -> None: ...


class _ThreadCall:
    """A call of ranks that are threads, which make one call at a time."""

    def __init__(self, engine: _engine.ProcessGroup) -> None:
        self.engine = engine
        engine.begin_call()

    def end(self, error: BaseException | None) -> None:
        self.engine.end_call(error)


class _Board:
    """Holds the tensors that ranks, as threads, leave for each other."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: dict[Any, Any] = {}


class _Current(threading.local):
    ranks: Ranks | None = None
    # Both are set in a thread of run_in_threads, which is one rank.
    engine: _engine.ProcessGroup | None = None
    board: _Board | None = None


_current = _Current()


def current() -> Ranks:
    """Returns the ranks of the call that is running in this thread."""
    if _current.ranks is None:
        raise RuntimeError("no save or load is running in this thread")
    return _current.ranks


def this_rank() -> int:
    """Returns the rank of this process or thread, within a call or outside."""
    if _current.ranks is not None:
        return _current.ranks.rank
    if _current.engine is not None:
        return _current.engine.rank
    group = _process_group.torch_world()
    return 0 if group is None else group.rank


@contextlib.contextmanager
def call(
    path: str | os.PathLike[str],
    *,
    is_collective: bool = True,
    timeout_seconds: float | None = None,
) -> Iterator[Ranks]:
    """Makes one save or load of `path`, or joins the running one.

    `is_collective` means that all ranks make this call if they exchange
    anything in it. If the block fails, the other ranks are notified.
    """
    if _current.ranks is not None:
        yield _current.ranks
        return
    if timeout_seconds is None:
        timeout_seconds = TIMEOUT_SECONDS
    made = _ranks(os.fspath(path), is_collective, timeout_seconds)
    _current.ranks = made
    try:
        with _ending(made):
            yield made
    finally:
        _current.ranks = None


@contextlib.contextmanager
def _ending(ranks: Ranks) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        ranks.end(error)
        raise
    ranks.end(None)


def _ranks(path: str, is_collective: bool, timeout_seconds: float) -> Ranks:
    engine = _current.engine
    if is_collective and engine is not None:
        return Ranks(
            path,
            engine.rank,
            engine.size,
            lambda: _ThreadCall(engine),
            board=_current.board,
        )
    group = _process_group.torch_world() if is_collective else None
    if group is None:
        return Ranks(path)
    return _ranks_of(group, path, timeout_seconds)


def _ranks_of(
    group: _process_group.ProcessGroup,
    path: str,
    timeout_seconds: float,
    torch_group: Any = None,
) -> Ranks:
    return Ranks(
        path,
        group.rank,
        group.size,
        lambda: group.begin(path, timeout_seconds),
        torch_group=torch_group,
    )


@contextlib.contextmanager
def subgroup(group: Any) -> Iterator[Ranks]:
    """Yields the ranks of the call that belong to `group`: a torch.distributed
    process group, or None for all.

    All members make their own call. If all ranks make the surrounding call, no
    rank has failed before.
    """
    ranks = current()
    if group is None or ranks.board is not None:
        yield ranks
        return
    made = _process_group.process_group(group)
    if ranks.meet:
        ranks.barrier()
    if made is None:
        yield Ranks(ranks.path)
        return
    members = _ranks_of(made, ranks.path, TIMEOUT_SECONDS, group)
    members.begin()
    with _ending(members):
        yield members


def run_in_threads(
    count: int, work: Callable[[int], Any], return_exceptions: bool
) -> list[Any]:
    """Runs `work` for each rank in its own thread, as ranks of one call.

    Returns the results of all ranks. With `return_exceptions` a failed rank's
    result is its exception; otherwise raises the first failed rank's own error.
    """
    if count == 0:
        raise ValueError("want the state dict of at least one rank")
    outer = _current.ranks
    if outer is not None:
        raise RuntimeError("a save or load is running in this thread")
    groups = _engine.thread_groups(count, timeout_seconds=TIMEOUT_SECONDS)
    board = _Board()
    results: list[Any] = [None] * count

    # Ranks wait for each other, so no rank begins unless all threads started.
    go_on = threading.Event()
    started: list[threading.Thread] = []

    def one(rank: int) -> None:
        go_on.wait()
        if len(started) < count:
            return
        _current.engine = groups[rank]
        _current.board = board
        try:
            results[rank] = work(rank)
        except BaseException as error:
            results[rank] = error

    threads = [
        threading.Thread(target=one, args=(rank,), name=f"rank {rank}")
        for rank in range(count)
    ]
    started += itertools.takewhile(try_start, threads)
    go_on.set()
    for thread in started:
        thread.join()
    if len(started) < count:
        raise errors.ResourceExhaustedError(
            f"{count} ranks: the system started only {len(started)} threads"
        )
    failures = [r for r in results if isinstance(r, BaseException)]
    if return_exceptions or not failures:
        return results
    own = [
        f for f in failures if getattr(f, "code", "") != "RANK_FAILED"
    ] or failures
    raise own[0]
