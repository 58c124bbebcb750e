"""The processes that work on one checkpoint, and where they wait.

They meet at places that have the names of Orbax's barriers. A process that
fails ends the operation for all: every other, at the next place, raises an
error that names it and its reason. Where a process does not come in time,
those that came name it.

One of them, the lowest, collects and answers. Messages go through the
key-value store of `jax.distributed`:

    holdfast/at/<place>/in/<process>            what a process brings
    holdfast/at/<place>/out/<process>/<message> the answer to it
    holdfast/ended/<operation>                  why nobody will come any more
    holdfast/left/<operation>/<process>         it has nothing to do with it now

Units: seconds.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import errno
import json
import os
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from typing import Any

from holdfast import errors
from holdfast.orbax import multihost
from holdfast.orbax.options import MultiprocessingOptions

# The store is asked again this often, so that Ctrl-C and news are noticed.
_POLL_SECONDS = 1.0
# A wait that includes writing or reading, in waits that do not.
_WORK_FACTOR = 4

# What a process's failure is for the others: the first that fits.
_CLASS_OF_FAILURE: tuple[
    tuple[type[BaseException], type[errors.HoldfastError]], ...
] = (
    (errors.ResourceExhaustedError, errors.ResourceExhaustedError),
    (errors.DataLossError, errors.DataLossError),
    (errors.InvalidArgumentError, errors.InvalidArgumentError),
    (FileNotFoundError, errors.NotFoundError),
    (FileExistsError, errors.AlreadyExistsError),
    (PermissionError, errors.PermissionDeniedError),
    (TimeoutError, errors.DeadlineExceededError),
    (NotImplementedError, errors.UnimplementedError),
    (ValueError, errors.FailedPreconditionError),
    (OSError, errors.UnavailableError),
    (MemoryError, errors.ResourceExhaustedError),
    (KeyboardInterrupt, errors.CancelledError),
)
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a process cannot go on.

    Attributes:
        process: which.
        kind: name of the class in `holdfast.errors` that the others raise.
        text: the class and the message of what it raised itself.
    """

    process: int
    kind: str
    text: str

    @classmethod
    def of(cls, process: int, error: BaseException) -> Failure:
        """What `error` is for the other processes."""
        kind: type[errors.HoldfastError] = errors.InternalError
        for raised, seen in _CLASS_OF_FAILURE:
            if isinstance(error, raised):
                kind = seen
                break
        if getattr(error, "errno", None) in _DISK_IS_FULL:
            kind = errors.ResourceExhaustedError
        text = type(error).__name__
        if str(error):
            text += f": {error}"
        return cls(process, kind.__name__, text)


class Processes:
    """Those that take part, as MultiprocessingOptions say.

    Thread-safety: one thread a place.
    """

    def __init__(self, options: MultiprocessingOptions | None = None) -> None:
        """Asks jax, once.

        Raises:
            ValueError: this process does not take part.
        """
        options = options or MultiprocessingOptions()
        self.count = multihost.process_count()
        self.index = multihost.process_index()
        self.primary = options.primary_host
        self.prefix = options.barrier_sync_key_prefix
        active = options.active_processes or range(self.count)
        self.members: tuple[int, ...] = tuple(sorted(active))
        if self.count > 1 and self.index not in self.members:
            raise ValueError(
                "Attempted to create a barrier across a subset of processes,"
                f" but the current process: {self.index} was not present in the"
                f" provided list of processes: {set(self.members)}."
            )

    @property
    def is_single(self) -> bool:
        """The program has no other process."""
        return self.count == 1

    @property
    def has_others(self) -> bool:
        """There is somebody to wait for."""
        return self.count > 1 and len(self.members) > 1

    @property
    def is_primary(self) -> bool:
        """This process makes directories and writes what all share."""
        return self.primary is None or self.primary == self.index

    @property
    def writers(self) -> list[int]:
        """Whose parts make an item in a directory of this process."""
        if self.primary is None:
            return [self.index]
        return list(self.members)

    def start(
        self, place: str, directory: Any = "", *, value: Any = None
    ) -> Operation:
        """Begins a save or a restore together.

        Args:
            place: the name of Orbax's first barrier.
            directory: of the checkpoint.
            value: what the others are to know: JSON.

        Raises:
            DeadlineExceededError: a process did not come.
        """
        operation = Operation(self, os.fspath(directory))
        operation.begin(place, value)
        return operation


