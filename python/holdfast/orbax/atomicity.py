"""Temporary paths: Orbax's `atomicity`.

A checkpoint is written under a temporary name and then renamed, or written at
its final path and then marked as complete.

    5.orbax-checkpoint-tmp/  ->  5/                  AtomicRenameTemporaryPath
    5/                       ->  5/commit_success.txt  CommitFileTemporaryPath

Checkpointers use these classes for items; the engine does the same for
checkpoints.
"""

from __future__ import annotations

import abc
import asyncio
import concurrent.futures
import json
import os
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from holdfast import _engine, _files
from holdfast._log import log
from holdfast.orbax._checkpointer.durable import sync, sync_tree, write_text
from holdfast.orbax._checkpointer.paths import (
    PathAwaitingCreation,
    handler_path,
)
from holdfast.orbax._devices.monitoring import record_duration
from holdfast.orbax._processes.operations import Processes, current_operation
from holdfast.orbax._processes.signals import AwaitableSignalsContract
from holdfast.orbax.atomicity_types import (
    COMMIT_SUCCESS_FILE,
    TMP_DIR_SUFFIX,
    TemporaryPath,
    ValidationError,
)
from holdfast.orbax.future import (
    CommitFutureAwaitingContractedSignals,
    Future,
    NoopFuture,
)
from holdfast.orbax.metadata.step import STEP_METADATA_FILENAME
from holdfast.orbax.options import FileOptions, MultiprocessingOptions

__all__ = [
    "COMMIT_SUCCESS_FILE",
    "TMP_DIR_SUFFIX",
    "AsyncMakeDirFunc",
    "AtomicRenameTemporaryPath",
    "CommitFileTemporaryPath",
    "DeferredPath",
    "DeferredWritableTemporaryPath",
    "ReadOnlyTemporaryPath",
    "TemporaryPathBase",
    "ValidationError",
    "create_all",
    "create_all_async",
    "on_commit_callback",
    "record_saved_duration",
    "validate_atomic_rename_final_path",
    "validate_atomic_rename_temporary_path",
]


class AsyncMakeDirFunc(Protocol):
    """A function that makes a directory."""

    def __call__(
        self,
        path: Any,
        parents: bool = False,
        exist_ok: bool = False,
        mode: int | None = None,
        **kwargs: Any,
    ) -> Awaitable[None]:
        """Makes the directory at `path`."""


class _State:
    last_checkpoint_time = time.time()


def _check_directory(class_name: str, path: Any) -> None:
    if not _files.isdir(path):
        raise ValidationError(
            f"Expected {class_name} ({path}) to be a directory."
        )


def _check_no_link(path: Any) -> None:
    if _files.islink(path):
        raise ValidationError(
            f"Path {path} is a symbolic link and cannot be treated as a"
            " temporary checkpoint."
        )


def _initial_metadata() -> dict[str, Any]:
    return {
        "item_handlers": None,
        "metrics": {},
        "performance_metrics": {},
        "init_timestamp_nsecs": time.time_ns(),
        "commit_timestamp_nsecs": None,
        "custom_metadata": {},
    }


class _PathOfEither(TemporaryPath):
    """A TemporaryPath that is made from its temporary or its final path."""

    @classmethod
    def _final_of(cls, temporary_path: Any) -> Any:
        """Returns the final path for a temporary path."""
        return temporary_path

    @classmethod
    def _temporary_of(cls, final_path: Any) -> Any:
        """Returns the temporary path for a final path."""
        return final_path

    @classmethod
    @abc.abstractmethod
    def _of(cls, temporary_path: Any, final_path: Any, **options: Any) -> Any:
        """Makes the object.

        `options` are the keyword arguments of `from_temporary` or `from_final`.
        """

    @classmethod
    def from_temporary(
        cls,
        temporary_path: Any,
        *,
        file_options: Any | None = None,
        snapshot_type: Any | None = None,
    ) -> Any:
        temporary_path = handler_path(temporary_path)
        return cls._of(
            temporary_path,
            cls._final_of(temporary_path),
            file_options=file_options,
            snapshot_type=snapshot_type,
        )

    @classmethod
    def from_final(
        cls,
        final_path: Any,
        *,
        checkpoint_metadata_store: Any | None = None,
        file_options: Any | None = None,
        snapshot_type: Any | None = None,
    ) -> Any:
        final_path = handler_path(final_path)
        return cls._of(
            cls._temporary_of(final_path),
            final_path,
            checkpoint_metadata_store=checkpoint_metadata_store,
            file_options=file_options,
            snapshot_type=snapshot_type,
        )


