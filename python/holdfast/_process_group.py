"""ProcessGroup: the processes that save and load one checkpoint together.

Their few small messages go through an engine that the program has already: the
key-value store of `jax.distributed`, the store of `torch.distributed`, or
anything with `rank`, `size`, `send` and `receive`. Neither jax nor torch is
imported here.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol

from holdfast import _engine, _files, errors
from holdfast._lazy import importing

__all__ = [
    "ENGINES_FIRST_PHASE",
    "Call",
    "GroupArgument",
    "ProcessGroup",
    "ProcessTransport",
    "agreement",
    "chosen",
    "process_group",
    "torch_world",
]

# A message above this goes in pieces: stores refuse large values, and
# torch's by closing the connection.
_PIECE_BYTES = 2 << 20
_COUNT_BYTES = 4
# A rank that must not stay, because Control-C ended it, gives its news and
# waits so long for others to hear them.
_LEAVE_SECONDS = 1.0
# Where the ranks of a save meet first, as the engine calls it.
ENGINES_FIRST_PHASE = "begin"


class ProcessTransport(Protocol):
    """What carries a group's messages between processes.

    Used by threads of the engine's, several at once when background saves
    overlap. What a method raises fails the save or load, which raises it.
    """

    @property
    def rank(self) -> int:
        """This process, from 0."""

    @property
    def size(self) -> int:
        """How many processes there are."""

    def send(self, to: int, topic: str, message: bytes, /) -> None:
        """Leaves a message for rank `to`, without waiting for it.

        `topic` is printable ASCII and new for this pair of ranks.
        """

    def receive(
        self, from_: int, topic: str, timeout_seconds: float, /
    ) -> bytes | None:
        """Takes a message; None when none came in time (0: look only)."""


class ProcessGroup:
    """The processes that save and load one checkpoint together.

    All of them make the same calls with it, in the same order. Make one a
    transport, and use it for all calls.
    Thread-safety: a call may go on in the background while others are begun.
    """

    def __init__(
        self,
        transport: ProcessTransport,
        *,
        name: str = "custom",
        torch_ranks: Iterable[int] | None = None,
    ) -> None:
        """`name` is for messages to people.

        `torch_ranks`: which ranks of torch.distributed's default group these
        processes are; None: those with the same numbers.
        """
        self.transport = transport
        self._name = name
        if torch_ranks is None:
            torch_ranks = range(transport.size)
        self.torch_ranks = frozenset(torch_ranks)
        self._lock = threading.Lock()
        self._call_count = 0
        self._open_calls: set[int] = set()
        # As last seen; None: it has not begun any call.
        self._number_of_rank_0: int | None = None

    @property
    def rank(self) -> int:
        """This process, from 0."""
        return self.transport.rank

    @property
    def size(self) -> int:
        """How many processes there are."""
        return self.transport.size

    @property
    def name(self) -> str:
        """What carries the messages: "jax", "torch", ..."""
        return self._name

    def begin(self, path: str, timeout_seconds: float) -> Call:
        """What one save or load of `path` uses; numbered as on other ranks."""
        with self._lock:
            number = self._call_count
            self._call_count += 1
            self._open_calls.add(number)
        return Call(self, number, _files.abspath(path), timeout_seconds)

    def end(self, call: Call, error: BaseException | None) -> None:
        """After a call, with why it failed.

        A rank that has left out a call, or was left behind by one, would miss
        the others for ever. Rank 0 counts for all: who finds that it counts
        otherwise lets the call fail that rank 0 is in, and follows.
        """
        with self._lock:
            self._open_calls.discard(call.number)
            if self.rank == 0:
                return
            before = self._number_of_rank_0
            if error is None:
                self._number_of_rank_0 = call.number
                call.forget_messages()
                return
            current = self._number_of_rank_0 = call.number_of_rank_0()
            if self._open_calls or current is None or current == call.number:
                return
            is_behind = current >= self._call_count
            if not is_behind:
                if current == before:
                    return  # rank 0 has left this one out, or may yet come
                # What waits there for rank 0 must not be taken for the news of
                # the calls that will have these numbers.
                call.take_back_messages(current)
                current = self._number_of_rank_0 = call.number_of_rank_0()
                if current is None or current >= call.number:
                    return  # it has come after all, and will miss this rank
            self._call_count = current + 1
        if is_behind:
            late = Call(self, current, call.path, _LEAVE_SECONDS)
            late.fail(
                ENGINES_FIRST_PHASE,
                errors.FailedPreconditionError(
                    "was at an earlier call, or has left one out"
                ),
            )

    def __repr__(self) -> str:
        return (
            f"<holdfast.ProcessGroup {self._name}: rank {self.rank} of"
            f" {self.size}>"
        )


class Call:
    """One save or load of a group, on this rank."""

    def __init__(
        self,
        group: ProcessGroup,
        number: int,
        path: str,
        timeout_seconds: float,
    ) -> None:
        self.path = path
        self.number = number
        self._group = group
        self.engine = self._engine_group(timeout_seconds)
        if self.rank == 0 and self._counter is not None:
            self._counter.note_call(number)

    @property
    def rank(self) -> int:
        return self.engine.rank

    @property
    def _counter(self) -> _StoreTransport | None:
        transport = self._group.transport
        return transport if isinstance(transport, _StoreTransport) else None

    def number_of_rank_0(self) -> int | None:
        """Of the last call that rank 0 has begun; None: not known."""
        if self.rank == 0 or self._counter is None:
            return None
        try:
            return self._counter.last_call()
        except Exception:  # the call has failed because of that already
            return None

    def forget_messages(self) -> None:
        """This rank's calls up to this one need no taking back."""
        if self._counter is not None:
            self._counter.forget_sent(self.number)

    def take_back_messages(self, after_number: int) -> None:
        """Of this rank's calls after that one, what nobody has received."""
        if self._counter is not None:
            self._counter.take_back(after_number)

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: object,
    ) -> None:
        self._group.end(self, error)

    def fail(self, phase: str, error: BaseException) -> None:
        """Tells the others, at their first meeting, why this rank is not
        coming. The caller raises `error`; nothing is raised here.

        Rank 0 waits for them as long as for any meeting, the others do not.
        """
        stays = self.rank == 0 and isinstance(error, Exception)
        group = self.engine if stays else self._engine_group(_LEAVE_SECONDS)
        try:
            group.agree(phase, self.path, error)
        except Exception:  # the news of all, ours among them
            pass

    def _engine_group(self, timeout_seconds: float) -> _engine.ProcessGroup:
        return _engine.ProcessGroup(
            self._group.transport,
            timeout_seconds=timeout_seconds,
            name=str(self.number),
        )