@dataclasses.dataclass
class _Message:
    """What a process brings to a place.

    Attributes:
        id: of this message alone.
        operation: "" where one begins.
        value: what the others are to know: JSON.
    """

    id: str
    operation: str
    value: Any

    def to_text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> _Message:
        return cls(**json.loads(text))


class Operation:
    """One save or restore of several processes.

    Without other processes it waits for nobody.
    Thread-safety: one thread.
    """

    def __init__(self, processes: Processes, directory: str) -> None:
        self.processes = processes
        self.directory = directory
        # Alike on all processes, and no other operation's.
        self.id = ""
        # What each process said at the beginning.
        self.values: dict[int, Any] = {}

    def begin(self, place: str, value: Any = None) -> None:
        """Waits where the operation begins.

        Raises:
            DeadlineExceededError: a process did not come.
        """
        values = self.meet(place, [uuid.uuid4().hex, value])
        self.id = values[min(values)][0]
        self.values = {process: said for process, (_, said) in values.items()}

    @contextlib.contextmanager
    def phase(
        self, place: str, *, deadline: float | None = None
    ) -> Iterator[None]:
        """Does the block's work, then waits for the others to have done it.

        Args:
            place: the name of Orbax's barrier.
            deadline: of the monotonic clock; None: as long as work may take.

        Raises:
            Exception: what the block raises; otherwise what `meet` raises.
        """
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise
        if deadline is None:
            timeout_secs = _WORK_FACTOR * multihost.coordination_timeout()
            self.meet(place, timeout_secs=timeout_secs)
        else:
            left_secs = max(0.0, deadline - time.monotonic())
            self.meet(place, timeout_secs=left_secs)

    def meet(
        self,
        place: str,
        value: Any = None,
        *,
        timeout_secs: float | None = None,
    ) -> dict[int, Any]:
        """Waits for all.

        Args:
            place: the name of Orbax's barrier.
            value: what the others are to know: JSON.
            timeout_secs: None: `multihost.coordination_timeout()`.

        Returns:
            The value of each process.

        Raises:
            DeadlineExceededError: processes did not come; it names them.
            HoldfastError: another process failed; it names that and its reason.
        """
        if not self.processes.has_others:
            return {self.processes.index: value}
        if timeout_secs is None:
            timeout_secs = multihost.coordination_timeout()
        name = multihost.unique_barrier_key(place, prefix=self.processes.prefix)
        message = _Message(uuid.uuid4().hex, self.id, value)
        try:
            return _Wait(self, name, message, timeout_secs).run()
        except BaseException as error:
            self.end(error)
            raise

    def end(self, reason: BaseException) -> None:
        """Ends the operation for all: they find `reason` at the next place.

        The first reason counts.
        """
        if not self.id or not self.processes.has_others:
            return
        failure = Failure.of(self.processes.index, reason)
        with contextlib.suppress(Exception):
            multihost.get_jax_distributed_client().key_value_set(
                f"holdfast/ended/{self.id}",
                json.dumps(dataclasses.asdict(failure)),
            )

    def reason(self) -> Failure | None:
        """Why the operation has ended; None while it has not."""
        if not self.id or not self.processes.has_others:
            return None
        text = _try_get(f"holdfast/ended/{self.id}")
        return None if text is None else Failure(**json.loads(text))

    def leave(self) -> None:
        """Says that this process does nothing more for an ended operation."""
        if not self.id or not self.processes.has_others:
            return
        with contextlib.suppress(Exception):
            multihost.get_jax_distributed_client().key_value_set(
                self._left_key(self.processes.index), "", allow_overwrite=True
            )

    def wait_until_left(self) -> None:
        """Waits until the others have left, or have had the time to."""
        if not self.id or not self.processes.has_others:
            return
        deadline = time.monotonic() + multihost.coordination_timeout()
        for process in self.processes.members:
            key = self._left_key(process)
            while process != self.processes.index and _get(key, 200) is None:
                if time.monotonic() > deadline:
                    return

    def _left_key(self, process: int) -> str:
        return f"holdfast/left/{self.id}/{process}"


