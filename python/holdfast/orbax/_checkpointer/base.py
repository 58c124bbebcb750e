"""Checkpointer: makes any handler's work atomic."""

from __future__ import annotations

import abc
import json
import os
from typing import Any

from holdfast import _files, errors
from holdfast._closing import ClosedAtExit
from holdfast._json_values import json_text
from holdfast._log import log
from holdfast.orbax import atomicity, multihost
from holdfast.orbax._checkpointer.paths import (
    PathLike,
    handler_path,
    is_path_finalized,
)
from holdfast.orbax._checkpointer.pending import CommitOptions
from holdfast.orbax._devices.monitoring import (
    MonitoredOperation,
    SaveContext,
    record_event,
    timed,
)
from holdfast.orbax._handlers.base import CheckpointHandler
from holdfast.orbax._handlers.plain import wrap
from holdfast.orbax._processes.operations import Operation, Processes, saving
from holdfast.orbax._processes.shared_directory import SharedDirectory
from holdfast.orbax._processes.signals import OperationIdGenerator
from holdfast.orbax.atomicity_types import TemporaryPath
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    get_registered_args_cls,
    has_registered_args,
    typestr_of,
)
from holdfast.orbax.composite_checkpoint_handler import (
    CompositeCheckpointHandler,
)
from holdfast.orbax.metadata.step import (
    StepMetadata,
    check_json_object,
    deserialize,
    read_step_metadata,
)
from holdfast.orbax.options import (
    AtomicityOptions,
    FileOptions,
    MultiprocessingOptions,
)


class AbstractCheckpointer(abc.ABC):
    """Saves and restores one object atomically."""

    @abc.abstractmethod
    def save(self, directory: PathLike, *args: Any, **kwargs: Any) -> None:
        """Saves to a directory that does not exist yet."""

    @abc.abstractmethod
    def restore(self, directory: PathLike, *args: Any, **kwargs: Any) -> Any:
        """Restores from a directory."""

    def metadata(self, directory: PathLike) -> Any | None:
        """Returns the metadata that is available without a restore."""
        return None

    def structure(self, directory: PathLike) -> Any | None:
        """Deprecated: returns None; `metadata` has the structure."""
        return None

    def close(self) -> None:  # noqa: B027
        """Releases this object's resources."""


def construct_checkpoint_args(
    handler: CheckpointHandler, for_save: bool, *args: Any, **kwargs: Any
) -> CheckpointArgs:
    """Returns the given handler arguments, or makes them from other objects.

    If an argument is a CheckpointArgs, it is returned.
    """
    for given in (*args, *kwargs.values()):
        if isinstance(given, CheckpointArgs):
            return given
    record_event("/jax/orbax/deprecation/checkpointer_legacy_args")
    save_cls, restore_cls = get_registered_args_cls(handler)
    return (save_cls if for_save else restore_cls)(*args, **kwargs)


