"""A checkpoint that is being written, whatever way it will be committed.

The engine does it where a checkpoint is renamed, or gets its marker, as usual;
a program's own class of temporary paths, or store of metadata, is called
instead where there is one.
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
        """The directory for the files; absolute."""

    def adopt_item(self, name: str = "") -> None:
        """Tells of an item that the engine has written into `directory`.

        Its own digests are relied on; it is not read again.

        Args:
            name: of its directory; "": `directory` itself.
        """

    def commit(
        self,
        *,
        item_handlers_json: str = "null",
        custom_metadata: str = "",
        is_v1: bool = False,
    ) -> None:
        """Makes the checkpoint exist, durably.

        Args:
            item_handlers_json: the JSON text of the handlers' type texts.
            custom_metadata: that of the user's object.
            is_v1: mark it as v1 does.
        """

    def discard(self) -> None:
        """Removes it; nothing after `commit`."""


@dataclasses.dataclass(frozen=True)
class CommitOptions:
    """The way in which checkpoints are committed.

    Attributes:
        file_options: modes of directories.
        atomicity_options: renamed, or marked.
        metadata_store: writes `_CHECKPOINT_METADATA`; None: the engine.
        temporary_path_class: makes and finalizes the directory, and overrides
            the atomicity options.
    """

    file_options: FileOptions = dataclasses.field(default_factory=FileOptions)
    atomicity_options: AtomicityOptions | None = None
    metadata_store: Any | None = None
    temporary_path_class: Any | None = None

    def path_class(self, path: str) -> Any:
        """The class of a checkpoint's temporary path."""
        return self.temporary_path_class or get_default_temporary_path_class(
            path, atomicity_options=self.atomicity_options
        )

    def temporary_path(self, path: str, store: Any | None = None) -> Any:
        """The temporary path of a checkpoint, or of an item without metadata.

        Args:
            path: what it becomes.
            store: writes `_CHECKPOINT_METADATA`; None: nobody does.
        """
        return self.path_class(path).from_final(
            handler_path(path),
            checkpoint_metadata_store=store,
            file_options=self.file_options,
        )

    def store(self) -> Any:
        """The store that writes `_CHECKPOINT_METADATA` where the engine does
        not."""
        return self.metadata_store or metadata_store(
            enable_write=True, blocking_write=True
        )


def begin(path: str, options: CommitOptions, *, overwrite: bool) -> Pending:
    """Makes the directory of a save.

    Args:
        path: of the checkpoint; absolute.
        options: how it is committed.
        overwrite: one that exists is replaced.

    Raises:
        NotADirectoryError: a parent is a file.
        ValueError: the path exists.
        OSError: the directory cannot be made.
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
        # Where nobody has asked for a rename the engine may do without.
        has_marker=False if is_asked and not has_marker else has_marker,
        # As mkdir would make it.
        directory_mode=None if mode is None else mode & ~_umask(),
    )
    return pending


def make_directories(path: str, mode: int | None) -> None:
    """Makes a directory and its parents, durably, where they are missing.

    Args:
        path: absolute, or relative to where the program runs.
        mode: permissions of the last one, less those of the umask.

    Raises:
        OSError: it cannot be made.
    """
    path = _files.abspath(path)
    if _files.is_url(path):
        return  # buckets have no directories of their own
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
    """A save that a class of temporary paths makes and finalizes.

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
    """Moves the checkpoint at a path to a name that no reader takes for a step
    and no cleanup for a leftover.

    Args:
        path: of a checkpoint.
        is_finalized: whether one is complete.

    Returns:
        Its new path; None: there was nothing.

    Raises:
        FailedPreconditionError: it is more than a checkpoint.
        OSError: it cannot be moved.
    """
    aside = path + ".holdfast-replaced"
    if _files.lexists(aside):
        # An earlier save died: one of the two is whole.
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
