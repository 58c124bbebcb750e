"""The results of saves and loads that run in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from holdfast._future import Future

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AsyncResponse(Protocol[T_co]):
    """The result of an operation that runs in the background."""

    def result(self, timeout: float | None = None) -> T_co:
        """Waits for the end and returns the result, or raises the error.

        Args:
            timeout: maximum number of seconds to wait; None means no limit.

        Raises:
            TimeoutError: the operation has not ended in time, and continues.
        """
        ...

    def on_complete(self, callback: Callable[[Any], object]) -> None:
        """Calls `callback(result)` once the operation has succeeded."""
        ...


class BackgroundResponse(Future[T]):
    """The `AsyncResponse` of a function that runs in its own thread.

    Attributes:
        error_was_seen: `result` or `exception` has reported the error.
    """

    def __init__(
        self, run: Callable[[Callable[[], bool]], T], what: str
    ) -> None:
        """Starts `run(is_cancelled)`; `what` names the operation in reports."""
        self._callbacks: list[Callable[[T], object]] | None = []
        self._lock = threading.Lock()
        self.error_was_seen = False
        super().__init__(
            lambda is_cancelled: self._run(run, is_cancelled), what=what
        )

    def _run(
        self,
        run: Callable[[Callable[[], bool]], T],
        is_cancelled: Callable[[], bool],
    ) -> T:
        result = run(is_cancelled)
        with self._lock:
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or []:
            callback(result)
        return result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end and returns the error, or None.

        Raises:
            TimeoutError: the operation has not ended in time, and continues.
        """
        error = super().exception(timeout)
        self.error_was_seen = error is not None
        return error

    def failure(self) -> BaseException | None:
        """Returns the error like `exception`, but does not mark it as seen.

        This method is for callers that report the error themselves.
        """
        return super().exception()

    def on_complete(self, callback: Callable[[T], object]) -> None:
        """Calls `callback(result)` after success, before `result` returns."""
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        callback(self.result())
