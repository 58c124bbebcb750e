"""Checkpointer: any handler's work, made atomic."""

from __future__ import annotations

import abc
import json
import logging
import os
from types import TracebackType
from typing import Any

from holdfast import _files, errors
from holdfast.orbax import _pending
from holdfast.orbax._handler import CheckpointHandler
from holdfast.orbax._paths import PathLike, handler_path, is_path_finalized
from holdfast.orbax._plain_handler import wrap
from holdfast.orbax._processes import (
    Operation,
    Processes,
    check_directories,
    saving,
)
from holdfast.orbax._shared_directory import SharedDirectory
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
    """Saves and restores one object, atomically."""

    @abc.abstractmethod
    def save(self, directory: PathLike, *args: Any, **kwargs: Any) -> None:
        """Saves to a directory that does not exist yet."""

    @abc.abstractmethod
    def restore(self, directory: PathLike, *args: Any, **kwargs: Any) -> Any:
        """Restores from that directory."""

    def metadata(self, directory: PathLike) -> Any | None:
        """The metadata that is known without restoring."""
        return None

    def close(self) -> None:  # noqa: B027
        """Ends the use of this object."""


def construct_checkpoint_args(
    handler: CheckpointHandler, for_save: bool, *args: Any, **kwargs: Any
) -> CheckpointArgs:
    """The handler's arguments: the given ones, or made of the given objects."""
    for given in (*args, *kwargs.values()):
        if isinstance(given, CheckpointArgs):
            return given
    save_cls, restore_cls = get_registered_args_cls(handler)
    return (save_cls if for_save else restore_cls)(*args, **kwargs)