def _try_get(key: str) -> str | None:
    """What lies in the store under a key; else None."""
    client = multihost.get_jax_distributed_client()
    if not hasattr(client, "key_value_try_get"):
        return _get(key, 1)  # older releases of jax
    try:
        text: str = client.key_value_try_get(key)
    except Exception as error:
        if "NOT_FOUND" in str(error):
            return None
        raise
    return text


def _get(key: str, timeout_ms: int) -> str | None:
    """What lies in the store under a key, or will in time; else None."""
    client = multihost.get_jax_distributed_client()
    try:
        text: str = client.blocking_key_value_get(key, timeout_ms)
    except Exception as error:
        if "DEADLINE_EXCEEDED" in str(error):
            return None
        raise
    return text


_PLACES = "holdfast/at/"


def _place_key(name: str) -> str:
    return _PLACES + urllib.parse.quote(name, safe=":")


class _Wait:
    """One process at one place, once."""

    def __init__(
        self,
        operation: Operation,
        name: str,
        message: _Message,
        timeout_secs: float,
    ) -> None:
        self._operation = operation
        self._processes = operation.processes
        self._name = name
        self._message = message
        self._timeout_secs = timeout_secs
        self._deadline = time.monotonic() + timeout_secs
        self._client = multihost.get_jax_distributed_client()
        self._key = _place_key(name)

    def run(self) -> dict[int, Any]:
        """Waits; see `Operation.meet`."""
        mine = self._processes.index
        self._set(f"in/{mine}", self._message.to_text())
        try:
            self._check_not_ended()
            if mine == self._processes.members[0]:
                return self._collect()
            return self._learn()
        finally:
            self._delete(f"in/{mine}")

    def _learn(self) -> dict[int, Any]:
        """The values, from the process that collects them."""
        name = f"out/{self._processes.index}/{self._message.id}"
        answer = json.loads(self._ask(name))
        self._delete(name)
        if "failure" in answer:
            failure = Failure(**answer["failure"])
            raise getattr(errors, failure.kind)(failure.text)
        return {int(k): value for k, value in answer["values"].items()}

    def _collect(self) -> dict[int, Any]:
        """Reads what all bring and answers them."""
        messages = {self._processes.index: self._message}
        try:
            for process in self._processes.members[1:]:
                messages[process] = self._receive(process)
        except errors.DeadlineExceededError as error:
            failure = Failure(
                self._processes.index, type(error).__name__, str(error)
            )
            answer = {"failure": dataclasses.asdict(failure)}
            self._send(answer, self._waiting())
            raise
        values = {p: message.value for p, message in messages.items()}
        self._send({"values": values}, messages)
        return values

    def _receive(self, process: int) -> _Message:
        """The message of a process, about this operation.

        What a process brings to an operation that has ended is passed over;
        it will find that out by itself.

        Raises:
            DeadlineExceededError: it did not come.
        """
        name = f"in/{process}"
        while True:
            message = _Message.from_text(self._ask(name))
            if message.operation == self._message.operation:
                return message
            if time.monotonic() > self._deadline:
                raise self._timed_out({process})
            time.sleep(_POLL_SECONDS / 100)

    def _ask(self, name: str) -> str:
        """What somebody has put, or will put, under a name.

        Raises:
            DeadlineExceededError: nobody has in time.
            HoldfastError: the operation has ended.
        """
        while True:
            left = self._deadline - time.monotonic()
            piece_ms = max(1, int(1000 * min(left, _POLL_SECONDS)))
            text = _get(f"{self._key}/{name}", piece_ms)
            if text is not None:
                return text
            self._check_not_ended()
            if left <= 0:
                raise self._timed_out(set())

    def _timed_out(self, late: set[int]) -> errors.DeadlineExceededError:
        """The error that names who is not here, or is `late`."""
        present = self._waiting().keys() - late
        missing = [p for p in self._processes.members if p not in present]
        elsewhere = self._elsewhere()
        names = ", ".join(
            f"process {process}" + elsewhere.get(process, "")
            for process in missing
        )
        if not names:
            names = f"the answer of process {self._processes.members[0]}"
        return errors.DeadlineExceededError(
            f"{self._about()}: timed out after {self._timeout_secs:g} s;"
            f" missing: {names}"
        )

    def _about(self) -> str:
        directory = self._operation.directory
        return f"{self._name} ({directory})" if directory else self._name

    def _waiting(self) -> dict[int, _Message]:
        """Who is here."""
        found = self._client.key_value_dir_get(f"{self._key}/in/")
        return {
            int(key.rsplit("/", 1)[1]): _Message.from_text(text)
            for key, text in found
        }

    def _elsewhere(self) -> dict[int, str]:
        """Where processes wait that are not here, for the message."""
        places = {}
        for key, _ in self._client.key_value_dir_get(_PLACES):
            place, direction, *rest = key.removeprefix(_PLACES).split("/")
            if direction == "in" and f"{_PLACES}{place}" != self._key:
                name = urllib.parse.unquote(place)
                places[int(rest[0])] = f" (which waits at {name})"
        return places

    def _check_not_ended(self) -> None:
        """Raises why the operation has ended, if it has.

        Raises:
            HoldfastError: another process has failed.
        """
        failure = self._operation.reason()
        if failure is not None:
            raise getattr(errors, failure.kind)(
                f"{self._about()}: process {failure.process} failed:"
                f" {failure.text}"
            )

    def _send(self, answer: dict[str, Any], to: dict[int, _Message]) -> None:
        text = json.dumps(answer)
        for process, message in to.items():
            if process != self._processes.index:
                self._delete(f"in/{process}")
                self._set(f"out/{process}/{message.id}", text)

    def _set(self, name: str, text: str) -> None:
        self._client.key_value_set(
            f"{self._key}/{name}", text, allow_overwrite=True
        )

    def _delete(self, name: str) -> None:
        with contextlib.suppress(Exception):
            self._client.key_value_delete(f"{self._key}/{name}")


def check_directories(directories: dict[int, str], directory: str) -> None:
    """Checks that all processes mean the same checkpoint.

    Args:
        directories: what each process said.
        directory: what this one says.

    Raises:
        ValueError: they do not; on all processes.
    """
    if len(set(directories.values())) > 1:
        raise ValueError(
            "Directory path mismatch in multi-process save. Process"
            f" {multihost.process_index()} has path {directory!r}. (See logs"
            " from other processes for their paths.) Ensure all JAX processes"
            " are saving to the exact same directory path. If using"
            " create_tempdir in tests, provide the 'name' argument to ensure"
            " all processes generate the same path. The paths of all:"
            f" {directories}"
        )


_CURRENT: contextvars.ContextVar[Operation | None] = contextvars.ContextVar(
    "holdfast_operation", default=None
)


@contextlib.contextmanager
def saving(operation: Operation) -> Iterator[None]:
    """Lets handlers that are called in the block know the operation."""
    token = _CURRENT.set(operation)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_operation() -> Operation | None:
    """The operation that a handler is called in."""
    return _CURRENT.get()


def current_save_id() -> str:
    """Its id; "" outside of any."""
    operation = _CURRENT.get()
    return "" if operation is None else operation.id
