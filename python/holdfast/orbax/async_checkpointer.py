"""AsyncCheckpointer: saves in the background.

`save` copies everything that the caller may change, and returns. A thread
called `async_save` waits until the handler has written, then commits the
checkpoint. The next call that checks for errors raises that thread's error,
once.

Units: seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast import errors
from holdfast._log import log
from holdfast._threads import try_start
from holdfast.orbax._checkpointer.base import (
    Checkpointer,
    construct_checkpoint_args,
)
from holdfast.orbax._checkpointer.paths import PathLike
from holdfast.orbax._devices.monitoring import (
    MonitoredOperation,
    SaveContext,
    record_duration,
    record_scalar,
    timed,
)
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._handlers.pytree_save import wait_quietly
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._processes.operations import Operation, saving
from holdfast.orbax._processes.shared_directory import SharedDirectory
from holdfast.orbax._processes.signals import (
    AwaitableSignalsContract,
    HandlerAwaitableSignal,
    OperationIdGenerator,
    current_operation_id,
    set_signals,
)
from holdfast.orbax.future import CANCELLED, ChainedFuture
from holdfast.orbax.multihost import unique_barrier_key
from holdfast.orbax.options import (
    AsyncOptions,
    AtomicityOptions,
    FileOptions,
    MultiprocessingOptions,
)

__all__ = ["AsyncCheckpointer"]

_SIGNALS = (
    HandlerAwaitableSignal.STEP_DIRECTORY_CREATION,
    HandlerAwaitableSignal.ITEM_DIRECTORY_CREATION,
)


class _BackgroundSave:
    """Runs at most one save at a time, on its own thread.

    Thread-safety: any thread may wait; only one thread may start saves.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._futures: Sequence[Any] = ()
        self._is_cancelled = threading.Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether the running save was asked to stop."""
        return self._is_cancelled.is_set()

    def start(self, futures: Sequence[Any], work: Callable[[], None]) -> None:
        """Runs `work()`. REQUIRES: nothing is running.

        Args:
            futures: the futures that `work` waits for.
            work: the function to run.
        """

        def run() -> None:
            try:
                work()
            except BaseException as error:
                if isinstance(error, CANCELLED) or self.is_cancelled:
                    log.info("The save was cancelled.")
                    return
                log.error("The save has failed.", exc_info=True)
                self._error = error

        self._is_cancelled.clear()
        self._futures = futures
        thread = threading.Thread(name="async_save", target=run)
        if try_start(thread):
            self._thread = thread
        else:
            run()  # no other thread is available

    def cancel(self) -> None:
        """Asks the running save to stop."""
        if self._thread is None:
            return
        self._is_cancelled.set()
        _cancel_all(self._futures)

    def raise_error(self) -> None:
        """Raises the error of the last save, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """Waits for the save, then raises the save's error."""
        thread = self._thread
        if thread is not None:
            thread.join()
            self._thread = None
            self._futures = ()
        self.raise_error()


def _cancel_all(futures: Sequence[Any]) -> None:
    for future in futures:
        try:
            future.cancel()
        except Exception:
            log.warning("A future cannot be cancelled", exc_info=True)


def _flat(futures: Any) -> list[Any]:
    """Flattens nested lists of futures and drops None."""
    if futures is None:
        return []
    if not isinstance(futures, list | tuple):
        return [futures]
    return [future for part in futures for future in _flat(part)]


