"""PyTreeCheckpointHandler: trees with leaves of any supported type."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable
from typing import Any, TypeAlias

from holdfast import _files
from holdfast.orbax._handlers.base import ORBAX_HANDLERS
from holdfast.orbax._handlers.outer import OuterHandler
from holdfast.orbax._leaves.args import ArrayRestoreArgs, RestoreArgs, SaveArgs
from holdfast.orbax._leaves.limits import LimitInFlightBytes
from holdfast.orbax._leaves.param_info import IsPrioritizedKeyFn, ParamInfo
from holdfast.orbax._restore.by_handlers import RestoreOptions
from holdfast.orbax._restore.legacy import restore_legacy
from holdfast.orbax._restore.source import AGGREGATE_FILE, TREE_METADATA_FILE
from holdfast.orbax._restore.tree import restore_pytree
from holdfast.orbax._type_handlers.base import TypeHandler, TypeHandlerRegistry
from holdfast.orbax._type_handlers.registry import GLOBAL_TYPE_HANDLER_REGISTRY
from holdfast.orbax.aggregate_handlers import AggregateHandler, MsgpackHandler
from holdfast.orbax.base_pytree_checkpoint_handler import (
    BasePyTreeCheckpointHandler,
    BasePyTreeRestoreArgs,
    BasePyTreeSaveArgs,
)
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    given_args,
    register_with_handler,
)
from holdfast.orbax.metadata.tree import is_tree_metadata, unwrap
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    MemoryLimitOptions,
    MultiprocessingOptions,
    PyTreeMetadataOptions,
)
from holdfast.orbax.transform_utils import RestoreTransform, Transform
from holdfast.orbax.tree import get_param_names

__all__ = [
    "DEFAULT_CONCURRENT_GB",
    "PYTREE_METADATA_FILE",
    "AggregateHandler",
    "ArrayRestoreArgs",
    "BasePyTreeCheckpointHandler",
    "BasePyTreeRestoreArgs",
    "BasePyTreeSaveArgs",
    "CheckpointArgs",
    "LegacyTransformFn",
    "LimitInFlightBytes",
    "MsgpackHandler",
    "ParamInfo",
    "PyTree",
    "PyTreeCheckpointHandler",
    "PyTreeRestoreArgs",
    "PyTreeSaveArgs",
    "RestoreArgs",
    "RestoreTransform",
    "SaveArgs",
    "Transform",
    "TupleKey",
    "TypeHandler",
    "TypeHandlerRegistry",
    "get_param_names",
    "register_with_handler",
]

PyTree: TypeAlias = Any
TupleKey: TypeAlias = tuple[str, ...]
LegacyTransformFn: TypeAlias = Callable[
    [PyTree, PyTree, PyTree], tuple[PyTree, PyTree]
]

PYTREE_METADATA_FILE = TREE_METADATA_FILE
DEFAULT_CONCURRENT_GB = 96
_BYTES_PER_GB = 10**9


class PyTreeCheckpointHandler(OuterHandler["PyTreeSaveArgs"]):
    """Saves and restores a pytree in a directory.

    Thread-safety: one call at a time.
    """

    TYPESTR = (
        f"{ORBAX_HANDLERS}.pytree_checkpoint_handler"
        ".PyTreeCheckpointHandler"
    )

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
        use_compression: bool | str = True,
        multiprocessing_options: MultiprocessingOptions | None = None,
        type_handler_registry: TypeHandlerRegistry = (
            GLOBAL_TYPE_HANDLER_REGISTRY
        ),
        handler_impl: Any | None = None,
        pytree_metadata_options: PyTreeMetadataOptions = (
            PYTREE_METADATA_OPTIONS
        ),
        array_metadata_validator: Any | None = None,
        enable_pinned_host_transfer: bool | None = None,
        is_prioritized_key_fn: IsPrioritizedKeyFn | None = None,
    ) -> None:
        """Makes a handler; gigabytes are 10^9 bytes.

        Args:
            aggregate_filename: name of the msgpack file in old items;
                "checkpoint" by default.
            save_concurrent_gb: limit on the bytes being written; each shard of
                a jax.Array must be smaller. None means 96.
            restore_concurrent_gb: the same limit for the bytes being read.
            save_device_host_concurrent_gb: limit on the bytes being copied from
                devices, or "auto". None means no limit.
            memory_limit_options: the maximum of the limit for "auto".
            use_ocdbt: stores all arrays in one OCDBT database.
            use_zarr3: stores arrays as zarr 3.
            use_compression: compresses chunks. True selects the codec that the
                environment variable HOLDFAST_COMPRESSION names. If it is not
                set, the codec is zstd, as in Orbax. "planes" stores byte
                planes, which are smaller and faster to load, in chunks of about
                8 MiB; Orbax can read them. "fast" selects lz4.
            multiprocessing_options: which processes save together, and which
                process writes the shared files.
            type_handler_registry: handlers of leaf types.
            handler_impl: a handler that does everything except transforms and
                old items. None means a BasePyTreeCheckpointHandler with the
                other options.
            pytree_metadata_options: whether tuples and namedtuples are recorded
                as such.
            array_metadata_validator: compares the metadata that the processes
                wrote.
            enable_pinned_host_transfer: copies through pinned memory; None
                means only on GPUs.
            is_prioritized_key_fn: selects the arrays to copy first when copies
                are limited.

        Raises:
            ValueError: "auto" is given, but `memory_limit_options` has no
                limit, or its limit is too small.
        """
        self._aggregate_filename = aggregate_filename or AGGREGATE_FILE
        self._use_ocdbt = use_ocdbt
        self._use_zarr3 = use_zarr3
        # Subclasses, and handlers that wrap this handler, read `_primary_host`.
        options = multiprocessing_options or MultiprocessingOptions()
        self._primary_host = options.primary_host
        self._handler_impl = handler_impl or BasePyTreeCheckpointHandler(
            save_concurrent_bytes=_bytes(save_concurrent_gb),
            restore_concurrent_bytes=_bytes(restore_concurrent_gb),
            save_device_host_concurrent_bytes=_transfer_bytes(
                save_device_host_concurrent_gb
            ),
            memory_limit_options=memory_limit_options,
            use_ocdbt=use_ocdbt,
            use_zarr3=use_zarr3,
            use_compression=use_compression,
            multiprocessing_options=multiprocessing_options,
            type_handler_registry=type_handler_registry,
            pytree_metadata_options=pytree_metadata_options,
            array_metadata_validator=array_metadata_validator,
            enable_pinned_host_transfer=enable_pinned_host_transfer,
            is_prioritized_key_fn=is_prioritized_key_fn,
        )

    @property
    def _impl(self) -> Any:
        return self._handler_impl

    def _impl_args(
        self, item: PyTree, save_args: PyTree, args: PyTreeSaveArgs | None
    ) -> PyTreeSaveArgs:
        made: PyTreeSaveArgs
        made = given_args(PyTreeSaveArgs, args, item, save_args)
        return made

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
            directory: the item's directory, as any path-like object.
            item: see `PyTreeRestoreArgs`. This argument and the next four are
                ignored if `args` is given.
            restore_args: see `PyTreeRestoreArgs`.
            transforms: see `PyTreeRestoreArgs`.
            transforms_default_to_original: see `PyTreeRestoreArgs`.
            legacy_transform_fn: see `PyTreeRestoreArgs`.
            args: what to restore.

        Returns:
            A tree like `args.item`; without `args.item`, dicts and lists.

        Raises:
            FileNotFoundError: the directory, the tree's structure or a file is
                missing.
            ValueError: the structures do not match, a leaf cannot be read as
                requested, or files are damaged.
            IsADirectoryError: the directory holds a single array saved by
                ArrayCheckpointHandler, not a tree.
            KeyError: with transforms, `restore_args` or the checkpoint lacks a
                key that `item` needs.
        """
        if not _files.exists(os.fspath(directory)):
            raise FileNotFoundError(
                "Requested directory for restore does not exist at"
                f" {directory}."
            )
        args = given_args(
            PyTreeRestoreArgs,
            args,
            item,
            restore_args,
            transforms,
            transforms_default_to_original,
            legacy_transform_fn,
        )
        _refuse_array_item(os.fspath(directory))
        if args.transforms is None and args.legacy_transform_fn is None:
            return self._restore_plain(directory, args)
        return restore_legacy(
            directory,
            args.item,
            args.restore_args,
            transforms=args.transforms,
            transforms_default_to_original=args.transforms_default_to_original,
            legacy_transform_fn=args.legacy_transform_fn,
            use_ocdbt=self._use_ocdbt,
            use_zarr3=self._use_zarr3,
            options=self._restore_options(),
        )

    def _restore_options(self) -> RestoreOptions:
        options = RestoreOptions()
        if isinstance(self._handler_impl, BasePyTreeCheckpointHandler):
            options = self._handler_impl.restore_options()
        return dataclasses.replace(
            options, aggregate_filename=self._aggregate_filename
        )

    def _restore_plain(self, directory: Any, args: PyTreeRestoreArgs) -> PyTree:
        """Restores an item of any format version without transforms."""
        path = os.fspath(directory)
        has_metadata = _files.exists(os.path.join(path, TREE_METADATA_FILE))
        aggregate = os.path.join(path, self._aggregate_filename)
        if has_metadata and not _files.exists(aggregate):
            base_args = BasePyTreeRestoreArgs(
                args.item, args.restore_args, args.partial_restore
            )
            return self._handler_impl.restore(directory, args=base_args)
        return restore_pytree(
            directory,
            args.item,
            args.restore_args,
            partial_restore=args.partial_restore,
            use_ocdbt=self._use_ocdbt,
            use_zarr3=self._use_zarr3,
            options=self._restore_options(),
        )