class TemporaryPathBase(_PathOfEither):
    """Base class of both kinds of temporary path."""

    def __init__(
        self,
        temporary_path: Any | None,
        final_path: Any,
        *,
        checkpoint_metadata_store: Any | None = None,
        file_options: Any | None = None,
        snapshot_type: Any | None = None,
    ) -> None:
        """Holds the paths; does not create the directory yet.

        Args:
            temporary_path: the path to which the checkpoint is written.
            final_path: the path of the committed checkpoint.
            checkpoint_metadata_store: writes `_CHECKPOINT_METADATA`; if None,
                that file is not written.
            file_options: determines the directory's mode.
            snapshot_type: not supported.

        Raises:
            ValueError: `snapshot_type` is given.
        """
        if snapshot_type is not None:
            name = type(self).__name__
            raise ValueError(f"Snapshot is not supported for {name}.")
        self._tmp_path = temporary_path
        self._final_path = final_path
        self._store = checkpoint_metadata_store
        options = file_options or FileOptions()
        self._path_permission_mode = options.path_permission_mode
        self._lock: _engine.SaveLock | None = None

    @classmethod
    def _of(cls, temporary_path: Any, final_path: Any, **options: Any) -> Any:
        return cls(temporary_path, final_path, **options)

    def get(self) -> Any:
        """Returns the temporary path.

        Raises:
            ValueError: the path is not known until `create` is called.
        """
        if not self._tmp_path:
            raise ValueError(
                "Temporary path has not been created yet. Please call `create`"
                " first."
            )
        return self._tmp_path

    def get_final(self) -> Any:
        return self._final_path

    async def create(self) -> Any:
        """Creates the directory; replaces a leftover directory.

        Raises:
            OSError: the directory cannot be created.
        """
        path = os.fspath(self.get())
        if _files.lexists(path):
            log.warning(
                "Attempted to create temporary directory %s which already"
                " exists. Removing existing directory since it is not"
                " finalized.",
                path,
            )
            if not _engine.remove_unused(path):
                raise FileExistsError(f"another save is writing {path}")
        mode = self._path_permission_mode
        _files.makedirs(_files.dirname(path), exist_ok=True)
        _files.mkdir(path, 0o777 if mode is None else mode)
        self._lock = _engine.take_save_lock(path)
        if self._store is not None:
            file = os.path.join(path, STEP_METADATA_FILENAME)
            self._store.write(file_path=file, metadata=_initial_metadata())
        return self.get()

    def _write_commit_time(self) -> None:
        if self._store is None:
            return
        file = os.path.join(self.get(), STEP_METADATA_FILENAME)
        self._store.wait_until_finished()
        self._store.update(
            file_path=file, commit_timestamp_nsecs=time.time_ns()
        )
        self._store.wait_until_finished()

    def publish(self, *, is_durable: bool = False) -> None:
        """Commits the directory to the final path.

        Args:
            is_durable: makes the commit survive a power loss; not needed if a
                parent directory is synced and committed later.

        Raises:
            OSError: the directory cannot be committed.
        """
        path = os.fspath(self.get())
        # The marker must not survive a power loss without the files.
        if is_durable:
            sync_tree(path)
        write_text(
            os.path.join(path, COMMIT_SUCCESS_FILE),
            f"Checkpoint commit was successful to {self._final_path}",
            is_durable=is_durable,
        )
        if is_durable:
            sync(path)

    async def finalize(self) -> None:
        """Commits the directory to the final path durably.

        Raises:
            OSError: the directory cannot be committed.
        """
        self._write_commit_time()
        self.publish(is_durable=True)
        if self._lock is not None:
            self._lock.release()


async def validate_atomic_rename_temporary_path(
    class_name: str, temporary_path: Any
) -> None:
    """Checks that a path is a directory that is yet to be renamed.

    Args:
        class_name: the class name for error messages.
        temporary_path: the path to check.

    Raises:
        ValidationError: the path is not such a directory.
    """
    _check_no_link(temporary_path)
    if TMP_DIR_SUFFIX not in os.path.basename(temporary_path):
        raise ValidationError(
            f"Expected {class_name} ({temporary_path}) to end with"
            f' "{TMP_DIR_SUFFIX}".'
        )
    _check_directory(class_name, temporary_path)


