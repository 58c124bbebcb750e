"""The temporary directory that several processes write into."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from holdfast import _files
from holdfast.orbax._paths import PathLike
from holdfast.orbax._processes import Operation


class SharedDirectory:
    """The primary makes, commits and removes it; the others know its path.

    A context manager: leaving it removes a directory that is not committed.
    Thread-safety: one thread at a time.
    """

    def __init__(self, operation: Operation) -> None:
        """Makes nothing yet.

        Args:
            operation: the save.
        """
        self._operation = operation
        # A Pending, on the primary; None before `begin` and on other processes.
        self.pending: Any | None = None

    def begin(self, make: Callable[[], Any]) -> None:
        """Makes the directory, on the primary. Again: nothing.

        Args:
            make: returns a Pending.
        """
        if self._operation.processes.is_primary and self.pending is None:
            self.pending = make()

    def path(self, temporary: PathLike) -> str:
        """Where it is.

        Args:
            temporary: where those think it is that have not made it.
        """
        if self.pending is not None:
            return str(self.pending.directory)
        return _files.abspath(temporary)

    def __enter__(self) -> SharedDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._operation.end(error)
        self.close(is_failed=isinstance(error, Exception))

    def close(self, *, is_failed: bool) -> None:
        """Removes a directory that is not committed; nothing after a commit.

        Args:
            is_failed: other processes may still be writing into it.
        """
        if self.pending is None:
            self._operation.leave()
            return
        if is_failed:
            self._operation.wait_until_left()
        self.pending.discard()