@register_with_handler(PyTreeCheckpointHandler, for_save=True)
@dataclasses.dataclass
class PyTreeSaveArgs(BasePyTreeSaveArgs):
    """The tree to save; see BasePyTreeSaveArgs.

    Raises:
        ValueError: the item is a TreeMetadata.
    """

    def __post_init__(self) -> None:
        if is_tree_metadata(self.item):
            raise ValueError("Cannot save TreeMetadata.")


@register_with_handler(PyTreeCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class PyTreeRestoreArgs(CheckpointArgs):
    """The tree to restore; every tree may be a TreeMetadata.

    Attributes:
        item: determines the result's structure.
        restore_args: a tree of `RestoreArgs` with the structure of `item`.
        transforms: a tree of `Transform` with the keys of `item`; only the
            leaves that the transforms need are read. Requires `item` and
            `restore_args`.
        transforms_default_to_original: if True, keys of `item` without a
            transform are read; if False, they keep the values in `item`.
        legacy_transform_fn: called with `item`, the stored structure and a
            matching tree of ParamInfo; returns the structure and the ParamInfo
            tree for the result.
        partial_restore: restores only the leaves in `item`; a leaf that the
            checkpoint lacks keeps its value from `item`.
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


def _bytes(concurrent_gb: float | None) -> int:
    if concurrent_gb is None:
        concurrent_gb = DEFAULT_CONCURRENT_GB
    return int(concurrent_gb * _BYTES_PER_GB)


def _transfer_bytes(concurrent_gb: float | str | None) -> int | str | None:
    if concurrent_gb is None or isinstance(concurrent_gb, str):
        return concurrent_gb
    return int(concurrent_gb * _BYTES_PER_GB)


def _refuse_array_item(directory: str) -> None:
    """Checks that the old msgpack file is not a directory, as Orbax does.

    Raises:
        IsADirectoryError: the msgpack file is a directory, as in an item that
            stores a single array.
    """
    path = os.path.join(directory, AGGREGATE_FILE)
    if _files.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