class AsyncCheckpointer(Checkpointer):
    """Saves in the background with any asynchronous handler.

    A `with` block waits for the running save and closes the handler at its end.
    Thread-safety: one call at a time; any thread may wait.
    """

    _is_async = True

    def __init__(
        self,
        handler: Any,
        timeout_secs: int | None = None,
        *,
        async_options: AsyncOptions | None = None,
        multiprocessing_options: MultiprocessingOptions | None = None,
        file_options: FileOptions | None = None,
        atomicity_options: AtomicityOptions | None = None,
        checkpoint_metadata_store: Any | None = None,
        temporary_path_class: Any | None = None,
    ) -> None:
        """Makes a checkpointer; see Checkpointer for the other arguments.

        Args:
            timeout_secs: overrides the timeout in `async_options`.
            async_options: how to save in the background.
            checkpoint_metadata_store: may write in the background.

        Raises:
            ValueError: the timeout is not positive.
        """
        super().__init__(
            handler,
            multiprocessing_options=multiprocessing_options,
            file_options=file_options,
            atomicity_options=atomicity_options,
            checkpoint_metadata_store=checkpoint_metadata_store,
            temporary_path_class=temporary_path_class,
        )
        options = async_options or AsyncOptions()
        self._timeout_secs = timeout_secs or options.timeout_secs
        if self._timeout_secs <= 0:
            raise ValueError(
                "Timeout must be positive, but got"
                f" {self._timeout_secs} seconds."
            )
        self._post_finalization_callback = options.post_finalization_callback
        self._barrier_sync_fn = options.barrier_sync_fn
        self._background = _BackgroundSave()

    @property
    def timeout_secs(self) -> int:
        """How long a background save may take."""
        return self._timeout_secs

    def save(
        self,
        directory: PathLike,
        *args: Any,
        force: bool = False,
        custom_metadata: dict[str, Any] | None = None,
        save_context: SaveContext | None = None,
        **kwargs: Any,
    ) -> None:
        """Waits for the previous save, copies an object and starts to save it.

        The caller may change the object once the call returns. Arguments and
        errors are those of `Checkpointer.save`; the call also raises the
        previous save's error.
        """
        told = self._told_save(directory, save_context)
        operation = self._processes().start_save(
            "Checkpointer:save_start", directory
        )
        told.started()
        with operation.phase("next_awaitable_signal_operation_id:sync"):
            wait_start = time.time()
            self.wait_until_finished()
            told.waited(time.time() - wait_start)
            shared = self._directory(operation, directory, force)
            files = self._commit_options.file_options
            shared.check_absent(looks=not files.skip_sync_file_validations)
            save_args = construct_checkpoint_args(
                self._handler, True, *args, **kwargs
            )
            OperationIdGenerator.next_operation_id()
        with shared.removed_on_failure():
            with operation.phase(
                "create_tmp_directory:sync_before_directory_creation"
            ):
                with timed(
                    "/jax/orbax/write/directory_creation_secs",
                    "/jax/orbax/write/async_directory_creation_secs",
                    "/jax/orbax/write/background_directory_creation_secs",
                ):
                    shared.begin()
            with operation.phase("add_to_awaitable_signals_contract"):
                _announce_directories()
                with saving(operation):
                    futures = self._start_handler(shared.directory, save_args)
        told.blocked()
        save = _Save(operation, shared, custom_metadata, futures, told)
        self._background.start(futures, lambda: self._finish(save))

    def _start_handler(self, path: Any, save_args: Any) -> list[Any]:
        """Lets the handler copy the object; returns its write futures."""
        if not hasattr(self._handler, "async_save"):
            self._handler.save(path, args=save_args)
            return []
        return _flat(run_sync(self._handler.async_save(path, args=save_args)))

    def _finish(self, save: _Save) -> None:
        """Waits for the handler and commits, on the background thread.

        Raises:
            TimeoutError: a write or a barrier takes longer than the timeout.
            Exception: any error from a future or the commit.
        """
        operation = save.operation
        deadline = time.monotonic() + self._timeout_secs
        start = time.time()
        record_scalar(
            "/jax/checkpoint/write/async/commit_future_count",
            len(save.futures),
        )
        try:
            with saving(operation):
                with self._barrier(operation, "async_write_complete", deadline):
                    with timed(
                        "/jax/checkpoint/write/async/commit_duration_sec",
                        "/jax/orbax/write/background_ts_duration_secs",
                    ):
                        ChainedFuture(save.futures, lambda: None).result(
                            timeout=self._timeout_secs
                        )
                    self._check_not_cancelled()
                with self._barrier(
                    operation, "async_commit_complete", deadline
                ):
                    self._commit(
                        save.shared,
                        save.custom_metadata,
                        save.told.start_time,
                        "/jax/orbax/write/background_finalize_secs",
                    )
                    if save.shared.pending is not None:
                        save.told.done()
        except BaseException as error:
            operation.end(error)
            _cancel_all(save.futures)
            if isinstance(error, TimeoutError):
                # The save may never end, so do not wait for it here.
                thread = threading.Thread(target=save.give_up, daemon=True)
                if not try_start(thread):
                    log.warning("%s: not cleaned up", save.shared.path)
            else:
                save.give_up()
            raise
        save.shared.close(is_failed=False)
        duration = time.time() - start
        record_duration(
            "/jax/checkpoint/write/async/thread_duration_sec", duration
        )
        record_duration("/jax/orbax/write/background_duration_secs", duration)
        AwaitableSignalsContract.remove_all_awaitable_signals(save.signals_id)

    def _before_commit(self) -> None:
        if self._post_finalization_callback is not None:
            self._post_finalization_callback()
        self._check_not_cancelled()

    def _check_not_cancelled(self) -> None:
        """Ends a cancelled save.

        Raises:
            CancelledError: the save was cancelled.
        """
        if self._background.is_cancelled:
            raise errors.CancelledError("the save was cancelled")

    @contextlib.contextmanager
    def _barrier(
        self, operation: Operation, place: str, deadline: float
    ) -> Iterator[None]:
        """Runs the block, then waits until all processes have done so.

        Raises:
            TimeoutError: a process has not finished by the save's deadline.
            HoldfastError: a process has failed.
        """
        suffix = os.path.basename(operation.directory)
        key = unique_barrier_key(place, suffix=suffix)
        has_own = self._barrier_sync_fn and not operation.processes.is_single
        try:
            with operation.phase(key, deadline=deadline):
                try:
                    yield
                finally:
                    if has_own:
                        self._call_barrier_sync_fn(operation, key, deadline)
        except errors.DeadlineExceededError as error:
            raise errors.DeadlineExceededError(
                f"Timed out while waiting for {place} barrier. {error}"
            ) from error

    def _call_barrier_sync_fn(
        self, operation: Operation, key: str, deadline: float
    ) -> None:
        """Waits with the caller's own barrier function.

        Raises:
            TimeoutError: a process did not arrive by the deadline.
        """
        assert self._barrier_sync_fn is not None
        left_ms = max(1, int(1000 * (deadline - time.monotonic())))
        prefix = operation.processes.prefix or ""
        try:
            self._barrier_sync_fn(
                key=unique_barrier_key(key, prefix=prefix), timeout_ms=left_ms
            )
        except require_jax("a barrier").errors.JaxRuntimeError as error:
            name = key.split(".")[0]
            raise TimeoutError(
                f"Timed out while waiting for {name} barrier."
            ) from error

    def restore(self, directory: PathLike, *args: Any, **kwargs: Any) -> Any:
        """Waits for the running save, then restores; see Checkpointer.

        Raises:
            Exception: any error from the running save.
        """
        self.wait_until_finished()
        return super().restore(directory, *args, **kwargs)

    def check_for_errors(self) -> None:
        """Raises the error of a finished background save, once."""
        self._background.raise_error()
        self._wait_for_store()

    def wait_until_finished(self) -> None:
        """Waits for the running save, then raises the save's error once."""
        self._background.wait()
        self._wait_for_store()

    def _wait_for_store(self) -> None:
        if self._commit_options.metadata_store is not None:
            self._commit_options.metadata_store.wait_until_finished()

    def cancel(self) -> None:
        """Asks the running save to stop; a stopped save leaves no files behind.

        A save that has already committed is completed. In both cases
        `wait_until_finished` waits for the save and raises nothing.
        """
        self._background.cancel()

    def close(self) -> None:
        """Waits for the running save and closes the handler.

        Raises:
            Exception: any error from the save.
        """
        self.wait_until_finished()
        super().close()


@dataclasses.dataclass
class _Save:
    """A save that runs in the background."""

    operation: Operation
    shared: SharedDirectory
    custom_metadata: dict[str, Any] | None
    futures: list[Any]
    told: MonitoredOperation
    signals_id: str = dataclasses.field(default_factory=current_operation_id)

    def give_up(self) -> None:
        """Waits until all writes have ended, then removes the directory."""
        wait_quietly(self.futures)
        self.shared.close(is_failed=True)
        AwaitableSignalsContract.remove_all_awaitable_signals(self.signals_id)


def _announce_directories() -> None:
    """Signals to waiting handlers that the directories exist."""
    AwaitableSignalsContract.add_to_awaitable_signals_contract(_SIGNALS)
    set_signals(_SIGNALS, operation_id=current_operation_id())
