"""The results of saves and loads that go on in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from holdfast._future import Future

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AsyncResponse(Protocol[T_co]):
    """The result of an operation that goes on in the background."""

    def result(self, timeout: float | None = None) -> T_co:
        """Waits for the end; raises the error, if any.

        Args:
            timeout: seconds to wait at most; None: forever.

        Raises:
            TimeoutError: it has not ended by then; it goes on.
        """
        ...

    def on_complete(self, callback: Callable[[Any], object]) -> None:
        """Calls `callback(result)` once it has ended well."""
        ...


class BackgroundResponse(Future[T]):
    """An `AsyncResponse` of a function that runs in a thread of its own.

    Attributes:
        error_was_seen: `result` or `exception` has reported the error.
    """

    def __init__(
        self, run: Callable[[Callable[[], bool]], T], what: str
    ) -> None:
        """Starts `run(is_cancelled)`; `what` names it in reports."""
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
        """Waits for the end and gives the error, or None.

        Raises:
            TimeoutError: it has not ended in `timeout` seconds; it goes on.
        """
        error = super().exception(timeout)
        self.error_was_seen = error is not None
        return error

    def failure(self) -> BaseException | None:
        """Like `exception`, but does not mark the error as seen; for
        callers that report it further."""
        return super().exception()

    def on_complete(self, callback: Callable[[T], object]) -> None:
        """See `AsyncResponse.on_complete`; before `result` gives it."""
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        callback(self.result())
