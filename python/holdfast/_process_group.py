"""ProcessGroup: the processes that save and load one checkpoint together.

They exchange a few small messages over a channel that the program already has:
the key-value store of `jax.distributed`, the store of `torch.distributed`, or
any object with `rank`, `size`, `send` and `receive`. Neither jax nor torch is
imported here.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol

from holdfast import _engine, _files, errors
from holdfast._lazy import importing

__all__ = [
    "Call",
    "GroupArgument",
    "ProcessGroup",
    "ProcessTransport",
    "chosen",
    "jax_transport",
    "process_group",
    "telling",
    "torch_world",
]

# Larger messages are sent in pieces, because stores refuse large values.
# torch's store does so by closing the connection.
_PIECE_BYTES = 2 << 20
_COUNT_BYTES = 4
# If Control-C ends rank 0, it waits at most this long for the other ranks to
# fetch its last message.
_LEAVE_SECONDS = 1.0


class ProcessTransport(Protocol):
    """Carries a group's messages between processes.

    The engine's threads use it, several of them concurrently when background
    saves overlap. If a method raises, the save or load fails with that error.
    """

    @property
    def rank(self) -> int:
        """The rank of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def send(self, to: int, topic: str, message: bytes, /) -> None:
        """Leaves a message for rank `to`, and does not wait until it is read.

        `topic` is printable ASCII, and new for this pair of ranks.
        """

    def receive(
        self, from_: int, topic: str, timeout_seconds: float, /
    ) -> bytes | None:
        """Takes a message out of the channel; returns None if none came in
        time (0 only looks)."""


class ProcessGroup:
    """The processes that save and load one checkpoint together.

    All processes make the same calls with the group, in the same order. Create
    one group for each transport, and use it for all calls.
    Thread-safety: a call may run in the background while others begin.
    """

    def __init__(
        self,
        transport: ProcessTransport,
        *,
        name: str = "custom",
        torch_ranks: Iterable[int] | None = None,
    ) -> None:
        """Creates a group; `name` appears in messages to users.

        `torch_ranks` are the ranks of these processes in torch.distributed's
        default group; None means that the ranks are the same there.
        """
        self.transport = transport
        self._name = name
        if torch_ranks is None:
            torch_ranks = range(transport.size)
        self.torch_ranks = frozenset(torch_ranks)
        self._lock = threading.Lock()
        self._next_call = 0
        self._open_count = 0

    @property
    def rank(self) -> int:
        """The rank of this process, from 0."""
        return self.transport.rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return self.transport.size

    @property
    def name(self) -> str:
        """The name of the channel: "jax", "torch", ..."""
        return self._name

    def begin(
        self, path: str, timeout_seconds: float, *, overlaps: bool = False
    ) -> Call:
        """Begins one save or load of `path`; its number is the same on all
        ranks.

        The caller must enter or end the call. With `overlaps`, other calls may
        begin before this one ends.
        """
        with self._lock:
            engine = _engine.ProcessGroup(
                self.transport,
                timeout_seconds=timeout_seconds,
                first_call=self._next_call,
                may_follow=not overlaps and self._open_count == 0,
            )
            self._next_call += 1
            self._open_count += 1
        engine.begin_call()
        return Call(self, engine, _files.abspath(path))

    def _end(self, call: Call) -> None:
        with self._lock:
            self._open_count -= 1
            # The step is larger than 1 if this rank has skipped calls.
            self._next_call += call.engine.call_number - call.number - 1

    def __repr__(self) -> str:
        return (
            f"<holdfast.ProcessGroup {self._name}: rank {self.rank} of"
            f" {self.size}>"
        )


class Call:
    """One save or load of a group, on this rank.

    A context manager. If its block raises, the call has failed on this rank,
    and the other ranks are notified unless they already know.
    """

    def __init__(
        self, group: ProcessGroup, engine: _engine.ProcessGroup, path: str
    ) -> None:
        self.path = path
        self.engine = engine
        self.number = engine.call_number
        self._group = group
        self._has_ended = False

    @property
    def rank(self) -> int:
        return self.engine.rank

    def agree(self, phase: str) -> None:
        """Returns when all ranks have reached this phase; raises if a rank
        fails or is late."""
        self.engine.agree(phase, self.path)

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: object
    ) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        """Ends the call on this rank. Ending it twice does nothing.

        Without an error it sends nothing, because all ranks have already passed
        the call's last barrier.
        """
        if self._has_ended:
            return
        self._has_ended = True
        stays = error is None or isinstance(error, Exception)
        try:
            self.engine.end_call(
                error, wait_seconds_max=math.inf if stays else _LEAVE_SECONDS
            )
        finally:
            self._group._end(self)


