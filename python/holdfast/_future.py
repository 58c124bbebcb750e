"""Future: a save that continues in the background.

If the system cannot start a thread, the save finishes before the caller gets
the future. The thread is not a daemon, so an interpreter that exits waits for
the checkpoint. If the caller never asks for a save's error, the next save
raises the error. If the future is dropped first, the error is reported like
other errors that Python cannot raise.

A forked child has its parent's futures, but not the threads behind them. There
the futures end immediately, with an error that says so.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from holdfast import errors
from holdfast._log import log
from holdfast._stats import Stats
from holdfast._threads import try_start

__all__ = ["Future", "raise_earlier_failure"]

T = TypeVar("T")


class _Shared(Generic[T]):
    """State shared with the thread, which must not keep the Future alive."""

    def __init__(self, what: str, raises_at_next_save: bool) -> None:
        self.what = what
        self.raises_at_next_save = raises_at_next_save
        self.finished = threading.Event()
        self.cancelled = threading.Event()
        self.result: T | None = None
        self.error: BaseException | None = None
        # Guards the members below, which decide who reports an unseen error.
        self.lock = threading.Lock()
        self.is_dropped = False
        self.has_ended = False
        self.error_was_seen = False
        # Called without arguments at the end; a callback may keep the Future
        # alive.
        self.callbacks: list[Callable[[], object]] = []

    def unreported_error(self) -> BaseException | None:
        if isinstance(self.error, errors.CancelledError):
            return None
        return self.error

    def end(self) -> bool:
        """Wakes the waiting threads. Returns whether the Future was dropped, so
        that nobody can ask for its error."""
        with self.lock:
            self.has_ended = True
            nobody_asks = self.is_dropped
            callbacks, self.callbacks = self.callbacks, []
        if self.raises_at_next_save and self.unreported_error() is not None:
            with _failures_lock:
                _failures.append(self)
        self.finished.set()
        for callback in callbacks:
            _call(callback, self.what)
        return nobody_asks


def _call(callback: Callable[[], object], what: str) -> None:
    try:
        callback()
    except Exception:
        log.exception("%s: a callback of its Future has failed", what)


# Failed saves whose errors have not been asked for yet, oldest first.
_failures: list[_Shared[Any]] = []
_failures_lock = threading.Lock()

# Futures whose threads in this process may still be running.
_running: weakref.WeakSet[_Shared[Any]] = weakref.WeakSet()


def raise_earlier_failure() -> None:
    """Raises the error of an earlier background save, once.

    Does nothing if there is no error, or if its future has returned the error.
    """
    with _failures_lock:
        pending, _failures[:] = list(_failures), []
        unseen = [shared for shared in pending if not shared.error_was_seen]
        _failures.extend(unseen[1:])
    if not unseen:
        return
    unseen[0].error_was_seen = True
    error = unseen[0].error
    assert error is not None
    if hasattr(error, "add_note"):  # since Python 3.11
        error.add_note(f"of the earlier {unseen[0].what}, in the background")
    raise error


class Future(Generic[T]):
    """The result of an operation that runs in its own thread.

    A future can be awaited. Cancelling a task that awaits it does not stop the
    operation. `state` is "staged" (the values have been captured and are being
    written), "durable" (the operation has succeeded), "failed" or "cancelled".
    """

    def __init__(
        self,
        run: Callable[[Callable[[], bool]], T],
        *,
        what: str,
        raises_at_next_save: bool = False,
        snapshot_seconds: float = 0.0,
    ) -> None:
        """Starts `run(is_cancelled)`; `what` names the operation in reports.

        `run` sees the caller's current context variables. With
        `raises_at_next_save`, `raise_earlier_failure` raises an error that the
        caller has not asked for.
        """
        self._what = what
        self._snapshot_seconds = snapshot_seconds
        self._shared: _Shared[T] = _Shared(what, raises_at_next_save)
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(_work, run, self._shared),
            name=f"holdfast: {what}",
            daemon=False,
        )
        _running.add(self._shared)
        if not try_start(self._thread):
            # Without a thread the save finishes before the caller continues.
            self._thread.run()

    @property
    def state(self) -> str:
        shared = self._shared
        if not shared.finished.is_set():
            return "staged"
        if shared.error is None:
            return "durable"
        if isinstance(shared.error, errors.CancelledError):
            return "cancelled"
        return "failed"

    def done(self) -> bool:
        """Returns whether the operation has ended, successfully or not."""
        return self._shared.finished.is_set()

    def cancel(self) -> bool:
        """Asks the operation to stop; returns False if it has already ended.

        A cancelled save leaves nothing behind, and `result` raises
        CancelledError. A save that has already committed is not cancelled.
        """
        if self.done():
            return False
        self._shared.cancelled.set()
        return True

    def cancelled(self) -> bool:
        """Returns whether the operation ended because it was cancelled."""
        return self.state == "cancelled"

    def result(self, timeout: float | None = None) -> T:
        """Waits for the end and returns the result, or raises the error.

        Raises DeadlineExceededError if `timeout` seconds pass first; the
        operation continues.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._shared.result  # type: ignore[return-value]

    def wait(self) -> None:
        """Waits for the end, and leaves an error to `result`."""
        self._wait(None)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end and returns the error, or None."""
        self._wait(timeout)
        self._shared.error_was_seen = True
        return self._shared.error

    def add_done_callback(
        self, callback: Callable[[Future[T]], object]
    ) -> None:
        """Calls `callback(self)` once when the operation ends, even with an
        error.

        The call happens on the operation's thread, or immediately if the
        operation has already ended. Exceptions from the callback are logged.
        """
        call = functools.partial(callback, self)
        with self._shared.lock:
            if not self._shared.has_ended:
                self._shared.callbacks.append(call)
                return
        _call(call, self._what)

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def wake(_: Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(ended.set)

        self.add_done_callback(wake)
        yield from ended.wait().__await__()
        return self.result()

    @property
    def snapshot_seconds(self) -> float:
        """How long a save took to capture the values before it continued in the
        background: the time that the program could not go on."""
        return self._snapshot_seconds

    @property
    def stats(self) -> Stats | None:
        """Bytes, phases and seconds; None until the operation is done."""
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
        # Also called for a Future whose __init__ failed.
        shared = getattr(self, "_shared", None)
        if shared is None or shared.error_was_seen:
            return
        with shared.lock:
            shared.is_dropped = True
            has_ended = shared.has_ended
        if not has_ended:
            warnings.warn(
                f"{self._what}: its Future was dropped before it ended; the"
                " save continues, and the next save raises its error",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            return
        error = shared.unreported_error()
        if error is not None:
            raise error  # Python hands it to sys.unraisablehook


def _work(run: Callable[[Callable[[], bool]], T], shared: _Shared[T]) -> None:
    try:
        shared.result = run(shared.cancelled.is_set)
    except BaseException as raised:
        shared.error = raised
    nobody_asks = shared.end()
    error = shared.unreported_error()
    if nobody_asks and error is not None:
        raise error  # Python hands it to threading.excepthook


def _forget_the_parents_threads() -> None:
    """In a forked child, ends the futures whose threads exist only in the
    parent."""
    global _failures_lock
    _failures_lock = threading.Lock()
    _failures.clear()
    for shared in list(_running):
        if shared.finished.is_set():
            continue
        # A thread that does not exist here may hold a lock, so replace it.
        shared.lock = threading.Lock()
        shared.finished = threading.Event()
        shared.cancelled = threading.Event()
        shared.callbacks = []
        shared.error_was_seen = True
        shared.error = errors.CancelledError(
            f"{shared.what}: it continues in the parent process, and only the"
            " parent can wait for it"
        )
        shared.has_ended = True
        shared.finished.set()


os.register_at_fork(after_in_child=_forget_the_parents_threads)
