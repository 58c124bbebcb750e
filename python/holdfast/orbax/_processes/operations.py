"""The processes that work on one checkpoint, and their barriers.

The processes wait for each other at places, which have the names of Orbax's
barriers. The engine implements the barriers; `holdfast::ProcessGroup` describes
the rules.

An operation is one call of a process group. All operations that begin at the
same place share one group. Operations may therefore overlap, but operations
that begin at the same place must begin in the same order on all processes.

Units: seconds.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

from holdfast import _engine
from holdfast._process_group import ProcessTransport, jax_transport
from holdfast.orbax import multihost
from holdfast.orbax.options import MultiprocessingOptions

# The time limit of a wait that includes writing or reading, as a multiple of
# the limit of a wait that does not.
_WORK_FACTOR = 4
# The number of the next call of each process group.
_NEXT_CALLS: dict[tuple[int, str], int] = {}
_NEXT_LOCK = threading.Lock()


class Processes:
    """The processes that take part according to MultiprocessingOptions.

    Thread-safety: one thread per place.
    """

    def __init__(self, options: MultiprocessingOptions | None = None) -> None:
        """Gets the processes from jax, once.

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
        """Whether this is the program's only process."""
        return self.count == 1

    @property
    def has_others(self) -> bool:
        """Whether there are other processes to wait for."""
        return self.count > 1 and len(self.members) > 1

    @property
    def is_primary(self) -> bool:
        """Whether this process creates directories and writes shared files."""
        return self.primary is None or self.primary == self.index

    @property
    def writers(self) -> list[int]:
        """The processes whose parts make up an item in this process's
        directory."""
        if self.primary is None:
            return [self.index]
        return list(self.members)

    def start(
        self,
        place: str,
        directory: Any = "",
        *,
        value: Any = None,
        timeout_secs: float | None = None,
    ) -> Operation:
        """Begins a save or a restore on all processes.

        Args:
            place: the name of Orbax's first barrier.
            directory: the checkpoint's directory.
            value: a JSON value for the other processes.
            timeout_secs: None means `multihost.coordination_timeout()`.

        Raises:
            DeadlineExceededError: a process did not arrive in time.
        """
        operation = Operation(self, os.fspath(directory))
        operation.begin(place, value, timeout_secs)
        return operation

    def value_of_primary(
        self, place: str, value: Any, directory: Any = ""
    ) -> Any:
        """Returns the primary's value; all processes wait for it.

        Raises:
            DeadlineExceededError: a process did not arrive in time.
        """
        if not self.has_others:
            return value
        values = self.start(place, directory, value=value).values
        primary = min(values) if self.primary is None else self.primary
        return values.get(primary, value)

    def start_save(self, place: str, directory: Any) -> Operation:
        """Begins a save to one directory on all processes; see `start`.

        Raises:
            DeadlineExceededError: a process did not arrive in time.
            ValueError: a process saves to a different directory.
        """
        path = os.fspath(directory)
        operation = self.start(place, path, value=path)
        if self.primary is not None:
            check_directories(operation.values, path)
        return operation


