"""The ranks that save or load one checkpoint together.

They are the processes of torch.distributed where that is initialised, threads
of this process in `save_ranks` and `load_ranks`, and else this process alone.
They exchange metadata only, in meetings: a rank that has failed says so at the
next one, and one that does not come in time is named.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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
    "load_ranks",
    "save_ranks",
    "subgroup",
    "this_rank",
]

# How long a rank waits for the slowest of the others at one meeting.
TIMEOUT_SECONDS = 600.0
_PHASE = "megatron checkpoint"
_NO_ERROR = b"\0"
_ERROR = b"\1"


class Ranks:
    """The ranks of one save or load, as one of them sees them.

    `meets_again`: another meeting of this call is to come, so that a rank which
    fails must tell the others there.
    """

    def __init__(
        self,
        path: str,
        rank: int = 0,
        size: int = 1,
        begin: Callable[[], _engine.ProcessGroup] | None = None,
        *,
        board: _Board | None = None,
        torch_group: Any = None,
    ) -> None:
        """`begin` gives what the ranks meet by, at their first meeting: a call
        without meetings may be one rank's alone.
        """
        self.path = path
        self.rank = rank
        self.size = size
        self.board = board
        self.torch_group = torch_group
        self.meets_again = True
        self._begin = begin
        self._engine: _engine.ProcessGroup | None = None

    def all_gather(self, value: Any) -> list[Any]:
        """The values of all ranks, which trust each other: by pickle."""
        if self._begin is None:
            return [value]
        return self._meet(_NO_ERROR + pickle.dumps(value))

    def barrier(self) -> None:
        """All ranks have come here, and none has failed."""
        if self._begin is not None:
            self._meet(_NO_ERROR + pickle.dumps(None))

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value."""
        values = self.all_gather(value if self.rank == 0 else None)
        return values[0]

    def fail(self, error: BaseException) -> None:
        """Tells the others, at the next meeting, why this rank stops."""
        if self._begin is None or not self.meets_again:
            return
        text = f"{type(error).__name__}: {error}"
        # The news of the others, if they failed too, help nobody here.
        with contextlib.suppress(Exception):
            self._meet(_ERROR + text.encode(errors="replace"))

    def _meet(self, message: bytes) -> list[Any]:
        if self._engine is None:
            assert self._begin is not None
            self._engine = self._begin()
        messages = self._engine.all_gather(_PHASE, self.path, message)
        failed = {
            rank: each[1:].decode()
            for rank, each in enumerate(messages)
            if each[:1] == _ERROR
        }
        if failed:
            reasons = "; ".join(f"rank {r}: {t}" for r, t in failed.items())
            # It has told all that need to know.
            self.meets_again = False
            raise CheckpointingException(
                f"{self.path}: {len(failed)} of {self.size} ranks failed:"
                f" {reasons}",
                code="RANK_FAILED",
            )
        return [pickle.loads(each[1:]) for each in messages]

    def share(self, mine: dict[Any, Any], wanted: set[Any]) -> dict[Any, Any]:
        """The tensors that are wanted here, of what all ranks have loaded.

        Each has one holder; (dtype name, carrier's array) by id.
        """
        if self._begin is None:
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

        shared = dict(mine)
        forms = {k: (name, a.shape) for k, (name, a) in mine.items()}
        for rank, held in enumerate(self.all_gather(forms)):
            root = rank
            if self.torch_group is not None:
                root = torch.distributed.get_global_rank(self.torch_group, rank)
            for key, (name, shape) in held.items():
                array = (
                    np.ascontiguousarray(mine[key][1])
                    if rank == self.rank
                    else _tensors.empty(shape, name)
                )
                flat = torch.from_numpy(array.reshape(-1).view(np.uint8))
                torch.distributed.broadcast(
                    flat, src=root, group=self.torch_group
                )
                if rank != self.rank and key in wanted:
                    shared[key] = (name, array)
        return shared


