"""Future: a save that goes on in the background.

The thread is no daemon, so that an interpreter that ends waits for the
checkpoint. An error that nobody asked for is reported when the future is
dropped, as Python reports what it cannot raise.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from holdfast import errors
from holdfast._stats import Stats

__all__ = ["Future"]

T = TypeVar("T")


class _Shared(Generic[T]):
    """What the working thread needs; it must not keep the Future alive."""

    def __init__(self) -> None:
        self.finished = threading.Event()
        self.cancelled = threading.Event()
        self.result: T | None = None
        self.error: BaseException | None = None
        # Guards the two below: who reports an error that nobody asked for.
        self.lock = threading.Lock()
        self.is_dropped = False
        self.has_ended = False

    def unreported_error(self) -> BaseException | None:
        if isinstance(self.error, errors.CancelledError):
            return None
        return self.error


class Future(Generic[T]):
    """The result of an operation that runs in a thread of its own.

    `state` is "running", "done", "failed" or "cancelled".
    """

    def __init__(
        self, run: Callable[[Callable[[], bool]], T], *, what: str
    ) -> None:
        """Starts `run(is_cancelled)`; `what` names it in reports.

        It sees the context variables of the caller, as they are now.
        """
        self._what = what
        self._error_was_seen = False
        self._shared: _Shared[T] = _Shared()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(_work, run, self._shared),
            name=f"holdfast: {what}",
            daemon=False,
        )
        self._thread.start()

    @property
    def state(self) -> str:
        shared = self._shared
        if not shared.finished.is_set():
            return "running"
        if shared.error is None:
            return "done"
        if isinstance(shared.error, errors.CancelledError):
            return "cancelled"
        return "failed"

    def done(self) -> bool:
        """True when it has ended, however it ended."""
        return self._shared.finished.is_set()

    def cancel(self) -> bool:
        """Asks it to stop; False when it has ended already.

        A cancelled save leaves nothing behind, and `result` raises
        CancelledError, unless it had got past the point of no return.
        """
        if self.done():
            return False
        self._shared.cancelled.set()
        return True

    def cancelled(self) -> bool:
        """True when it ended because it was cancelled."""
        return self.state == "cancelled"

    def result(self, timeout: float | None = None) -> T:
        """Waits for the end and gives the result, or raises what went wrong.

        Raises DeadlineExceededError when `timeout` seconds pass first; the
        operation goes on.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._shared.result  # type: ignore[return-value]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end and gives what went wrong, or None."""
        self._wait(timeout)
        self._error_was_seen = True
        return self._shared.error

    @property
    def stats(self) -> Stats | None:
        """Bytes, phases and seconds; None until it is done."""
        result = self._shared.result
        return result if isinstance(result, Stats) else None

    def _wait(self, timeout: float | None) -> None:
        if not self._shared.finished.wait(timeout):
            raise errors.DeadlineExceededError(
                f"{self._what}: not done after {timeout} s"
            )

    def __repr__(self) -> str:
        return f"<holdfast.Future {self._what}: {self.state}>"

    def __del__(self) -> None:
        # Also called for one whose __init__ has failed.
        shared = getattr(self, "_shared", None)
        if shared is None or self._error_was_seen:
            return
        with shared.lock:
            shared.is_dropped = True
            if not shared.has_ended:
                return
        error = shared.unreported_error()
        if error is not None:
            raise error  # Python hands it to sys.unraisablehook


def _work(run: Callable[[Callable[[], bool]], T], shared: _Shared[T]) -> None:
    try:
        shared.result = run(shared.cancelled.is_set)
    except BaseException as raised:
        shared.error = raised
    with shared.lock:
        shared.has_ended = True
        nobody_asks = shared.is_dropped
    shared.finished.set()
    error = shared.unreported_error()
    if nobody_asks and error is not None:
        raise error  # Python hands it to threading.excepthook