class Operation:
    """One save or restore that several processes do together.

    If there are no other processes, no method waits.
    Thread-safety: one thread.
    """

    def __init__(self, processes: Processes, directory: str) -> None:
        self.processes = processes
        self.directory = directory
        # Equal on all processes, and unique to this operation.
        self.id = ""
        # The value that each process passed at the beginning.
        self.values: dict[int, Any] = {}
        self._group: _engine.ProcessGroup | None = None
        self._transport: ProcessTransport | None = None
        self._has_ended = False

    def begin(
        self,
        place: str,
        value: Any = None,
        timeout_secs: float | None = None,
    ) -> None:
        """Begins the operation: waits for all processes at `place`.

        Raises:
            DeadlineExceededError: a process did not arrive in time.
        """
        with self._counted(place):
            values = self.meet(
                place, [uuid.uuid4().hex, value], timeout_secs=timeout_secs
            )
        self.id = values[min(values)][0]
        self.values = {process: said for process, (_, said) in values.items()}

    @contextlib.contextmanager
    def _counted(self, place: str) -> Iterator[None]:
        """Runs the block as the beginning of the group's next call."""
        who = self.processes
        if not who.has_others:
            yield
            return
        name = multihost.unique_barrier_key(place, prefix=who.prefix)
        name += f" of {who.members}"
        counted = (who.index, name)
        with _NEXT_LOCK:
            number = _NEXT_CALLS.get(counted, 0)
            _NEXT_CALLS[counted] = number + 1
        self._transport = jax_transport(
            multihost.get_jax_distributed_client(), who.index, who.count
        )
        self._group = _engine.ProcessGroup(
            self._transport, name=name, first_call=number, members=who.members
        )
        self._group.begin_call()
        try:
            yield
        finally:
            # The number grows by more than 1 if this process skipped calls.
            with _NEXT_LOCK:
                _NEXT_CALLS[counted] += self._group.call_number - number

    @contextlib.contextmanager
    def phase(
        self, place: str, *, deadline: float | None = None
    ) -> Iterator[None]:
        """Runs the block, then waits until the other processes have run theirs.

        Args:
            place: the name of Orbax's barrier.
            deadline: a monotonic time; None means the time limit for work.

        Raises:
            Exception: any error from the block, or else from `meet`.
        """
        with self.ended_by_failure():
            yield
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
        """Waits for all processes.

        Args:
            place: the name of Orbax's barrier.
            value: a JSON value for the other processes.
            timeout_secs: None means `multihost.coordination_timeout()`.

        Returns:
            The value of each process.

        Raises:
            DeadlineExceededError: processes did not arrive in time; the error
                names them.
            HoldfastError: a process failed; the error names the process and the
                reason.
        """
        who = self.processes
        if self._group is None:
            return {who.index: value}
        if timeout_secs is None:
            timeout_secs = multihost.coordination_timeout()
        name = multihost.unique_barrier_key(place, prefix=who.prefix)
        mine = json.dumps(value).encode()
        with self.ended_by_failure():
            said = self._group.all_gather(
                name, self.directory, mine, timeout_secs
            )
        return dict(zip(who.members, map(json.loads, said), strict=True))

    @contextlib.contextmanager
    def ended_by_failure(self) -> Iterator[None]:
        """Notifies the other processes if the block fails."""
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise

    def end(self, reason: BaseException) -> None:
        """Ends the operation for all processes, which get `reason` at their
        next place.

        Only the first reason counts.
        """
        if self._group is None or self._has_ended:
            return
        self._has_ended = True
        # The operation's own call is still open. Begin a nested call and let it
        # fail, so that the next barriers of all processes fail.
        self._group.begin_call()
        with contextlib.suppress(Exception):  # `reason` is reported already
            self._group.end_call(reason, wait_seconds_max=0)

    def leave(self) -> None:
        """Notifies the other processes that this process has left an ended
        operation."""
        with contextlib.suppress(Exception):
            for process, transport in self._others():
                transport.send(process, self._left_topic, b"")

    def wait_until_left(self) -> None:
        """Waits until the others have left, or the time limit has passed."""
        deadline = time.monotonic() + multihost.coordination_timeout()
        for process, transport in self._others():
            while transport.receive(process, self._left_topic, 0.2) is None:
                if time.monotonic() > deadline:
                    return

    def _others(self) -> list[tuple[int, ProcessTransport]]:
        if self._transport is None or not self.id:
            return []
        members = self.processes.members
        return [
            (process, self._transport)
            for process in members
            if process != self.processes.index
        ]

    @property
    def _left_topic(self) -> str:
        return f"left/{self.id}"


def check_directories(directories: dict[int, str], directory: str) -> None:
    """Checks that all processes use the same checkpoint.

    Args:
        directories: the directory of each process.
        directory: the directory of this process.

    Raises:
        ValueError: the directories differ. Raised on all processes.
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
    """Makes the operation available to handlers that the block calls."""
    token = _CURRENT.set(operation)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_operation() -> Operation | None:
    """Returns the operation in which a handler is called."""
    return _CURRENT.get()


def current_save_id() -> str:
    """Returns the current operation's id; "" outside of an operation."""
    operation = _CURRENT.get()
    return "" if operation is None else operation.id
