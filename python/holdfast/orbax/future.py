"""Futures of background writes: `orbax.checkpoint.future`.

A handler's `async_save` returns these futures. Each one is already running, and
`result` waits for it. Units: seconds.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Protocol

from holdfast import errors
from holdfast._log import log
from holdfast._threads import try_start
from holdfast.orbax import multihost
from holdfast.orbax._processes.coroutines import run_in_new_loop
from holdfast.orbax._processes.signals import (
    AwaitableSignalsContract,
    HandlerAwaitableSignal,
    current_operation_id,
    set_signals,
    wait_for_signals,
)

__all__ = [
    "AwaitableSignalsContract",
    "ChainedFuture",
    "CommitFuture",
    "CommitFutureAwaitingContractedSignals",
    "Future",
    "HandlerAwaitableSignal",
    "NoopFuture",
    "get_remaining_time",
    "set_signals",
    "wait_for_signals",
]

CANCELLED = (
    concurrent.futures.CancelledError,
    asyncio.CancelledError,
    errors.CancelledError,
)


class Future(Protocol):
    """A running operation that callers can wait for."""

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the operation to end.

        Args:
            timeout: how long to wait; None means without limit.

        Raises:
            TimeoutError: the operation takes longer.
            Exception: any error from the operation.
        """

    def cancel(self) -> bool | None:
        """Asks the operation to stop."""


class NoopFuture:
    """An operation that has already ended."""

    def result(self, timeout: float | None = None) -> Any:
        """Returns None."""
        return None

    def cancel(self) -> None:
        """Does nothing."""


def get_remaining_time(
    start_time: float, timeout_secs: float | None
) -> float | None:
    """Returns the time left of a timeout.

    Args:
        start_time: when the timeout began, as a value of `time.time`.
        timeout_secs: the timeout; if None, None is returned.

    Raises:
        TimeoutError: no time is left.
    """
    if timeout_secs is None:
        return None
    elapsed = time.time() - start_time
    if elapsed >= timeout_secs:
        raise TimeoutError(f"Timed out after {elapsed} seconds.")
    return timeout_secs - elapsed


class ChainedFuture:
    """Several futures and a callback that runs after them."""

    def __init__(
        self, futures: Sequence[Future], cb: Callable[[], None]
    ) -> None:
        """Makes a chained future.

        Args:
            futures: the futures to wait for, in order.
            cb: called by `result` when all futures have ended.
        """
        self._futures = futures
        self._cb = cb

    def result(self, timeout: float | None = None) -> Any:
        """Waits for all futures, then calls the callback.

        Args:
            timeout: the total for all futures.

        Raises:
            TimeoutError: the futures take longer; the message says how many
                have ended.
            Exception: any error from a future or the callback.
        """
        count = len(self._futures)
        start = time.time()
        for done, future in enumerate(self._futures):
            try:
                future.result(timeout=get_remaining_time(start, timeout))
            except TimeoutError as error:
                raise TimeoutError(
                    f"ChainedFuture completed {done}/{count} futures but timed"
                    f" out after {time.time() - start:.2f} seconds."
                ) from error
        self._cb()

    def cancel(self) -> None:
        """Asks all futures to stop."""
        for future in self._futures:
            future.cancel()


