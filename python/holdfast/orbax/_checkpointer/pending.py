"""A checkpoint that is being written and not committed yet.

Usually the engine renames the checkpoint or writes its marker. If a program has
its own temporary-path class or metadata store, these are called instead.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any, Protocol

from holdfast import _engine, _files
from holdfast.orbax._checkpointer.durable import sync
from holdfast.orbax._checkpointer.paths import (
    check_parents,
    handler_path,
    is_path_finalized,
)
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax.atomicity import (
    AtomicRenameTemporaryPath,
    CommitFileTemporaryPath,
)
from holdfast.orbax.atomicity_defaults import get_default_temporary_path_class
from holdfast.orbax.metadata.step import STEP_METADATA_FILENAME
from holdfast.orbax.metadata.store import metadata_store
from holdfast.orbax.options import (
    AtomicityMode,
    AtomicityOptions,
    FileOptions,
)


class Pending(Protocol):
    """The directory of a save, until it is committed."""

    @property
    def directory(self) -> str:
        """The absolute path of the directory for the files."""

    def adopt_item(self, name: str = "") -> None:
        """Declares an item that the engine has written into `directory`.

        The item's own digests are trusted, and the item is not read again.

        Args:
            name: the item's directory name; "" means `directory` itself.
        """

    def commit(
        self,
        *,
        item_handlers_json: str = "null",
        custom_metadata: str = "",
        is_v1: bool = False,
    ) -> None:
        """Commits the checkpoint durably.

        Args:
            item_handlers_json: the handlers' type strings as JSON.
            custom_metadata: the user's metadata as JSON.
            is_v1: write the file that marks a checkpoint of Orbax's v1 API.
        """

    def discard(self) -> None:
        """Removes the directory; does nothing after `commit`."""


@dataclasses.dataclass(frozen=True)
class CommitOptions:
    """How checkpoints are committed.

    Attributes:
        file_options: modes of directories.
        atomicity_options: whether checkpoints are renamed or marked.
        metadata_store: writes `_CHECKPOINT_METADATA`; None means the engine.
        temporary_path_class: creates and finalizes the directory, and overrides
            the atomicity options.
    """

    file_options: FileOptions = dataclasses.field(default_factory=FileOptions)
    atomicity_options: AtomicityOptions | None = None
    metadata_store: Any | None = None
    temporary_path_class: Any | None = None

    def path_class(self, path: str) -> Any:
        """Returns the class of a checkpoint's temporary path."""
        return self.temporary_path_class or get_default_temporary_path_class(
            path, atomicity_options=self.atomicity_options
        )

    def temporary_path(self, path: str, store: Any | None = None) -> Any:
        """Returns the temporary path of a checkpoint, or of an item without
        metadata.

        Args:
            path: the final path.
            store: writes `_CHECKPOINT_METADATA`; None means no such file.
        """
        return self.path_class(path).from_final(
            handler_path(path),
            checkpoint_metadata_store=store,
            file_options=self.file_options,
        )

    def store(self) -> Any:
        """Returns the store that writes `_CHECKPOINT_METADATA` if the engine
        does not."""
        return self.metadata_store or metadata_store(
            enable_write=True, blocking_write=True
        )


def begin(path: str, options: CommitOptions, *, overwrite: bool) -> Pending:
    """Creates the directory of a save.

    Args:
        path: the checkpoint's absolute path.
        options: how the checkpoint is committed.
        overwrite: replace an existing checkpoint.

    Raises:
        NotADirectoryError: a parent is a file.
        ValueError: the path exists.
        OSError: the directory cannot be created.
    """
    check_parents(path)
    kind = options.path_class(path)
    is_known = kind in (AtomicRenameTemporaryPath, CommitFileTemporaryPath)
    if not is_known or options.metadata_store is not None:
        return _OwnPending(path, options, overwrite)
    is_asked = options.temporary_path_class is not None or (
        options.atomicity_options is not None
        and options.atomicity_options.mode is AtomicityMode.ATOMIC_RENAME
    )
    has_marker = True if kind is CommitFileTemporaryPath else None
    mode = options.file_options.path_permission_mode
    pending: Pending = _engine.PendingSave(
        path,
        overwrite=overwrite,
        # Unless a rename was requested, the engine may commit without a rename.
        has_marker=False if is_asked and not has_marker else has_marker,
        # The mode that mkdir would use.
        directory_mode=None if mode is None else mode & ~_umask(),
    )
    return pending