class _Board:
    """Where ranks that are threads leave tensors for each other."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: dict[Any, Any] = {}


class _Current(threading.local):
    ranks: Ranks | None = None
    # Of a thread of save_ranks or load_ranks.
    engine: _engine.ProcessGroup | None = None
    board: _Board | None = None


_current = _Current()


def current() -> Ranks:
    """Those of the call that goes on in this thread."""
    if _current.ranks is None:
        raise RuntimeError("no save or load goes on in this thread")
    return _current.ranks


def this_rank() -> int:
    """Of this process or thread, whether or not a call goes on."""
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
    """One save or load of `path`, or the part of one that goes on already.

    `is_collective`: all ranks make this call. A failure in the block is told
    to the others.
    """
    if _current.ranks is not None:
        yield _current.ranks
        return
    if timeout_seconds is None:
        timeout_seconds = TIMEOUT_SECONDS
    with contextlib.ExitStack() as stack:
        made = _ranks(os.fspath(path), is_collective, timeout_seconds, stack)
        _current.ranks = made
        try:
            yield made
        except BaseException as error:
            made.fail(error)
            raise
        finally:
            _current.ranks = None


def _ranks(
    path: str,
    is_collective: bool,
    timeout_seconds: float,
    stack: contextlib.ExitStack,
) -> Ranks:
    engine = _current.engine
    if is_collective and engine is not None:
        return Ranks(
            path,
            engine.rank,
            engine.size,
            lambda: engine,
            board=_current.board,
        )
    group = _process_group.torch_world() if is_collective else None
    if group is None:
        return Ranks(path)
    return _ranks_of(group, path, timeout_seconds, stack)


def _ranks_of(
    group: _process_group.ProcessGroup,
    path: str,
    timeout_seconds: float,
    stack: contextlib.ExitStack,
    torch_group: Any = None,
) -> Ranks:
    def begin() -> _engine.ProcessGroup:
        return stack.enter_context(group.begin(path, timeout_seconds)).engine

    return Ranks(path, group.rank, group.size, begin, torch_group=torch_group)


@contextlib.contextmanager
def subgroup(group: Any) -> Iterator[Ranks]:
    """The ranks of the call that belong to `group`: a process group of
    torch.distributed, or None for all.
    """
    ranks = current()
    if group is None or ranks.board is not None:
        yield ranks
        return
    made = _process_group.process_group(group)
    if made is None:
        yield Ranks(ranks.path)
        return
    with contextlib.ExitStack() as stack:
        yield _ranks_of(made, ranks.path, TIMEOUT_SECONDS, stack, group)


def save_ranks(
    sharded_state_dicts: Sequence[dict[str, Any]],
    checkpoint_dir: str | os.PathLike[str],
    sharded_strategy: Any = None,
    *,
    return_exceptions: bool = False,
    **kwargs: Any,
) -> list[Any]:
    """`save` by as many ranks as there are state dicts, in one call.

    Args:
      sharded_state_dicts: what each rank would pass.
      sharded_strategy: as `save` takes it, or a function of the rank.
      return_exceptions: a rank's failure is its result; else the first rank's
        own failure is raised.
      **kwargs: of `save`.

    Each rank is a thread; the elements are written without the GIL.
    """
    with importing:
        from holdfast.megatron.serialization import save

    def one(rank: int) -> Any:
        return save(
            sharded_state_dicts[rank],
            os.fspath(checkpoint_dir),
            _of_rank(sharded_strategy, rank),
            **kwargs,
        )

    return _run(len(sharded_state_dicts), one, return_exceptions)


def load_ranks(
    sharded_state_dicts: Sequence[dict[str, Any]],
    checkpoint_dir: str | os.PathLike[str],
    sharded_strategy: Any = None,
    *,
    return_exceptions: bool = False,
    **kwargs: Any,
) -> list[Any]:
    """`load` by as many ranks as there are state dicts, in one call.

    Returns what each rank's `load` returns. Arguments as for `save_ranks`.
    """
    with importing:
        from holdfast.megatron.serialization import load

    def one(rank: int) -> Any:
        return load(
            sharded_state_dicts[rank],
            os.fspath(checkpoint_dir),
            _of_rank(sharded_strategy, rank),
            **kwargs,
        )

    return _run(len(sharded_state_dicts), one, return_exceptions)


def _of_rank(strategy: Any, rank: int) -> Any:
    is_maker = callable(strategy) and not hasattr(
        strategy, "check_version_compatibility"
    )
    return strategy(rank) if is_maker else strategy


def _run(
    count: int, work: Callable[[int], Any], return_exceptions: bool
) -> list[Any]:
    if count == 0:
        raise ValueError("want the state dict of at least one rank")
    outer = _current.ranks
    if outer is not None:
        raise RuntimeError("a save or load goes on in this thread")
    groups = _engine.thread_groups(count, timeout_seconds=TIMEOUT_SECONDS)
    board = _Board()
    results: list[Any] = [None] * count

    go_on = threading.Event()  # ranks wait for each other: all, or none
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
            f"{count} ranks: the system gives only {len(started)} threads"
        )
    failures = [r for r in results if isinstance(r, BaseException)]
    if return_exceptions or not failures:
        return results
    own = [
        f for f in failures if getattr(f, "code", "") != "RANK_FAILED"
    ] or failures
    raise own[0]