class CommitFuture(Future):
    """Runs a coroutine on its own thread.

    The thread waits for some signals before it runs the coroutine, and sends
    other signals afterwards.

    Thread-safety: any thread may wait and cancel.
    """

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        send_signals: Sequence[HandlerAwaitableSignal] | None = None,
        receive_signals: Sequence[HandlerAwaitableSignal] | None = None,
        timeout_secs: int | None = None,
        operation_id: str | None = None,
    ) -> None:
        """Starts the coroutine.

        Args:
            coro: the coroutine to run.
            name: the thread's name.
            send_signals: signals to send when the coroutine has succeeded.
            receive_signals: signals to wait for before the coroutine starts.
            timeout_secs: how long to wait for each received signal; None means
                `multihost.coordination_timeout()`.
            operation_id: the operation that the signals belong to; None means
                the current operation.

        Raises:
            ValueError: the timeout is not positive.
        """
        timeout_secs = timeout_secs or multihost.coordination_timeout()
        if timeout_secs <= 0:
            coro.close()
            raise ValueError(
                f"Timeout must be positive, but got {timeout_secs} seconds."
            )
        self.name = name
        self._coroutine = coro
        self._send = send_signals or ()
        self._receive = receive_signals or ()
        self._timeout_secs = timeout_secs
        self._operation_id = operation_id or current_operation_id()
        self._is_cancelled = False
        self._task: tuple[asyncio.AbstractEventLoop, Any] | None = None
        self._lock = threading.Lock()  # guards `_is_cancelled` and `_task`
        self._ended: concurrent.futures.Future[Any]
        self._ended = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._run,), name=name
        )
        if try_start(self._thread):
            return
        if self._receive:
            # Waiting for the signals on this thread could last forever: the
            # caller may send them only after this call.
            self._coroutine.close()
            raise errors.ResourceExhaustedError(
                f"{name or 'a commit future'}: the system gives no thread"
            )
        self._thread.run()

    def _run(self) -> None:
        try:
            self._ended.set_result(self._work())
        except BaseException as error:
            if isinstance(error, CANCELLED) or self._is_cancelled:
                # Sent nevertheless, so that nobody waits for them forever.
                set_signals(self._send, operation_id=self._operation_id)
                error = concurrent.futures.CancelledError()
            else:
                log.exception("%s failed", self.name or "a commit future")
            self._ended.set_exception(error)
        finally:
            self._coroutine.close()

    def _work(self) -> Any:
        wait_for_signals(
            self._receive,
            timeout_secs=self._timeout_secs,
            operation_id=self._operation_id,
        )
        result = run_in_new_loop(self._watched())
        set_signals(self._send, operation_id=self._operation_id)
        return result

    async def _watched(self) -> Any:
        """Runs the coroutine as a task that `cancel` can find."""
        with self._lock:
            if self._is_cancelled:
                raise asyncio.CancelledError
            task = asyncio.ensure_future(self._coroutine)
            self._task = asyncio.get_running_loop(), task
        try:
            return await task
        finally:
            with self._lock:
                self._task = None

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the coroutine.

        Args:
            timeout: how long to wait; None means without limit.

        Returns:
            The coroutine's result.

        Raises:
            TimeoutError: the coroutine takes longer.
            concurrent.futures.CancelledError: the coroutine was cancelled.
            Exception: any error from the coroutine.
        """
        concurrent.futures.wait([self._ended], timeout=timeout)
        if not self._ended.done():
            raise TimeoutError(
                f"Thread {self._thread.name} did not complete within"
                f" {timeout} seconds."
            )
        return self._ended.result()

    def __await__(self) -> Generator[Any, None, Any]:
        # Cancelling a waiting task does not stop the coroutine.
        return asyncio.shield(asyncio.wrap_future(self._ended)).__await__()

    def cancel(self) -> None:
        """Asks the coroutine to stop at its next `await`."""
        with self._lock:
            self._is_cancelled = True
            if self._task is not None:
                loop, task = self._task
                loop.call_soon_threadsafe(task.cancel)


class CommitFutureAwaitingContractedSignals(CommitFuture):
    """A CommitFuture that first waits for the operation's announced signals."""

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        send_signals: Sequence[HandlerAwaitableSignal] | None = None,
        timeout_secs: int | None = None,
        operation_id: str | None = None,
    ) -> None:
        """Starts the coroutine; see CommitFuture."""
        operation_id = operation_id or current_operation_id()
        contract = AwaitableSignalsContract.get_awaitable_signals_from_contract(
            operation_id
        )
        super().__init__(
            coro,
            name=name,
            send_signals=send_signals,
            receive_signals=contract,
            timeout_secs=timeout_secs,
            operation_id=operation_id,
        )
