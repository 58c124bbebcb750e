"""Running handlers' coroutines from calls that are not coroutines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from holdfast._future import Future
from holdfast.orbax._coroutines import run_sync as run_sync

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def close_all(awaitables: Iterable[Any]) -> None:
    """Gives up coroutines that will not be awaited."""
    for awaitable in awaitables:
        if hasattr(awaitable, "close"):
            awaitable.close()


class AsyncResponse(Protocol[T_co]):
    """The result of an operation that goes on in the background."""

    def result(self, timeout: float | None = None) -> T_co:
        """Waits for the end; raises what went wrong.

        Args:
            timeout: seconds to wait at most; None: forever.

        Raises:
            TimeoutError: it has not ended by then; it goes on.
        """
        ...

    def on_complete(self, callback: Callable[[Any], object]) -> None:
        """Calls `callback(result)` once it has ended well."""
        ...


class BackgroundResponse(Generic[T]):
    """An `AsyncResponse` of a function that runs in a thread of its own."""

    def __init__(self, run: Callable[[], T], what: str) -> None:
        self._callbacks: list[Callable[[T], object]] | None = []
        self._lock = threading.Lock()
        self._future: Future[T] = Future(lambda _: self._run(run), what=what)

    def _run(self, run: Callable[[], T]) -> T:
        result = run()
        with self._lock:
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or []:
            callback(result)
        return result

    def result(self, timeout: float | None = None) -> T:
        """See `AsyncResponse.result`."""
        return self._future.result(timeout)

    def on_complete(self, callback: Callable[[T], object]) -> None:
        """See `AsyncResponse.on_complete`."""
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        callback(self._future.result())