async def validate_atomic_rename_final_path(
    class_name: str, final_path: Any
) -> None:
    """Checks that a path is a directory that has been renamed.

    Args:
        class_name: the class name for error messages.
        final_path: the path to check.

    Raises:
        ValidationError: the path is not such a directory.
    """
    if TMP_DIR_SUFFIX in os.path.basename(final_path):
        raise ValidationError(
            f"Expected final {class_name} ({final_path}) not to end with"
            f' "{TMP_DIR_SUFFIX}".'
        )
    _check_directory(class_name, final_path)


class AtomicRenameTemporaryPath(TemporaryPathBase):
    """`<name>.orbax-checkpoint-tmp`, which is renamed to `<name>`."""

    @classmethod
    async def validate(cls, temporary_path: Any) -> None:
        await validate_atomic_rename_temporary_path(
            cls.__name__, temporary_path
        )

    @classmethod
    async def validate_final(cls, final_path: Any) -> None:
        await validate_atomic_rename_final_path(cls.__name__, final_path)

    @classmethod
    def _final_of(cls, temporary_path: Any) -> Any:
        name, suffix, _ = temporary_path.name.partition(TMP_DIR_SUFFIX)
        if not suffix:
            raise ValueError(
                f'Expected {temporary_path} to end with "{TMP_DIR_SUFFIX}".'
            )
        return temporary_path.parent / name

    @classmethod
    def _temporary_of(cls, final_path: Any) -> Any:
        return final_path.parent / (final_path.name + TMP_DIR_SUFFIX)

    def publish(self, *, is_durable: bool = False) -> None:
        super().publish(is_durable=is_durable)
        if TMP_DIR_SUFFIX in _files.dirname(self._final_path):
            _files.rename_hidden(self.get(), self._final_path)
        else:
            _files.rename(self.get(), self._final_path)
        if is_durable:
            sync(_files.dirname(self._final_path))

    def __repr__(self) -> str:
        return (
            f'AtomicRenameTemporaryPath(tmp="{self.get().name}",'
            f' final="{self._final_path.name}",'
            f' directory="{self._final_path.parent}")'
        )


class CommitFileTemporaryPath(TemporaryPathBase):
    """The final path; the directory is complete once it has the marker."""

    @classmethod
    async def validate(cls, temporary_path: Any) -> None:
        _check_no_link(temporary_path)
        if _files.exists(os.path.join(temporary_path, COMMIT_SUCCESS_FILE)):
            raise ValidationError(
                f"Expected {cls.__name__} ({temporary_path}) not to contain the"
                f' "{COMMIT_SUCCESS_FILE}" file.'
            )
        _check_directory(cls.__name__, temporary_path)

    @classmethod
    async def validate_final(cls, final_path: Any) -> None:
        marker = os.path.join(final_path, COMMIT_SUCCESS_FILE)
        if not _files.exists(marker):
            raise ValidationError(
                f"Expected {cls.__name__} ({final_path}) to contain the"
                f' "{COMMIT_SUCCESS_FILE}" file.'
            )
        _check_directory(cls.__name__, final_path)


class DeferredWritableTemporaryPath(TemporaryPathBase):
    """A temporary path that is known only after `create`."""

    @abc.abstractmethod
    def get_awaitable_path(self) -> Any:
        """Returns the path as an awaitable object."""


class DeferredPath(PathAwaitingCreation):
    """A path that becomes known later, on any thread."""

    def __init__(self) -> None:
        self._future: concurrent.futures.Future[Any] = (
            concurrent.futures.Future()
        )

    def set_path(self, path: Any) -> None:
        """Sets the path; may be called once.

        Raises:
            concurrent.futures.InvalidStateError: the path is already set.
        """
        self._future.set_result(path)

    def __truediv__(self, other: str | os.PathLike[str]) -> DeferredPath:
        """Returns a child path, which becomes known together with this path."""
        child = DeferredPath()
        self._future.add_done_callback(
            lambda known: child.set_path(known.result() / other)
        )
        return child

    @property
    def path(self) -> Any:
        """The path.

        Raises:
            ValueError: the path is not known yet.
        """
        if not self._future.done():
            raise ValueError(
                "Path has not been created yet. Call await_creation()."
            )
        return self._future.result()

    async def await_creation(self) -> Any:
        """Returns the path once it is known."""
        return await asyncio.wrap_future(self._future)


