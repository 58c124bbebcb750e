"""One place where processes wait for each other, once.

One of them, the lowest, collects what all bring and answers. Messages go
through the key-value store of `jax.distributed`:

    holdfast/at/<place>/in/<process>            what a process brings
    holdfast/at/<place>/out/<process>/<message> the answer to it
    holdfast/ended/<operation>                  why nobody will come any more

Units: seconds.
"""

from __future__ import annotations

import contextlib
import errno
import json
import time
import urllib.parse
import uuid
from typing import Any, NamedTuple

from holdfast import errors
from holdfast.orbax import multihost

# The store is asked again this often, so that Ctrl-C and news are noticed.
_POLL_SECONDS = 1.0
# A budget for all processes together, because one server answers them.
_POLLS_PER_SECOND_MAX = 500
# The error that a process's failure becomes for the others: the first class
# that fits.
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


class Failure(NamedTuple):
    """Why a process cannot go on.

    Attributes:
        process: which.
        kind: name of the class in `holdfast.errors` that the others raise.
        text: the class and the message of what it raised itself.
        directory: the checkpoint's that it was at.
    """

    process: int
    kind: str
    text: str
    directory: str = ""

    @classmethod
    def of(
        cls, process: int, error: BaseException, directory: str = ""
    ) -> Failure:
        """The failure that `error` is for the other processes."""
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
        return cls(process, kind.__name__, text, directory)


class Message(NamedTuple):
    """The message that a process brings to a place.

    Attributes:
        id: identifies this message alone.
        operation: its id, or that of its beginning.
        value: what the others are to know: JSON.
    """

    id: str
    operation: str
    value: Any


def _message_of(text: str) -> Message:
    return Message(*json.loads(text))


class Party(NamedTuple):
    """The processes that wait, and what they wait for.

    Attributes:
        process: this one.
        members: all that wait, in order.
        operation: its id, or that of its beginning.
        directory: the checkpoint's, for messages.
    """

    process: int
    members: tuple[int, ...]
    operation: str
    directory: str


class JaxStore:
    """Keys and values that all processes of `jax.distributed` see."""

    def __init__(self) -> None:
        self._client = multihost.get_jax_distributed_client()

    def set(self, key: str, value: str) -> None:
        """Sets a value, whether there is one or not."""
        self._client.key_value_set(key, value, allow_overwrite=True)

    def get(self, key: str, timeout_secs: float) -> str | None:
        """The value that is there, or comes in time; else None."""
        timeout_ms = max(1, int(1000 * timeout_secs))
        try:
            text: str = self._client.blocking_key_value_get(key, timeout_ms)
        except Exception as error:
            if "DEADLINE_EXCEEDED" in str(error):
                return None
            raise
        return text

    def find(self, key: str) -> str | None:
        """The value that is there; else None."""
        if not hasattr(self._client, "key_value_try_get"):
            return self.get(key, 0)  # older releases of jax
        try:
            text: str = self._client.key_value_try_get(key)
        except Exception as error:
            if "NOT_FOUND" in str(error):
                return None
            raise
        return text

    def below(self, prefix: str) -> list[tuple[str, str]]:
        """The keys that begin so, and their values."""
        found: list[tuple[str, str]] = self._client.key_value_dir_get(prefix)
        return found

    def remove_below(self, prefix: str) -> None:
        """Forgets a key, or every key that begins so."""
        self._client.key_value_delete(prefix)


def _ended_key(operation: str) -> str:
    return f"holdfast/ended/{operation}"


def end_operation(operation: str, failure: Failure) -> None:
    """Lets all find `failure` at the next place; the first one counts.

    Args:
        operation: its id.
        failure: why.
    """
    with contextlib.suppress(Exception):
        multihost.get_jax_distributed_client().key_value_set(
            _ended_key(operation), json.dumps(failure)
        )


def reason_of(operation: str) -> Failure | None:
    """Why an operation has ended; None while it has not.

    Args:
        operation: its id.
    """
    text = JaxStore().find(_ended_key(operation))
    return None if text is None else Failure(*json.loads(text))


_PLACES = "holdfast/at/"


def _place_key(name: str) -> str:
    return _PLACES + urllib.parse.quote(name, safe=":")


# The last answer by place and process, where this process answers. A process
# soon removes what it brought, so the oldest answers are forgotten.
_ANSWERED_PLACES_MAX = 100
_ANSWERED: dict[tuple[str, int], str] = {}


