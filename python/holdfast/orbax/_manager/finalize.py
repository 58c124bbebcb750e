"""The background work of a manager after a save."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.orbax._processes.operations import Processes
from holdfast.orbax.options import AsyncOptions, MultiprocessingOptions


def call_all(*calls: Callable[[], object]) -> None:
    """Calls each function, even if others raise.

    Raises:
        Exception: the error of the first call that failed.
    """
    failure: Exception | None = None
    for call in calls:
        try:
            call()
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure


class FinalizeThread(threading.Thread):
    """Runs the work that finishes a step's save.

    Each waiting thread gets the error once.
    """

    def __init__(self, step: int, work: Callable[[], None]) -> None:
        """Creates the thread without starting it.

        Args:
            step: the step's number.
            work: the function to run.
        """
        super().__init__(name="save_finalize")
        self.step = step
        self._work = work
        self._error: BaseException | None = None
        self._told = threading.local()

    def start(self) -> None:
        """Starts the thread, or runs the work here if the system cannot start
        a thread."""
        try:
            super().start()
        except RuntimeError:
            self.run()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        """Waits until the work has ended.

        Raises:
            Exception: the error of the work, once in each thread.
        """
        if threading.current_thread() is self:
            return
        if self.ident is not None:  # otherwise the work ran in `start`
            self.join()
        if self._error is None or getattr(self._told, "is_told", False):
            return
        self._told.is_told = True
        raise self._error


class SaveProgress:
    """Whether a save is running; the same on all processes.

    Thread-safety: any thread may call `get`.
    """

    def __init__(
        self,
        multiprocessing_options: MultiprocessingOptions,
        async_options: AsyncOptions | None,
    ) -> None:
        """Creates the object; no save is running at first.

        Args:
            multiprocessing_options: the processes that agree on the state.
            async_options: how long to wait for these processes.
        """
        self._options = multiprocessing_options
        self._timeout_secs = (async_options or AsyncOptions()).timeout_secs
        self._is_running = threading.Event()

    def get(self) -> bool:
        """Returns whether a save is running."""
        return self._is_running.is_set()

    def set(self, is_running: bool) -> None:
        """Waits for all processes, then sets the state.

        The state is set even if the wait fails.

        Raises:
            DeadlineExceededError: a process did not arrive in time.
        """
        try:
            self._meet()
        finally:
            if is_running:
                self._is_running.set()
            else:
                self._is_running.clear()

    def _meet(self) -> None:
        processes = Processes(self._options)
        if processes.has_others:
            processes.start(
                "ThreadSaveMultiHostValueHolder:set_value_start",
                timeout_secs=self._timeout_secs,
            )