@contextlib.contextmanager
def agreement(call: Call | None, phase: str) -> Iterator[None]:
    """All ranks do the block, and go on when none of them has failed in it.

    Raises what the block raises, or what the others' have; alone, nothing.
    """
    try:
        yield
    except BaseException as error:
        if call is not None:
            call.fail(phase, error)
        raise
    if call is not None:
        call.engine.agree(phase, call.path)


GroupArgument = (
    Literal["auto", "jax", "torch", "single"] | ProcessGroup | None | Any
)


def process_group(kind: Any = "auto") -> ProcessGroup | None:
    """The processes that an engine of the program's connects.

    Args:
      kind: "jax": those of `jax.distributed`; "torch": those of
        `torch.distributed`; one of its process groups; "auto": of the first
        of the two that is initialised with more than one process; "single" or
        None: this process alone.

    Returns:
      The same object for the same processes; None for a process alone.

    Raises:
      FailedPreconditionError: that engine is not initialised.
      InvalidArgumentError: another `kind`, or a group without this process.
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
    """What the `group` argument of a call stands for; None: alone.

    "auto" must not make a process wait for others that nobody asked for: where
    only a tree with arrays that are spread over processes (of a kind, "jax" or
    "torch") shows that all of them make this call, it must have one.
    `takes_all_jax`: the call is one that all processes of a jax program make.
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
    """All processes of `torch.distributed`; None: not initialised, or one."""
    return _several(_torch_group(None))


class _HasSpread(Protocol):
    def __call__(self, kind: str, /) -> bool: ...


def _several(group: ProcessGroup | None) -> ProcessGroup | None:
    return None if group is None or group.size == 1 else group


# By the engine's object for the connection, so that a new one starts anew.
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
            transport = _StoreTransport(
                _JaxStore(client), state.process_id, state.num_processes
            )
            _jax_groups[:] = [(client, ProcessGroup(transport, name="jax"))]
        return _jax_groups[0][1]


def _torch_distributed() -> Any | None:
    """torch.distributed, once the program has initialised it."""
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
    """Of a process group of torch's; None: the default one."""
    distributed = _torch_distributed()
    if distributed is None:
        return None
    if group is None:
        group = distributed.group.WORLD
    rank = distributed.get_rank(group)
    if rank < 0:
        raise errors.InvalidArgumentError(
            "group: this process is no member of the torch.distributed group"
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
    """Keys and values that all processes see."""

    def set(self, key: str, value: bytes) -> None:
        """Replaces what is there."""

    def get(self, key: str, timeout_seconds: float) -> bytes | None:
        """None when nobody has set it in time."""

    def delete(self, key: str) -> None: ...


class _StoreTransport:
    """Messages as values of a store, which are deleted when received."""

    def __init__(self, store: _Store, rank: int, size: int) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        # By the number of their call, until another call has ended well: only
        # what was sent to rank 0 since then may have been in vain.
        self._sent_keys: dict[int, list[str]] = {}
        self._lock = threading.Lock()

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return self._size

    def note_call(self, number: int) -> None:
        """Rank 0 has begun its call of this number."""
        self._store.set(_CALL_KEY, str(number).encode())

    def last_call(self) -> int | None:
        """What rank 0 has noted last; None: nothing yet."""
        number = self._store.get(_CALL_KEY, 0)
        return None if number is None else int(number)

    def forget_sent(self, until_number: int) -> None:
        """The calls up to this one will not be taken back."""
        with self._lock:
            for number in [n for n in self._sent_keys if n <= until_number]:
                del self._sent_keys[number]

    def take_back(self, after_number: int) -> None:
        """Deletes what this rank sent in later calls and nobody received."""
        with self._lock:
            numbers = [n for n in self._sent_keys if n > after_number]
            keys = [key for n in numbers for key in self._sent_keys.pop(n)]
        for key in keys:
            if self._store.get(key, 0) is not None:
                self._store.delete(key)

    def send(self, to: int, topic: str, message: bytes) -> None:
        key = _key(self._rank, to, topic)
        pieces = _pieces(message)
        number = topic.split("/", 1)[0]
        if self._rank != 0 and number.isdecimal():
            with self._lock:
                sent_keys = self._sent_keys.setdefault(int(number), [])
                sent_keys.append(key)
        # The first goes last: who has it finds the others.
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


_CALL_KEY = "holdfast/call"


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

    Asked again and again: a wait of the store's own reports each timeout on
    standard error, and keeps the store from all other threads.
    """

    _POLL_SECONDS_MIN = 0.0005
    _POLL_SECONDS_MAX = 0.05

    def __init__(self, store: Any, prefix: str) -> None:
        with importing:
            import torch.distributed

        try:
            store = store.clone()  # a connection of our own
        except (AttributeError, RuntimeError):
            pass  # of older releases, and other kinds of stores
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