class Checkpointer(AbstractCheckpointer, ClosedAtExit):
    """Saves with any handler; a checkpoint exists completely or not at all.

    A `with` block closes the handler at its end.
    Thread-safety: one call at a time.
    """

    # Whether saves and metadata stores may write in the background.
    _is_async = False

    def __init__(
        self,
        handler: Any,
        *,
        multiprocessing_options: MultiprocessingOptions | None = None,
        file_options: FileOptions | None = None,
        atomicity_options: AtomicityOptions | None = None,
        checkpoint_metadata_store: Any | None = None,
        temporary_path_class: Any | None = None,
    ) -> None:
        """Makes a checkpointer.

        Args:
            handler: the handler that saves and restores the object.
            multiprocessing_options: which processes save and restore
                together, and which of them makes directories.
            file_options: modes of directories.
            atomicity_options: how a checkpoint is committed.
            checkpoint_metadata_store: writes `_CHECKPOINT_METADATA` instead of
                the engine; it must return only after it has written.
            temporary_path_class: creates and finalizes directories, and
                overrides `atomicity_options`.

        Raises:
            ValueError: the metadata store writes in the background.
        """
        store = checkpoint_metadata_store
        if store is not None and not self._is_async:
            if not store.is_blocking_writer():
                raise ValueError(
                    "Checkpoint metadata store must be blocking writer."
                )
        if not has_registered_args(handler):
            log.warning(
                "No registered CheckpointArgs found for handler type: %s",
                type(handler),
            )
            handler = wrap(handler)
        self._handler = handler
        self._commit_options = CommitOptions(
            file_options or FileOptions(),
            atomicity_options,
            store,
            temporary_path_class,
        )
        self._multiprocessing_options = multiprocessing_options
        processes = multiprocessing_options or MultiprocessingOptions()
        self._primary_host = processes.primary_host
        kind = "async_checkpointer" if self._is_async else "checkpointer"
        record_event(f"/jax/orbax/{kind}/init")

    def get_temporary_path(self, directory: PathLike) -> TemporaryPath:
        """Returns the temporary path for a save, without creating it.

        Args:
            directory: absolute path of the future checkpoint.
        """
        options = self._commit_options
        temporary: TemporaryPath = options.temporary_path(
            os.fspath(directory), options.store()
        )
        return temporary

    async def create_temporary_path(
        self, temporary_path: TemporaryPath
    ) -> None:
        """Creates the directory of a save on the primary; all processes wait.

        Raises:
            OSError: the directory cannot be created.
            DeadlineExceededError: a process did not arrive in time.
        """
        await atomicity.create_all(
            [temporary_path],
            multiprocessing_options=self._multiprocessing_options,
        )

    def synchronize_next_awaitable_signal_operation_id(self) -> None:
        """Begins the next operation, on all processes together.

        Raises:
            jax.errors.JaxRuntimeError: a process did not arrive in time.
        """
        OperationIdGenerator.next_operation_id()
        options = self._multiprocessing_options or MultiprocessingOptions()
        multihost.sync_global_processes(
            multihost.unique_barrier_key(
                "next_awaitable_signal_operation_id:sync",
                prefix=options.barrier_sync_key_prefix,
            ),
            timeout=multihost.coordination_timeout(),
            processes=options.active_processes,
        )

    @property
    def handler(self) -> Any:
        """The handler that saves and restores."""
        return self._handler

    def save(
        self,
        directory: PathLike,
        *args: Any,
        force: bool = False,
        custom_metadata: dict[str, Any] | None = None,
        save_context: SaveContext | None = None,
        **kwargs: Any,
    ) -> None:
        """Saves an object; afterwards the checkpoint is complete on disk.

        With several processes, all of them make the call. If a process fails,
        the others raise an error that names the failed process, and no files
        are left behind.

        Args:
            directory: absolute path of the checkpoint to make.
            *args: the handler's CheckpointArgs, or the objects to make them
                from.
            force: replace an existing checkpoint.
            custom_metadata: a JSON object for `_CHECKPOINT_METADATA`.
            save_context: the time that the caller has already spent on the
                save, for jax's listeners.
            **kwargs: more objects to make the arguments from.

        Raises:
            ValueError: the destination exists, the path is relative, or the
                handler refuses the object.
            OSError: files cannot be written.
            DeadlineExceededError: a process did not arrive in time.
        """
        told = self._told_save(directory, save_context)
        operation = self._processes().start_save(
            "Checkpointer:save_start", directory
        )
        if save_context is not None:
            told.waited(0.0)
        told.started()
        shared = self._directory(operation, directory, force)
        with operation.phase("create_tmp_directory:pre"):
            shared.check_absent()
            save_args = construct_checkpoint_args(
                self._handler, True, *args, **kwargs
            )
        with shared, saving(operation):
            with operation.phase("create_tmp_directory:post"), timed(
                "/jax/orbax/write/directory_creation_secs",
                "/jax/orbax/write/blocking_directory_creation_secs",
            ):
                shared.begin()
            with operation.phase("Checkpointer:save"):
                self._handler.save(shared.directory, args=save_args)
            told.blocked()
            with operation.phase("Checkpointer:finalize"):
                self._commit(
                    shared,
                    custom_metadata,
                    told.start_time,
                    "/jax/orbax/write/finalize_duration_secs",
                )
        told.done()

    def _told_save(
        self, directory: PathLike, context: SaveContext | None
    ) -> MonitoredOperation:
        """Returns an object that reports this save to jax's listeners."""
        options = self._multiprocessing_options or MultiprocessingOptions()
        return MonitoredOperation(
            directory,
            is_save=True,
            is_async=self._is_async,
            primary_host=options.primary_host,
            context=context,
        )

    def _processes(self) -> Processes:
        return Processes(self._multiprocessing_options)

    def _directory(
        self, operation: Operation, path: PathLike, force: bool
    ) -> SharedDirectory:
        return SharedDirectory(
            operation, path, self._commit_options, overwrite=force
        )

    def _commit(
        self,
        shared: SharedDirectory,
        custom_metadata: dict[str, Any] | None,
        start_time: float,
        event: str,
    ) -> None:
        """Commits the checkpoint, on the primary.

        Args:
            shared: the directory that the handler has written.
            custom_metadata: a JSON object for `_CHECKPOINT_METADATA`.
            start_time: the save's start time.
            event: the name under which the duration is reported to jax.
        """
        pending = shared.pending
        if pending is None:
            return
        with timed(event):
            # A composite handler forgets its items when it finalizes them.
            typestrs: Any = typestr_of(self._handler)
            if isinstance(self._handler, CompositeCheckpointHandler):
                typestrs = self._handler.typestrs_of_saved()
            self._handler.finalize(shared.directory)
            self._before_commit()
            for name in typestrs if isinstance(typestrs, dict) else [""]:
                pending.adopt_item(name)
            pending.commit(
                item_handlers_json=json.dumps(typestrs),
                custom_metadata=json_text(
                    check_json_object(custom_metadata), "custom_metadata"
                ),
            )
            atomicity.record_saved_duration(start_time)

    def _before_commit(self) -> None:
        """Hook that runs when the handler has written; does nothing here."""

    def restore(self, directory: PathLike, *args: Any, **kwargs: Any) -> Any:
        """Restores the object.

        Args:
            directory: the checkpoint's directory.
            *args: the handler's CheckpointArgs, or the objects to make them
                from.
            **kwargs: more objects to make the arguments from.

        Raises:
            FileNotFoundError: the directory does not exist.
            ValueError: the checkpoint was never committed, or the handler
                refuses to restore it.
            DeadlineExceededError: a process did not arrive in time.
        """
        operation = self._processes().start(
            "Checkpointer:restore_start", directory
        )
        options = self._multiprocessing_options or MultiprocessingOptions()
        told = MonitoredOperation(
            directory, is_save=False, primary_host=options.primary_host
        )
        told.begun()
        with operation.phase("Checkpointer:restore"), _files.asking_once():
            result = self._restore(told, directory, *args, **kwargs)
        told.done()
        return result

    def _restore(
        self,
        told: MonitoredOperation,
        directory: PathLike,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Restores this process's part; see `restore`."""
        path = os.fspath(directory)
        _files.check_expanded(path)
        if not _files.checkpoint_exists(path):
            raise FileNotFoundError(f"Checkpoint at {directory} not found.")
        if not is_path_finalized(
            path,
            temporary_path_cls=self._commit_options.temporary_path_class,
            atomicity_options=self._commit_options.atomicity_options,
        ):
            raise ValueError(f"Found incomplete checkpoint at {directory}.")
        restore_args = construct_checkpoint_args(
            self._handler, False, *args, **kwargs
        )
        told.blocked()
        return self._handler.restore(handler_path(path), args=restore_args)

    def metadata(self, directory: PathLike) -> StepMetadata:
        """Returns the checkpoint's metadata; unreadable parts are None.

        Args:
            directory: the checkpoint's directory.

        Raises:
            NotADirectoryError: `directory` is a file.
            ValueError: `_CHECKPOINT_METADATA` has fields of types that Orbax
                does not write.
            DataLossError: the files differ from the saved files.
        """
        if isinstance(self._handler, CompositeCheckpointHandler):
            return self._handler.metadata(directory)
        data = read_step_metadata(os.fspath(directory))
        metadata = StepMetadata() if data is None else deserialize(data)
        try:
            metadata.item_metadata = self._handler.metadata(
                handler_path(directory)
            )
        except errors.DataLossError:
            raise
        except (FileNotFoundError, NotImplementedError, ValueError, TypeError):
            log.warning(
                "Failed to get item metadata from directory %s. Either it was"
                " not present in the checkpoint, or the handler does not"
                " support it.",
                directory,
            )
        return metadata

    def close(self) -> None:
        """Closes the handler and the metadata store."""
        self._handler.close()
        if self._commit_options.metadata_store is not None:
            self._commit_options.metadata_store.close()
