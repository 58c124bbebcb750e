"""The temporary directory of a save, and the directories of its items."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from holdfast import _engine, _files
from holdfast.orbax._checkpointer.durable import sync, write_text
from holdfast.orbax._checkpointer.paths import (
    COMMIT_SUCCESS_FILE,
    TMP_DIR_SUFFIX,
)
from holdfast.orbax._checkpointer.pending import CommitOptions
from holdfast.orbax._processes.operations import Operation
from holdfast.orbax._processes.shared_directory import SharedDirectory
from holdfast.orbax.v1._deletion_record import check_not_deleting
from holdfast.orbax.v1.context import Context
from holdfast.orbax.v1.options import path_of

_COMMITTED = "Checkpoint commit was successful to "


class Destination(SharedDirectory):
    """A checkpoint that does not exist until `commit`.

    Its temporary directory is created when the first item is written.
    """

    _SHOWN_SUFFIX = TMP_DIR_SUFFIX

    def __init__(
        self,
        path: Any,
        overwrite: bool,
        context: Context,
        operation: Operation,
        is_step: bool = False,
    ) -> None:
        """Stores the arguments and creates nothing yet.

        Args:
            path: the checkpoint's path.
            overwrite: replace an existing checkpoint.
            context: the context of the save.
            operation: the save.
            is_step: whether this is a step of a training run. A step also gets
                the markers of the older interface, which can then read the
                step.
        """
        options = CommitOptions(context.file.v0(), context.atomicity.v0())
        super().__init__(operation, path, options, overwrite=overwrite)
        self._file_options = context.file
        self._is_step = is_step

    def check_absent(self, *, looks: bool = True) -> None:
        """Checks that the save will not overwrite anything that must stay.

        Args:
            looks: check whether the path exists; otherwise `begin` does that.

        Raises:
            ValueError: the path exists, or is relative.
        """
        with _files.asking_once():
            if looks and _files.lexists(self.path):
                check_not_deleting(self.path)
            super().check_absent(looks=looks)

    @property
    def is_shared(self) -> bool:
        """Whether other processes write into the checkpoint as well."""
        return not self._operation.processes.is_single

    def begin_together(self, names: Iterable[str]) -> None:
        """Creates the directory, and the items' directories, for all processes.

        Args:
            names: the names of the items.

        Raises:
            NotADirectoryError: a parent is a file.
            ValueError: the path exists.
        """
        with self._operation.phase("create_directory:post"):
            pending = self.begin()
            if pending is not None:
                for name in names:
                    _files.makedirs(os.path.join(pending.directory, name))

    def item(self, name: str) -> ItemDirectory:
        """Returns the directory of a checkpointable."""
        path = _files.abspath(self.path)
        temporary = self._options.temporary_path(path).get()
        return ItemDirectory(
            self, name, path_of(self._file_options, os.fspath(temporary))
        )

    def save_item(self, name: str, tree: Any, **options: Any) -> None:
        """Writes a pytree item. REQUIRES: this is the only process."""
        pending = self.begin()
        assert pending is not None
        if isinstance(pending, _engine.PendingSave):
            pending.save_item(name, tree, **options)
            return
        _engine.save_item(
            os.path.join(pending.directory, name), tree, **options
        )

    def write_file(self, name: str, content: bytes) -> None:
        """Writes one file, on the primary."""
        pending = self.begin()
        if isinstance(pending, _engine.PendingSave):
            pending.write_file(name, content)
        elif pending is not None:
            path = os.path.join(pending.directory, name)
            _files.makedirs(_files.dirname(path), exist_ok=True)
            write_text(path, content.decode())
            sync(_files.dirname(path))

    def commit(self, item_handlers_json: str, custom_metadata: str) -> None:
        """Commits the checkpoint, on the primary."""
        pending = self.begin()
        if pending is None:
            return
        if self._is_step:
            for name in sorted(json.loads(item_handlers_json)):
                text = f"{_COMMITTED}{pending.directory}/{name}"
                self.write_file(f"{name}/{COMMIT_SUCCESS_FILE}", text.encode())
        pending.commit(
            item_handlers_json=item_handlers_json,
            custom_metadata=custom_metadata,
            is_v1=not self._is_step,
        )


class _Below:
    """A path below an item's directory; the handler creates it."""

    def __init__(self, path: Any, item: ItemDirectory) -> None:
        self._path = path
        self._item = item

    def __truediv__(self, other: Any) -> _Below:
        return _Below(_join(self._path, other), self._item)

    @property
    def path(self) -> Any:
        return self._path

    async def await_creation(self) -> Any:
        await self._item.await_creation()
        return self._path


class ItemDirectory:
    """A `PathAwaitingCreation` for one checkpointable."""

    def __init__(self, destination: Destination, name: str, root: Any) -> None:
        self._destination = destination
        self._name = name
        self._path = root / name

    def __truediv__(self, other: Any) -> _Below:
        """Returns a path below the directory; the handler must create it."""
        return _Below(_join(self._path, other), self)

    @property
    def path(self) -> Any:
        """The path that the directory will have."""
        return self._path

    async def await_creation(self) -> Any:
        """Creates the directory; returns its path."""
        self._destination.begin()
        _files.makedirs(self._path, exist_ok=True)
        return self._path

    @property
    def is_shared(self) -> bool:
        """Whether other processes write into the directory as well."""
        return self._destination.is_shared

    def save_item(self, tree: Any, **options: Any) -> None:
        """Writes a pytree item; see `_engine.PendingSave.save_item`.

        REQUIRES: not is_shared.
        """
        self._destination.save_item(self._name, tree, **options)

    def write_file(self, name: str, content: bytes) -> None:
        """Writes one file into the directory, on the primary."""
        self._destination.write_file(f"{self._name}/{name}", content)


async def write_file(directory: Any, name: str, content: bytes) -> None:
    """Writes one file of an item, for handlers.

    Args:
        directory: a PathAwaitingCreation.
        name: the file's name.
        content: the file's content.

    Raises:
        OSError: the file cannot be written.
    """
    if isinstance(directory, ItemDirectory):
        directory.write_file(name, content)
        return
    path = await directory.await_creation()
    _files.write_bytes(os.path.join(path, name), content)


def _join(path: Any, other: Any) -> Any:
    """Returns a path below `path`.

    Raises:
        TypeError: `other` is not a path.
    """
    if not isinstance(other, str | os.PathLike):
        raise TypeError(f"Expected PathLike, got {type(other)}.")
    return path / other