def make_directories(path: str, mode: int | None) -> None:
    """Creates a directory and its missing parents, durably.

    Args:
        path: absolute, or relative to the working directory.
        mode: permissions of the directory, before the umask.

    Raises:
        OSError: the directory cannot be created.
    """
    path = _files.abspath(path)
    if _files.is_url(path):
        return  # buckets have no real directories
    missing = []
    parent = path
    while not _files.isdir(parent):
        missing.append(parent)
        parent = _files.dirname(parent)
    _files.makedirs(path, mode=0o777 if mode is None else mode, exist_ok=True)
    for directory in missing:
        sync(_files.dirname(directory))


def _umask() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0


class _OwnPending:
    """A save whose directory a temporary-path class creates and finalizes.

    Thread-safety: one thread at a time.
    """

    def __init__(
        self, path: str, options: CommitOptions, overwrite: bool
    ) -> None:
        self._store = options.store()
        self._temporary = options.temporary_path(path, self._store)
        self._path = path
        self._is_open = True
        self._replaced = None
        if overwrite:
            self._replaced = _set_aside(
                path,
                lambda at: is_path_finalized(
                    at,
                    temporary_path_cls=options.temporary_path_class,
                    atomicity_options=options.atomicity_options,
                ),
            )
        try:
            run_sync(self._temporary.create())
        except BaseException:
            self.discard()
            raise

    @property
    def directory(self) -> str:
        return str(os.fspath(self._temporary.get()))

    def adopt_item(self, name: str = "") -> None:
        return None

    def commit(
        self,
        *,
        item_handlers_json: str = "null",
        custom_metadata: str = "",
        is_v1: bool = False,
    ) -> None:
        self._store.update(
            file_path=os.path.join(self.directory, STEP_METADATA_FILENAME),
            item_handlers=json.loads(item_handlers_json),
            custom_metadata=json.loads(custom_metadata or "{}"),
        )
        self._store.wait_until_finished()
        if is_v1:
            with _files.open(
                os.path.join(self.directory, "orbax.checkpoint"), "w"
            ):
                pass
        run_sync(self._temporary.finalize())
        sync(_files.dirname(self._path))
        self._is_open = False
        if self._replaced is not None:
            _files.rmtree(self._replaced, ignore_errors=True)

    def discard(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        _files.rmtree(self.directory, ignore_errors=True)
        if self._replaced is not None:
            _files.rename(self._replaced, self._path)

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self.discard()


def _set_aside(path: str, is_finalized: Callable[[str], bool]) -> str | None:
    """Renames a checkpoint so that readers ignore it and cleanups keep it.

    Args:
        path: a checkpoint's path.
        is_finalized: returns whether a checkpoint is complete.

    Returns:
        The checkpoint's new path; None if there was no checkpoint.

    Raises:
        FailedPreconditionError: the path contains more than a checkpoint.
        OSError: the checkpoint cannot be moved.
    """
    aside = path + ".holdfast-replaced"
    if _files.lexists(aside):
        # An earlier save was interrupted; `path` or `aside` is complete.
        if _files.lexists(path) and is_finalized(path):
            _files.rmtree(aside)
        else:
            if _files.lexists(path):
                _files.rmtree(path)
            _files.rename(aside, path)
    if not _files.lexists(path):
        return None
    if _files.isdir(path) and is_finalized(path):
        _engine.check_may_replace(path)
    _files.rename(path, aside)
    return aside