class Wait:
    """One process at one place, once."""

    def __init__(
        self,
        name: str,
        who: Party,
        value: Any,
        timeout_secs: float,
    ) -> None:
        """Does not wait yet.

        Args:
            name: the place's.
            who: waits there, and what for.
            value: what the others are to know: JSON.
            timeout_secs: how long to wait.
        """
        self.name = name
        self._who = who
        self._message = Message(uuid.uuid4().hex, who.operation, value)
        self._timeout_secs = timeout_secs
        self._deadline = time.monotonic() + timeout_secs
        self._store = JaxStore()
        self._key = _place_key(name)
        polls = _POLLS_PER_SECOND_MAX
        self._poll_seconds = max(_POLL_SECONDS, len(who.members) / polls)
        # The processes that were here at some time, as far as this one has
        # looked.
        self._seen: set[int] = set()

    def run(self) -> dict[int, Any]:
        """Waits.

        Returns:
            The value of each process.

        Raises:
            DeadlineExceededError: processes did not come; it names them.
            HoldfastError: another process has ended the operation.
        """
        mine = self._who.process
        self._set(f"in/{mine}", json.dumps(self._message))
        try:
            self._check_not_ended()
            if mine == self._who.members[0]:
                return self._collect()
            return self._learn()
        finally:
            self._delete(f"in/{mine}")

    def _learn(self) -> dict[int, Any]:
        """The values, from the process that collects them."""
        name = f"out/{self._who.process}/{self._message.id}"
        answer = json.loads(self._ask(name))
        self._delete(name)
        if "failure" in answer:
            failure = Failure(*answer["failure"])
            raise getattr(errors, failure.kind)(failure.text)
        return {int(k): value for k, value in answer["values"].items()}

    def _collect(self) -> dict[int, Any]:
        """Reads what all bring and answers them."""
        messages = {self._who.process: self._message}
        try:
            for process in self._who.members[1:]:
                messages[process] = self._receive(process)
        except errors.DeadlineExceededError as error:
            failure = Failure(
                self._who.process, type(error).__name__, str(error)
            )
            answer = {"failure": failure}
            self._send(answer, self._waiting())
            raise
        values = {p: message.value for p, message in messages.items()}
        self._send({"values": values}, messages)
        return values

    def _receive(self, process: int) -> Message:
        """The message of a process, about this operation.

        A message for an operation that has ended is passed over; its process
        will find that out by itself. So is an answered message, which its
        process is about to remove.

        Raises:
            DeadlineExceededError: it did not come.
        """
        name = f"in/{process}"
        while True:
            message = _message_of(self._ask(name))
            is_answered = _ANSWERED.get((self._key, process)) == message.id
            if message.operation == self._message.operation:
                if not is_answered:
                    return message
            if time.monotonic() > self._deadline:
                raise self._timed_out({process})
            time.sleep(_POLL_SECONDS / 100)

    def _ask(self, name: str) -> str:
        """The value that another process has put, or will put, under a name.

        Raises:
            DeadlineExceededError: nobody has in time.
            HoldfastError: the operation has ended.
        """
        while True:
            left = self._deadline - time.monotonic()
            piece_secs = min(left, self._poll_seconds)
            text = self._store.get(f"{self._key}/{name}", piece_secs)
            if text is not None:
                return text
            self._check_not_ended()
            if self._who.process == self._who.members[0]:
                self._look_around()
            if left <= 0:
                late = self._timed_out(set())
                # An answer may have come while the error was made: look again.
                text = self._store.find(f"{self._key}/{name}")
                if text is None:
                    raise late
                return text

    def _timed_out(self, late: set[int]) -> errors.DeadlineExceededError:
        """The error that names the processes that are not here, or are `late`.
        """
        self._look_around()
        present = self._seen - late
        missing = [p for p in self._who.members if p not in present]
        elsewhere = self._elsewhere()
        names = ", ".join(
            f"process {process}" + elsewhere.get(process, "")
            for process in missing
        )
        if not names:
            names = f"the answer of process {self._who.members[0]}"
        return errors.DeadlineExceededError(
            f"{self._about()}: timed out after {self._timeout_secs:g} s;"
            f" missing: {names}"
        )

    def _about(self) -> str:
        directory = self._who.directory
        return f"{self.name} ({directory})" if directory else self.name

    def _look_around(self) -> None:
        """Remembers who is here: one whose own time is over soon leaves."""
        for process, message in self._waiting().items():
            is_answered = _ANSWERED.get((self._key, process)) == message.id
            if message.operation == self._message.operation and not is_answered:
                self._seen.add(process)

    def _waiting(self) -> dict[int, Message]:
        """The processes that are here."""
        found = self._store.below(f"{self._key}/in/")
        return {
            int(key.rsplit("/", 1)[1]): _message_of(text) for key, text in found
        }

    def _elsewhere(self) -> dict[int, str]:
        """The places where the missing processes wait, for the message."""
        places = {}
        for key, _ in self._store.below(_PLACES):
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
        failure = reason_of(self._who.operation)
        if failure is not None:
            raise getattr(errors, failure.kind)(
                f"{self._about()}: process {failure.process} failed:"
                f" {failure.text}"
            )

    def _send(self, answer: dict[str, Any], to: dict[int, Message]) -> None:
        text = json.dumps(answer)
        for process, message in to.items():
            if process != self._who.process:
                self._set(f"out/{process}/{message.id}", text)
                _ANSWERED.pop((self._key, process), None)
                _ANSWERED[self._key, process] = message.id
        while len(_ANSWERED) > _ANSWERED_PLACES_MAX * len(self._who.members):
            _ANSWERED.pop(next(iter(_ANSWERED)))

    def _set(self, name: str, text: str) -> None:
        self._store.set(f"{self._key}/{name}", text)

    def _delete(self, name: str) -> None:
        with contextlib.suppress(Exception):
            self._store.remove_below(f"{self._key}/{name}")
