"""PyTreeCheckpointHandler: trees of any leaves that can be stored."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from holdfast._future import Future
from holdfast.orbax._handler import AsyncCheckpointHandler, orbax_typestr
from holdfast.orbax._later import not_implemented
from holdfast.orbax._pytree_metadata import read_metadata
from holdfast.orbax._pytree_save import (
    PreparedSave,
    SaveOptions,
    prepare_save,
)
from holdfast.orbax._restore import restore_pytree
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)
from holdfast.orbax.metadata.tree import (
    TreeMetadata,
    is_tree_metadata,
    unwrap,
)
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    MemoryLimitOptions,
    MultiprocessingOptions,
    PyTreeMetadataOptions,
)

PyTree = Any


class PyTreeCheckpointHandler(AsyncCheckpointHandler):
    """Saves and restores a pytree in a directory.

    Thread-safety: one call at a time.
    """

    def __init__(
        self,
        aggregate_filename: str | None = None,
        *,
        save_concurrent_gb: int | None = None,
        restore_concurrent_gb: int | None = None,
        save_device_host_concurrent_gb: int | str | None = None,
        memory_limit_options: MemoryLimitOptions | None = None,
        use_ocdbt: bool = True,
        use_zarr3: bool = False,
        use_compression: bool = True,
        multiprocessing_options: MultiprocessingOptions | None = None,
        type_handler_registry: Any | None = None,
        handler_impl: Any | None = None,
        pytree_metadata_options: PyTreeMetadataOptions = (
            PYTREE_METADATA_OPTIONS
        ),
        array_metadata_validator: Any | None = None,
        enable_pinned_host_transfer: bool | None = None,
        is_prioritized_key_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        """Makes a handler.

        Args:
            aggregate_filename: name of the old msgpack file; only "checkpoint".
            save_concurrent_gb: accepted; the engine has a budget of its own.
            restore_concurrent_gb: likewise.
            save_device_host_concurrent_gb: likewise; "auto" needs a limit.
            memory_limit_options: that limit.
            use_ocdbt: store arrays in one database, not as files.
            use_zarr3: store them as zarr 3.
            use_compression: compress chunks with zstd.
            multiprocessing_options: accepted; one process needs none of them.
            type_handler_registry: not part of this release.
            handler_impl: not part of this release.
            pytree_metadata_options: rich types are not part of this release.
            array_metadata_validator: accepted; it compares processes.
            enable_pinned_host_transfer: accepted; says nothing about files.
            is_prioritized_key_fn: accepted; all leaves are copied before an
                asynchronous save returns.

        Raises:
            ValueError: "auto" without a limit.
            NotImplementedError: an option that comes later.
        """
        if aggregate_filename not in (None, "checkpoint"):
            raise not_implemented(
                "PyTreeCheckpointHandler(aggregate_filename=...)"
            )
        if type_handler_registry is not None or handler_impl is not None:
            raise not_implemented(
                "PyTreeCheckpointHandler with type handlers of its own"
            )
        if pytree_metadata_options.support_rich_types:
            raise not_implemented("PyTreeMetadataOptions.support_rich_types")
        _check_transfer_limit(
            save_device_host_concurrent_gb, memory_limit_options
        )
        self._use_ocdbt = use_ocdbt
        self._use_zarr3 = use_zarr3
        self._use_compression = use_compression

    @classmethod
    def typestr(cls) -> str:
        return orbax_typestr(
            cls,
            f"{__name__}.PyTreeCheckpointHandler",
            "pytree_checkpoint_handler",
            "PyTreeCheckpointHandler",
        )

    def prepare(
        self, args: PyTreeSaveArgs, *, snapshot: bool = True
    ) -> PreparedSave:
        """Checks and copies what is to be saved; writing it comes later.

        Args:
            args: the tree and its options.
            snapshot: copy arrays that the caller may change.

        Raises:
            ValueError: a tree that cannot be saved.
            TypeError: `custom_metadata` is no JSON value.
        """
        options = SaveOptions(
            use_ocdbt=self._use_ocdbt,
            use_zarr3=self._use_zarr3,
            use_compression=self._use_compression,
            ocdbt_target_data_file_size=args.ocdbt_target_data_file_size,
        )
        return prepare_save(
            args.item,
            args.save_args,
            args.custom_metadata,
            options,
            snapshot=snapshot,
        )

    def save(
        self,
        directory: Any,
        item: PyTree | None = None,
        save_args: PyTree | None = None,
        args: PyTreeSaveArgs | None = None,
    ) -> None:
        """Writes the item's files into `directory`, which exists.

        Args:
            directory: anything with an absolute path.
            item: instead of `args`.
            save_args: instead of `args`.
            args: what to save.

        Raises:
            ValueError: a tree that cannot be saved; a relative path.
            TypeError: `custom_metadata` is no JSON value.
            OSError: the files cannot be written.
        """
        args = _save_args(item, save_args, args)
        self.prepare(args, snapshot=False).write(directory)

    async def async_save(
        self,
        directory: Any,
        item: PyTree | None = None,
        save_args: PyTree | None = None,
        args: PyTreeSaveArgs | None = None,
    ) -> list[Future[None]]:
        """As `save`, but a future that is returned writes the files.

        The tree is copied before this returns. Args and errors are `save`'s.
        """
        args = _save_args(item, save_args, args)
        prepared = self.prepare(args)
        return [Future(lambda _: prepared.write(directory), what="pytree save")]

    def restore(
        self,
        directory: Any,
        item: PyTree | None = None,
        restore_args: PyTree | None = None,
        transforms: PyTree | None = None,
        transforms_default_to_original: bool = True,
        legacy_transform_fn: Callable[..., Any] | None = None,
        args: PyTreeRestoreArgs | None = None,
    ) -> PyTree:
        """Reads the tree.

        Args:
            directory: the item's; anything with a path.
            item: instead of `args`, like the others before `args`.
            restore_args: see `PyTreeRestoreArgs`.
            transforms: not part of this release.
            transforms_default_to_original: goes with `transforms`.
            legacy_transform_fn: not part of this release.
            args: what to restore.

        Returns:
            A tree like `args.item`; without it, dicts and lists.

        Raises:
            FileNotFoundError: no directory, no structure, or missing files.
            ValueError: structures that do not match; leaves that cannot be
                read as asked; damaged files.
            NotImplementedError: transforms.
        """
        if not os.path.exists(os.fspath(directory)):
            raise FileNotFoundError(
                "Requested directory for restore does not exist at"
                f" {directory}."
            )
        _refuse_positional_args(item, "PyTreeRestoreArgs")
        if args is None:
            args = PyTreeRestoreArgs(
                item,
                restore_args,
                transforms,
                transforms_default_to_original,
                legacy_transform_fn,
            )
        _refuse_transforms(args)
        return restore_pytree(
            directory,
            args.item,
            args.restore_args,
            partial_restore=args.partial_restore,
            use_ocdbt=self._use_ocdbt,
            use_zarr3=self._use_zarr3,
        )

    def metadata(self, directory: Any) -> TreeMetadata:
        """What each leaf is, without reading any.

        Raises:
            FileNotFoundError: there is no `_METADATA`.
            ValueError: metadata that cannot be read.
        """
        return read_metadata(directory)


@register_with_handler(PyTreeCheckpointHandler, for_save=True)
@dataclasses.dataclass
class PyTreeSaveArgs(CheckpointArgs):
    """What to save.

    Attributes:
        item: the tree.
        save_args: a tree like it of `SaveArgs`.
        ocdbt_target_data_file_size: bytes of a data file; 0: no limit.
        custom_metadata: a JSON value for the item's `_METADATA`.

    Raises:
        ValueError: the item is a TreeMetadata.
    """

    item: PyTree
    save_args: PyTree | None = None
    ocdbt_target_data_file_size: int | None = None
    custom_metadata: Any | None = None

    def __post_init__(self) -> None:
        if is_tree_metadata(self.item):
            raise ValueError("Cannot save TreeMetadata.")


@register_with_handler(PyTreeCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class PyTreeRestoreArgs(CheckpointArgs):
    """What to restore; trees may be TreeMetadata.

    Attributes:
        item: gives the result's structure.
        restore_args: a tree like it of `RestoreArgs`.
        transforms: not part of this release.
        transforms_default_to_original: goes with `transforms`.
        legacy_transform_fn: not part of this release.
        partial_restore: restore only what `item` has, and keep what the
            checkpoint lacks.
    """

    item: PyTree | None = None
    restore_args: PyTree | None = None
    transforms: PyTree | None = None
    transforms_default_to_original: bool = True
    legacy_transform_fn: Callable[..., Any] | None = None
    partial_restore: bool = False

    def __post_init__(self) -> None:
        self.item = unwrap(self.item)
        self.restore_args = unwrap(self.restore_args)
        self.transforms = unwrap(self.transforms)


def _check_transfer_limit(
    concurrent_gb: int | str | None, limits: MemoryLimitOptions | None
) -> None:
    if concurrent_gb != "auto":
        return
    if limits is None or limits.max_transfer_concurrent_gb is None:
        raise ValueError(
            "max_save_device_host_concurrent_bytes must be provided if"
            ' save_device_host_concurrent_bytes is "auto"'
        )


def _refuse_positional_args(item: Any, name: str) -> None:
    if isinstance(item, CheckpointArgs):
        raise ValueError(
            f"Make sure to specify kwarg name `args=` when providing `{name}`."
        )


def _save_args(
    item: Any, save_args: Any, args: PyTreeSaveArgs | None
) -> PyTreeSaveArgs:
    _refuse_positional_args(item, "PyTreeSaveArgs")
    return args or PyTreeSaveArgs(item=item, save_args=save_args)


def _refuse_transforms(args: PyTreeRestoreArgs) -> None:
    if args.transforms is not None:
        raise not_implemented("PyTreeRestore(transforms=...)")
    if args.legacy_transform_fn is not None:
        raise not_implemented("PyTreeRestore(legacy_transform_fn=...)")