class ReadOnlyTemporaryPath(_PathOfEither):
    """Two paths, for processes that neither create nor finalize them."""

    def __init__(self, *, temporary_path: Any, final_path: Any) -> None:
        """Holds the paths."""
        self._tmp_path = temporary_path
        self._final_path = final_path

    @classmethod
    def from_paths(
        cls, *, temporary_path: Any, final_path: Any
    ) -> ReadOnlyTemporaryPath:
        """Makes an object that holds the two paths."""
        return cls(temporary_path=temporary_path, final_path=final_path)

    def get(self) -> Any:
        return self._tmp_path

    def get_final(self) -> Any:
        return self._final_path

    def to_bytes(self) -> bytes:
        """Serializes the two paths."""
        paths = {
            "tmp_path": str(self._tmp_path),
            "final_path": str(self._final_path),
        }
        return json.dumps(paths).encode("utf-8")

    @classmethod
    def from_bytes(cls, data: bytes) -> ReadOnlyTemporaryPath:
        """Reverses `to_bytes`."""
        paths = json.loads(data.decode("utf-8"))
        return cls(
            temporary_path=handler_path(paths["tmp_path"]),
            final_path=handler_path(paths["final_path"]),
        )

    @classmethod
    def _of(cls, temporary_path: Any, final_path: Any, **options: Any) -> Any:
        is_final = "checkpoint_metadata_store" in options
        kind = "final" if is_final else "temporary"
        raise NotImplementedError(
            f"ReadOnlyTemporaryPath is not constructible from a {kind} path."
        )

    async def create(self, *, file_options: Any | None = None) -> Any:
        raise NotImplementedError("`create` is not supported.")

    async def finalize(self) -> None:
        raise NotImplementedError("`finalize` is not supported.")

    @classmethod
    async def validate(cls, temporary_path: Any) -> None:
        raise NotImplementedError("`validate` is not supported.")

    @classmethod
    async def validate_final(cls, final_path: Any) -> None:
        raise NotImplementedError("`validate_final` is not supported.")


async def _create(paths: Sequence[TemporaryPath]) -> None:
    await asyncio.gather(*(path.create() for path in paths))


async def create_all(
    paths: Sequence[TemporaryPath],
    *,
    multiprocessing_options: MultiprocessingOptions | None = None,
) -> None:
    """Creates directories on the primary process; all processes wait.

    Args:
        paths: the paths of the directories.
        multiprocessing_options: which processes wait.

    Raises:
        OSError: the directories cannot be created.
        DeadlineExceededError: a process did not arrive in time.
    """
    operation = current_operation()
    if operation is None:
        processes = Processes(multiprocessing_options)
        operation = processes.start("create_tmp_directory:pre")
    with operation.phase("create_tmp_directory:post"):
        if operation.processes.is_primary:
            await _create(paths)


def create_all_async(
    paths: Sequence[TemporaryPath],
    completion_signals: Sequence[Any],
    *,
    multiprocessing_options: MultiprocessingOptions | None = None,
    subdirectories: Sequence[str] | None = None,
) -> Future:
    """Creates directories in the background, then sends signals.

    Args:
        paths: the paths of the directories.
        completion_signals: signals that are announced now and sent once the
            directories exist.
        multiprocessing_options: which process creates the directories.
        subdirectories: created in each directory.

    Returns:
        A future that creates the directories.
    """
    processes = Processes(multiprocessing_options)
    if not processes.is_primary:
        return NoopFuture()

    async def create() -> None:
        await _create(paths)
        for path in paths:
            for name in subdirectories or ():
                _files.mkdir(os.path.join(path.get(), name))

    future = CommitFutureAwaitingContractedSignals(
        create(), send_signals=completion_signals
    )
    AwaitableSignalsContract.add_to_awaitable_signals_contract(
        completion_signals
    )
    return future


async def on_commit_callback(
    tmp_dir: TemporaryPath, *, checkpoint_start_time: float
) -> None:
    """Finalizes a directory.

    Args:
        tmp_dir: the directory.
        checkpoint_start_time: when the save began, as a value of `time.time`.
    """
    await tmp_dir.finalize()
    record_saved_duration(checkpoint_start_time)


def record_saved_duration(checkpoint_start_time: float) -> None:
    """Reports the time since the previous checkpoint began to jax.

    Args:
        checkpoint_start_time: when the save began, as a value of `time.time`.
    """
    duration = checkpoint_start_time - _State.last_checkpoint_time
    _State.last_checkpoint_time = checkpoint_start_time
    record_duration(
        "/jax/checkpoint/write/duration_since_last_checkpoint_secs", duration
    )
