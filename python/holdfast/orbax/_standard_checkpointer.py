"""PyTreeCheckpointer, and StandardCheckpointer, which saves in the background.

A background save works on a snapshot: once `save` has returned, the caller may
change every array that was given.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from holdfast import errors
from holdfast.orbax._checkpointer import Checkpointer
from holdfast.orbax._jax import require_jax
from holdfast.orbax._paths import PathLike, handler_path
from holdfast.orbax._processes import Operation, saving
from holdfast.orbax._shared_directory import SharedDirectory
from holdfast.orbax.multihost import unique_barrier_key
from holdfast.orbax.options import (
    AsyncOptions,
    AtomicityOptions,
    FileOptions,
    MultiprocessingOptions,
)
from holdfast.orbax.pytree_checkpoint_handler import PyTreeCheckpointHandler
from holdfast.orbax.standard_checkpoint_handler import (
    StandardCheckpointHandler,
    StandardRestoreArgs,
    StandardSaveArgs,
)

_BEFORE_DIRECTORY = "create_tmp_directory:sync_before_directory_creation"


class PyTreeCheckpointer(Checkpointer):
    """`Checkpointer(PyTreeCheckpointHandler())`."""

    def __init__(
        self,
        primary_host: int | None = 0,
        use_ocdbt: bool = True,
        use_zarr3: bool = False,
        use_compression: bool = True,
    ) -> None:
        """Makes a checkpointer; see PyTreeCheckpointHandler."""
        options = MultiprocessingOptions(primary_host)
        super().__init__(
            PyTreeCheckpointHandler(
                use_ocdbt=use_ocdbt,
                use_zarr3=use_zarr3,
                use_compression=use_compression,
                multiprocessing_options=options,
            ),
            multiprocessing_options=options,
        )


class _BackgroundSave:
    """At most one save at a time, on a thread of its own.

    Thread-safety: one thread starts and waits.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Any) -> None:
        """Runs `work()`. REQUIRES: nothing is running."""

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(name="async_save", target=run)
        self._thread.start()

    def raise_error(self) -> None:
        """Raises what the last save raised, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """Waits for the save, then raises what it raised."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.raise_error()


class StandardCheckpointer(Checkpointer):
    """Saves trees of arrays and numbers in the background.

    Thread-safety: one call at a time.
    """

    def __init__(
        self,
        *,
        async_options: AsyncOptions | None = None,
        multiprocessing_options: MultiprocessingOptions | None = None,
        file_options: FileOptions | None = None,
        atomicity_options: AtomicityOptions | None = None,
        checkpoint_metadata_store: Any | None = None,
        temporary_path_class: Any | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes a checkpointer.

        Args:
            async_options: how to save in the background.
            multiprocessing_options: see Checkpointer, like the others.
            file_options: see Checkpointer.
            atomicity_options: see Checkpointer.
            checkpoint_metadata_store: see Checkpointer.
            temporary_path_class: see Checkpointer.
            **kwargs: of StandardCheckpointHandler.

        Raises:
            ValueError: a timeout that is not positive.
            NotImplementedError: an option that comes later.
        """
        async_options = async_options or AsyncOptions()
        if async_options.timeout_secs <= 0:
            raise ValueError(
                "Timeout must be positive, but got"
                f" {async_options.timeout_secs} seconds."
            )
        super().__init__(
            StandardCheckpointHandler(
                multiprocessing_options=multiprocessing_options, **kwargs
            ),
            multiprocessing_options=multiprocessing_options,
            file_options=file_options,
            atomicity_options=atomicity_options,
            checkpoint_metadata_store=checkpoint_metadata_store,
            temporary_path_class=temporary_path_class,
        )
        self._post_finalization_callback = (
            async_options.post_finalization_callback
        )
        self._timeout_secs = async_options.timeout_secs
        self._barrier_sync_fn = async_options.barrier_sync_fn
        self._background = _BackgroundSave()

    def save(  # type: ignore[override]
        self,
        directory: PathLike,
        state: Any,
        *,
        save_args: Any | None = None,
        force: bool = False,
        custom_metadata: dict[str, Any] | None = None,
    ) -> None:
        """Copies the state and starts to save it; waits for the save before.

        Args:
            directory: absolute path of the checkpoint to make.
            state: a tree of arrays and numbers.
            save_args: a tree like it of SaveArgs.
            force: replace a checkpoint that is there.
            custom_metadata: a JSON object for `_CHECKPOINT_METADATA`.

        Raises:
            ValueError: the destination exists; a relative path; a tree that
                cannot be saved.
            Exception: what the save before raised.
        """
        operation = self._start("Checkpointer:save_start", directory)
        with operation.phase(_BEFORE_DIRECTORY):
            self.wait_until_finished()
            self._check_destination(directory, force)
            prepared = self._handler.prepare(
                StandardSaveArgs(state, save_args), snapshot=True
            )
        shared = SharedDirectory(operation)
        try:
            with operation.phase("add_to_awaitable_signals_contract"):
                shared.begin(lambda: self._begin(directory, force))
        except BaseException as error:
            shared.close(is_failed=isinstance(error, Exception))
            raise
        path = handler_path(shared.path(directory))

        def commit() -> None:
            if shared.pending is None:
                return
            if not operation.processes.is_single:
                self._handler.finalize(path)
            if self._post_finalization_callback is not None:
                self._post_finalization_callback()
            self._commit(shared.pending, custom_metadata)

        def write() -> None:
            deadline = time.monotonic() + self._timeout_secs
            with shared, saving(operation):
                with self._barrier(operation, "async_write_complete", deadline):
                    prepared.write(path)
                with self._barrier(
                    operation, "async_commit_complete", deadline
                ):
                    commit()

        self._background.start(write)

    @contextlib.contextmanager
    def _barrier(
        self, operation: Operation, place: str, deadline: float
    ) -> Iterator[None]:
        """Does the block's work, then waits until all processes have.

        Raises:
            TimeoutError: one has not until the save's deadline.
            HoldfastError: one has failed.
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
        """Waits as the caller wants it.

        Raises:
            TimeoutError: a process did not come until the deadline.
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

    def restore(
        self,
        directory: PathLike,
        target: Any | None = None,
        *,
        strict: bool = True,
    ) -> Any:
        """Restores a tree, after a running save has ended.

        Args:
            directory: the checkpoint's.
            target: arrays, numbers or jax.ShapeDtypeStruct to restore like;
                None: as stored.
            strict: refuse shapes that differ from the stored ones.

        Raises:
            FileNotFoundError: there is no such directory.
            ValueError: it was never committed; a target that does not match.
            Exception: what the running save raised.
        """
        self.wait_until_finished()
        return super().restore(
            directory, args=StandardRestoreArgs(target, strict=strict)
        )

    def check_for_errors(self) -> None:
        """Raises what a finished background save raised, once."""
        self._background.raise_error()

    def wait_until_finished(self) -> None:
        """Waits for the running save, then raises what it raised, once."""
        self._background.wait()

    def close(self) -> None:
        """Waits for the running save and closes the handler.

        Raises:
            Exception: what the save raised.
        """
        self.wait_until_finished()
        super().close()