@contextlib.contextmanager
def telling(call: Call | None) -> Iterator[None]:
    """Ends the call and notifies the other ranks if the block fails."""
    try:
        yield
    except BaseException as error:
        if call is not None:
            call.end(error)
        raise


GroupArgument = (
    Literal["auto", "jax", "torch", "single"] | ProcessGroup | None | Any
)


def process_group(kind: Any = "auto") -> ProcessGroup | None:
    """Returns the group of processes that jax or torch connects.

    Args:
      kind: "jax" for the processes of `jax.distributed`; "torch" for the
        processes of `torch.distributed`; a torch process group; "auto" for
        whichever is initialised with more than one process, jax before torch;
        "single" or None for only this process.

    Returns:
      The group, which is the same object for the same processes; None for a
      single process.

    Raises:
      FailedPreconditionError: jax.distributed or torch.distributed is not
        initialised.
      InvalidArgumentError: `kind` has a different value, or the group does not
        contain this process.
    """
    if kind is None or kind == "single":
        return None
    if isinstance(kind, ProcessGroup):
        return kind
    if kind == "auto":
        return _several(_jax_group()) or _several(_torch_group(None))
    if kind == "jax":
        group = _jax_group()
    elif kind == "torch":
        group = _torch_group(None)
    elif _is_torch_group(kind):
        group = _torch_group(kind)
    else:
        raise errors.InvalidArgumentError(
            f'group: got {kind!r}, want "auto", "jax", "torch", None, a'
            " holdfast.ProcessGroup or a torch.distributed process group"
        )
    if group is None:
        raise errors.FailedPreconditionError(
            f"group: {kind}.distributed is not initialised"
        )
    return _several(group)


def chosen(
    group: GroupArgument, *, takes_all_jax: bool, has_spread: _HasSpread
) -> ProcessGroup | None:
    """Returns the group that a call's `group` argument means; None means only
    this process.

    "auto" must not make a process wait for others that do not make the call. If
    all processes of a jax program make this call (`takes_all_jax`), "auto"
    means all of them. Otherwise it means a group only if the tree has arrays
    that are spread over processes, of the kind "jax" or "torch".
    """
    if group != "auto":
        return process_group(group)
    jax_group = _several(_jax_group())
    if jax_group is not None and (takes_all_jax or has_spread("jax")):
        return jax_group
    torch_group = _several(_torch_group(None))
    if torch_group is not None and has_spread("torch"):
        return torch_group
    return None


def torch_world() -> ProcessGroup | None:
    """Returns all processes of `torch.distributed`; None if it is not
    initialised or has only one process."""
    return _several(_torch_group(None))


class _HasSpread(Protocol):
    def __call__(self, kind: str, /) -> bool: ...


def _several(group: ProcessGroup | None) -> ProcessGroup | None:
    return None if group is None or group.size == 1 else group


# Keyed by the engine's object for the connection, so the calls of a new
# connection are counted from zero.
_groups: weakref.WeakKeyDictionary[Any, ProcessGroup] = (
    weakref.WeakKeyDictionary()
)
_jax_groups: list[tuple[Any, ProcessGroup]] = []
_groups_lock = threading.Lock()


def _jax_group() -> ProcessGroup | None:
    distributed = sys.modules.get("jax._src.distributed")
    state = getattr(distributed, "global_state", None)
    client = getattr(state, "client", None)
    if state is None or client is None:
        return None
    with _groups_lock:
        if not _jax_groups or _jax_groups[0][0] is not client:
            transport = jax_transport(
                client, state.process_id, state.num_processes
            )
            _jax_groups[:] = [(client, ProcessGroup(transport, name="jax"))]
        return _jax_groups[0][1]


def jax_transport(client: Any, rank: int, size: int) -> ProcessTransport:
    """Returns a transport over the key-value store of jax.distributed."""
    return _StoreTransport(_JaxStore(client), rank, size)


