"""ArrayCheckpointHandler: stores a single array or number as an item."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from holdfast._future import Future
from holdfast.orbax._devices.optional_jax import is_jax_array
from holdfast.orbax._handlers.base import ORBAX_HANDLERS, AsyncCheckpointHandler
from holdfast.orbax._handlers.pytree_save import (
    PreparedSave,
    SaveOptions,
    finish_item,
    has_parts,
    prepare_save,
)
from holdfast.orbax._processes.operations import Processes
from holdfast.orbax._restore.source import has_structure
from holdfast.orbax._restore.tree import restore_pytree
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)
from holdfast.orbax.type_handlers import RestoreArgs, SaveArgs


class ArrayCheckpointHandler(AsyncCheckpointHandler):
    """Saves and restores one array or number, in zarr 2 without OCDBT.

    Thread-safety: one call at a time.
    """

    TYPESTR = (
        f"{ORBAX_HANDLERS}.array_checkpoint_handler"
        ".ArrayCheckpointHandler"
    )

    def __init__(self, checkpoint_name: str | None = None) -> None:
        """Makes a handler.

        Args:
            checkpoint_name: name of the array; "checkpoint" by default.
        """
        self._name = checkpoint_name or "checkpoint"

    def prepare(
        self, args: ArraySaveArgs, *, snapshot: bool = True
    ) -> PreparedSave:
        """Checks and copies the array, which is written later.

        Args:
            args: the array and its options; see `save`.
            snapshot: copies an array that the caller may change.
        """
        item = args.item
        is_scalar = isinstance(item, int | float | np.number)
        if not (
            is_scalar or isinstance(item, np.ndarray) or is_jax_array(item)
        ):
            raise TypeError(f"Unsupported type: {type(item)}.")
        return prepare_save(
            {self._name: item},
            {self._name: args.save_args or SaveArgs()},
            options=SaveOptions(use_ocdbt=False),
            snapshot=snapshot,
        )

    def save(
        self,
        directory: Any,
        item: Any | None = None,
        save_args: SaveArgs | None = None,
        args: ArraySaveArgs | None = None,
    ) -> None:
        """Writes the array into an existing directory.

        Args:
            directory: the absolute path, as any path-like object.
            item: the array or number, if `args` is not given.
            save_args: how to store `item`, if `args` is not given.
            args: the item and its options.

        Raises:
            TypeError: the item is neither an array nor a number.
            ValueError: the array cannot be saved.
            OSError: the files cannot be written.
        """
        args = args or ArraySaveArgs(item, save_args)
        self.prepare(args, snapshot=False).write(directory)

    async def async_save(
        self,
        directory: Any,
        item: Any | None = None,
        save_args: SaveArgs | None = None,
        args: ArraySaveArgs | None = None,
    ) -> list[Future[None]]:
        """Copies the array, and returns a future that writes it; see `save`."""
        prepared = self.prepare(args or ArraySaveArgs(item, save_args))
        write = Future(
            lambda is_cancelled: prepared.write(
                directory, is_cancelled=is_cancelled
            ),
            what="array save",
        )
        return [write]

    def finalize(self, directory: Any) -> None:
        """Merges several processes' files into one item.

        Args:
            directory: the item's directory.

        Raises:
            ValueError: the processes' files do not match.
        """
        if has_parts(directory):
            finish_item(directory, Processes(), use_ocdbt=False)

    def restore(
        self,
        directory: Any,
        item: Any | None = None,
        restore_args: RestoreArgs | None = None,
        args: ArrayRestoreArgs | None = None,
    ) -> Any:
        """Reads the array.

        Args:
            directory: the item's directory, as any path-like object.
            item: an array like the result, if `args` is not given.
            restore_args: how to restore the array, if `args` is not given.
            args: how to restore the array.

        Raises:
            FileNotFoundError: the array's files are missing.
            ValueError: the array cannot be read as requested, or is damaged.
        """
        args = args or ArrayRestoreArgs(item, restore_args)
        leaf_args = {self._name: args.restore_args or RestoreArgs()}
        tree = None if args.item is None else {self._name: args.item}
        if tree is None and not has_structure(str(directory)):
            tree = {self._name: 0}
        restored = restore_pytree(directory, tree, leaf_args)
        return restored[self._name]


@register_with_handler(ArrayCheckpointHandler, for_save=True)
@dataclasses.dataclass
class ArraySaveArgs(CheckpointArgs):
    """The array to save.

    Attributes:
        item: a numpy array, jax.Array or number.
        save_args: how to store the item.
    """

    item: Any
    save_args: SaveArgs | None = None


@register_with_handler(ArrayCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class ArrayRestoreArgs(CheckpointArgs):
    """How to restore the array.

    Attributes:
        item: an array like the result, or None.
        restore_args: type, dtype and sharding.
    """

    item: Any | None = None
    restore_args: RestoreArgs | None = None