class Checkpointer(AbstractCheckpointer):
    """Saves with any handler so that a checkpoint exists whole or not at all.

    A context manager: leaving it closes the handler.
    Thread-safety: one call at a time.
    """

    # Whether a store of metadata may write in the background.
    _may_write_later = False

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
            handler: what saves and restores the object.
            multiprocessing_options: which processes save and restore
                together, and which of them makes directories.
            file_options: modes of directories.
            atomicity_options: how a checkpoint comes to exist.
            checkpoint_metadata_store: writes `_CHECKPOINT_METADATA`, instead
                of the engine; it must write at once.
            temporary_path_class: makes and finalizes directories, instead of
                what `atomicity_options` say.

        Raises:
            ValueError: a metadata store that writes later.
        """
        store = checkpoint_metadata_store
        if store is not None and not self._may_write_later:
            if not store.is_blocking_writer():
                raise ValueError(
                    "Checkpoint metadata store must be blocking writer."
                )
        if not has_registered_args(handler):
            logging.warning(
                "No registered CheckpointArgs found for handler type: %s",
                type(handler),
            )
            handler = wrap(handler)
        self._handler = handler
        self._commit_options = _pending.CommitOptions(
            file_options or FileOptions(),
            atomicity_options,
            store,
            temporary_path_class,
        )
        self._multiprocessing_options = multiprocessing_options

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
        save_context: Any | None = None,
        **kwargs: Any,
    ) -> None:
        """Saves an object; afterwards the checkpoint is complete on disk.

        With several processes, all call it. When one fails, the others raise an
        error that names it, and nothing is left.

        Args:
            directory: absolute path of the checkpoint to make.
            *args: the handler's CheckpointArgs, or what they are made of.
            force: replace a checkpoint that is there.
            custom_metadata: a JSON object for `_CHECKPOINT_METADATA`.
            save_context: ignored; accepted because Orbax has it (it only serves
                measurements).
            **kwargs: more of what the arguments are made of.

        Raises:
            ValueError: the destination exists; a relative path; what the
                handler refuses.
            OSError: files cannot be written.
            DeadlineExceededError: another process did not come.
        """
        operation = self._start("Checkpointer:save_start", directory)
        with operation.phase("create_tmp_directory:pre"):
            self._check_destination(directory, force)
            save_args = construct_checkpoint_args(
                self._handler, True, *args, **kwargs
            )
        with SharedDirectory(operation) as shared, saving(operation):
            with operation.phase("create_tmp_directory:post"):
                shared.begin(lambda: self._begin(directory, force))
            path = self._directory_of(shared, directory)
            with operation.phase("Checkpointer:save"):
                self._handler.save(path, args=save_args)
            with operation.phase("Checkpointer:finalize"):
                if shared.pending is not None:
                    typestrs = self._typestrs_json()
                    self._handler.finalize(path)
                    self._commit(shared.pending, custom_metadata, typestrs)

    def _start(
        self, place: str, directory: PathLike, *, is_save: bool = True
    ) -> Operation:
        """Begins something that all processes do.

        Raises:
            DeadlineExceededError: another process did not come.
            ValueError: one saves to another directory.
        """
        processes = Processes(self._multiprocessing_options)
        path = os.fspath(directory)
        operation = processes.start(place, directory, value=path)
        if is_save and processes.primary is not None:
            check_directories(operation.values, path)
        return operation

    def _check_destination(self, directory: PathLike, force: bool) -> None:
        """Refuses a path that cannot become a checkpoint.

        Raises:
            ValueError: it is relative, or exists without `force`.
        """
        path = os.fspath(directory)
        if _files.lexists(path) and not force:
            raise ValueError(f"Destination {directory} already exists.")
        if not _files.isabs(path):
            raise ValueError(
                f"Checkpoint path should be absolute. Got {directory}"
            )

    def _begin(self, directory: PathLike, force: bool) -> Any:
        path = _files.normpath(os.fspath(directory))
        return _pending.begin(path, self._commit_options, overwrite=force)

    def _directory_of(self, shared: SharedDirectory, final: PathLike) -> Any:
        """The directory where the handler writes."""
        path = _files.normpath(os.fspath(final))
        temporary = self._commit_options.temporary_path(path)
        return handler_path(shared.path(temporary.get()))

    def _typestrs_json(self) -> str:
        """The texts for `_CHECKPOINT_METADATA`; asked for before `finalize`."""
        if isinstance(self._handler, CompositeCheckpointHandler):
            return json.dumps(self._handler.typestrs_of_saved())
        return json.dumps(typestr_of(self._handler))

    def _commit(
        self, pending: Any, custom_metadata: Any, typestrs_json: str
    ) -> None:
        typestrs = json.loads(typestrs_json)
        for name in typestrs if isinstance(typestrs, dict) else [""]:
            pending.adopt_item(name)
        pending.commit(
            item_handlers_json=typestrs_json,
            custom_metadata=json.dumps(check_json_object(custom_metadata)),
        )

    def restore(self, directory: PathLike, *args: Any, **kwargs: Any) -> Any:
        """Restores the object.

        Args:
            directory: the checkpoint's.
            *args: the handler's CheckpointArgs, or what they are made of.
            **kwargs: more of that.

        Raises:
            FileNotFoundError: there is no such directory.
            ValueError: it was never committed; what the handler refuses.
            DeadlineExceededError: another process did not come.
        """
        operation = self._start(
            "Checkpointer:restore_start", directory, is_save=False
        )
        with operation.phase("Checkpointer:restore"):
            return self._restore(directory, *args, **kwargs)

    def _restore(self, directory: PathLike, *args: Any, **kwargs: Any) -> Any:
        """The part that this process restores; see `restore`."""
        path = os.fspath(directory)
        if not _files.exists(path):
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
        return self._handler.restore(handler_path(path), args=restore_args)

    def metadata(self, directory: PathLike) -> StepMetadata:
        """Metadata of the checkpoint; what cannot be read stays None.

        Args:
            directory: the checkpoint's.

        Raises:
            NotADirectoryError: it is a file.
            ValueError: `_CHECKPOINT_METADATA` has fields of other types than
                Orbax writes.
            DataLossError: the files are not those that were saved.
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
            logging.warning(
                "Failed to get item metadata from directory %s. Either it was"
                " not present in the checkpoint, or the handler does not"
                " support it.",
                directory,
            )
        return metadata

    def close(self) -> None:
        """Closes the handler, and the store of metadata."""
        self._handler.close()
        if self._commit_options.metadata_store is not None:
            self._commit_options.metadata_store.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