def _torch_distributed() -> Any | None:
    """Returns torch.distributed if the program has initialised it."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not hasattr(distributed, "is_initialized"):
        return None
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def _is_torch_group(value: Any) -> bool:
    distributed = _torch_distributed()
    return distributed is not None and isinstance(
        value, distributed.ProcessGroup
    )


def _torch_group(group: Any) -> ProcessGroup | None:
    """Returns the group for a torch process group; None means the default
    group."""
    distributed = _torch_distributed()
    if distributed is None:
        return None
    if group is None:
        group = distributed.group.WORLD
    rank = distributed.get_rank(group)
    if rank < 0:
        raise errors.InvalidArgumentError(
            "group: this process is not in the torch.distributed group"
        )
    with _groups_lock:
        made = _groups.get(group)
        if made is None:
            store = distributed.distributed_c10d._get_default_store()
            name = str(group.group_name)
            transport = _StoreTransport(
                _TorchStore(store, name),
                rank,
                distributed.get_world_size(group),
            )
            made = _groups[group] = ProcessGroup(
                transport,
                name="torch",
                torch_ranks=distributed.get_process_group_ranks(group),
            )
        return made


class _Store(Protocol):
    """A store of keys and values that all processes see."""

    def set(self, key: str, value: bytes) -> None:
        """Stores a value, replacing an old value."""

    def get(self, key: str, timeout_seconds: float) -> bytes | None:
        """Returns the value, or None if it was not set in time."""

    def delete(self, key: str) -> None: ...


class _StoreTransport:
    """Sends messages as values of a store, which are deleted when received."""

    def __init__(self, store: _Store, rank: int, size: int) -> None:
        self._store = store
        self._rank = rank
        self._size = size

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return self._size

    def send(self, to: int, topic: str, message: bytes) -> None:
        key = _key(self._rank, to, topic)
        pieces = _pieces(message)
        # Set the first piece last, so a receiver that has it also finds the
        # other pieces.
        for i in reversed(range(1, len(pieces))):
            self._store.set(f"{key}~{i}", pieces[i])
        count = len(pieces).to_bytes(_COUNT_BYTES, "little")
        self._store.set(key, count + pieces[0])

    def receive(
        self, from_: int, topic: str, timeout_seconds: float
    ) -> bytes | None:
        key = _key(from_, self._rank, topic)
        first = self._store.get(key, timeout_seconds)
        if first is None:
            return None
        self._store.delete(key)
        pieces = [first[_COUNT_BYTES:]]
        for i in range(1, int.from_bytes(first[:_COUNT_BYTES], "little")):
            piece = self._store.get(f"{key}~{i}", timeout_seconds)
            if piece is None:
                raise errors.DataLossError(
                    f"message from rank {from_}: piece {i} is missing"
                )
            self._store.delete(f"{key}~{i}")
            pieces.append(piece)
        return b"".join(pieces)


def _key(from_: int, to: int, topic: str) -> str:
    return f"holdfast/{from_}-{to}/{topic}"


def _pieces(message: bytes) -> Sequence[bytes]:
    starts = range(0, max(len(message), 1), _PIECE_BYTES)
    return [message[start : start + _PIECE_BYTES] for start in starts]


class _JaxStore:
    """The key-value store of jax.distributed."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def set(self, key: str, value: bytes) -> None:
        self._client.key_value_set_bytes(key, value, allow_overwrite=True)

    def get(self, key: str, timeout_seconds: float) -> bytes | None:
        milliseconds = max(1, round(1e3 * timeout_seconds))
        try:
            value: bytes = self._client.blocking_key_value_get_bytes(
                key, milliseconds
            )
        except RuntimeError as error:
            if str(error).startswith("DEADLINE_EXCEEDED"):
                return None
            raise
        return value

    def delete(self, key: str) -> None:
        self._client.key_value_delete(key)


class _TorchStore:
    """The store of torch.distributed.

    `get` polls: the store's own wait reports each timeout on standard error and
    blocks the store for all other threads.
    """

    _POLL_SECONDS_MIN = 0.0005
    _POLL_SECONDS_MAX = 0.05

    def __init__(self, store: Any, prefix: str) -> None:
        with importing:
            import torch.distributed

        try:
            store = store.clone()  # a separate connection
        except (AttributeError, RuntimeError):
            pass  # older releases, and other kinds of stores
        self._store = torch.distributed.PrefixStore(prefix, store)

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str, timeout_seconds: float) -> bytes | None:
        deadline = time.monotonic() + timeout_seconds
        pause_seconds = self._POLL_SECONDS_MIN
        while not self._store.check([key]):
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0:
                return None
            time.sleep(min(pause_seconds, left_seconds))
            pause_seconds = min(1.3 * pause_seconds, self._POLL_SECONDS_MAX)
        value: bytes = self._store.get(key)
        return value

    def delete(self, key: str) -> None:
        self._store.delete_key(key)
