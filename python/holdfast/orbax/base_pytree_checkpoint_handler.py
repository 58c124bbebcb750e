"""BasePyTreeCheckpointHandler, on which PyTreeCheckpointHandler is built."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from holdfast import _files
from holdfast._future import Future
from holdfast.orbax._devices import memory_regulator
from holdfast.orbax._devices.monitoring import Transfer, record_event
from holdfast.orbax._devices.optional_jax import imported_jax
from holdfast.orbax._handlers.base import ORBAX_HANDLERS, AsyncCheckpointHandler
from holdfast.orbax._handlers.ocdbt_merge import has_unmerged, merge_now
from holdfast.orbax._handlers.pytree_metadata import read_metadata
from holdfast.orbax._handlers.pytree_save import (
    PreparedSave,
    SaveOptions,
    finish_item,
    has_parts,
    prepare_save,
)
from holdfast.orbax._leaves.args import JAX_ARRAY_TYPE_STR
from holdfast.orbax._leaves.limits import ByteLimiter, get_byte_limiter
from holdfast.orbax._leaves.param_info import IsPrioritizedKeyFn
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._processes.operations import Processes
from holdfast.orbax._restore.by_handlers import RestoreOptions
from holdfast.orbax._restore.tree import restore_pytree
from holdfast.orbax._type_handlers.array_metadata import (
    Validator,
    validate_item,
)
from holdfast.orbax._type_handlers.base import TypeHandlerRegistry
from holdfast.orbax._type_handlers.registry import GLOBAL_TYPE_HANDLER_REGISTRY
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)
from holdfast.orbax.metadata.tree import TreeMetadata
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    MemoryLimitOptions,
    MultiprocessingOptions,
    PyTreeMetadataOptions,
)
from holdfast.orbax.tree import get_param_names

PyTree = Any

_BYTES_PER_GB = 10**9
_BYTES_PER_GIB = 1024**3


class PartialSaveError(Exception):
    """A part of a checkpoint cannot be saved."""


class PartialSaveReplacementError(PartialSaveError):
    """An earlier part already contains a leaf."""


class BasePyTreeCheckpointHandler(AsyncCheckpointHandler):
    """Saves and restores a pytree in a directory, without transforms.

    Thread-safety: one call at a time.
    """

    TYPESTR = (
        f"{ORBAX_HANDLERS}.base_pytree_checkpoint_handler"
        ".BasePyTreeCheckpointHandler"
    )

    def __init__(
        self,
        *,
        save_concurrent_bytes: int | None = None,
        restore_concurrent_bytes: int | None = None,
        save_device_host_concurrent_bytes: int | str | None = None,
        memory_limit_options: MemoryLimitOptions | None = None,
        use_ocdbt: bool = True,
        use_zarr3: bool = False,
        use_compression: bool | str = True,
        multiprocessing_options: MultiprocessingOptions | None = None,
        type_handler_registry: TypeHandlerRegistry = (
            GLOBAL_TYPE_HANDLER_REGISTRY
        ),
        enable_post_merge_validation: bool = True,
        pytree_metadata_options: PyTreeMetadataOptions = (
            PYTREE_METADATA_OPTIONS
        ),
        array_metadata_validator: Any | None = None,
        enable_pinned_host_transfer: bool | None = None,
        is_prioritized_key_fn: IsPrioritizedKeyFn | None = None,
    ) -> None:
        """Makes a handler; see PyTreeCheckpointHandler for the other options.

        Args:
            save_concurrent_bytes: limit on the bytes being written; a larger
                array is written in pieces. None means the engine's own budget.
            restore_concurrent_bytes: the same limit for the bytes being read.
            save_device_host_concurrent_bytes: limit on the bytes being copied
                from devices, or "auto". None means no limit.
            enable_post_merge_validation: checks that merged arrays are
                complete.

        Raises:
            ValueError: "auto" is given, but `memory_limit_options` has no
                limit, or its limit is too small.
            TypeError: a string other than "auto" is given.
        """
        self._save_concurrent_bytes = save_concurrent_bytes
        self._restore_concurrent_bytes = restore_concurrent_bytes
        self._transfer_bytes = save_device_host_concurrent_bytes
        self._regulator = _regulator(
            save_device_host_concurrent_bytes, memory_limit_options
        )
        self._use_ocdbt = use_ocdbt
        self._use_zarr3 = use_zarr3
        self._use_compression = use_compression
        self._registry = type_handler_registry
        self._validates_merge = enable_post_merge_validation
        self._metadata_options = pytree_metadata_options
        self._validator = array_metadata_validator or Validator()
        self._pinned_host = enable_pinned_host_transfer
        self._is_prioritized_key_fn = is_prioritized_key_fn
        options = multiprocessing_options or MultiprocessingOptions()
        self._multiprocessing_options = options
        self._primary_host = options.primary_host
        # Whether the caller's own handlers write into the item being saved.
        self._has_other_writers = False
        init = "/jax/orbax/pytree_checkpoint_handler/init"
        if is_prioritized_key_fn is not None:
            record_event(f"{init}/prioritized_key_fn")
        record_event(f"{init}/ocdbt")
        # False if only the engine wrote, and only in one process: the arrays'
        # metadata then cannot differ.
        self._validates_metadata = True

    def get_param_names(self, item: PyTree) -> PyTree:
        """Returns a tree of parameter names with the structure of `item`."""
        return get_param_names(item)

    def prepare(
        self, args: BasePyTreeSaveArgs, *, snapshot: bool = True
    ) -> PreparedSave:
        """Checks and copies the tree, which is written later.

        Args:
            args: the tree and its options.
            snapshot: copies arrays that the caller may change.

        Raises:
            ValueError: the tree cannot be saved.
            TypeError: `custom_metadata` is not a JSON value.
        """
        prepared = prepare_save(
            args.item,
            args.save_args,
            args.custom_metadata,
            SaveOptions(
                use_ocdbt=self._use_ocdbt,
                use_zarr3=self._use_zarr3,
                use_compression=self._use_compression,
                ocdbt_target_data_file_size=args.ocdbt_target_data_file_size,
                registry=self._registry,
                support_rich_types=self._metadata_options.support_rich_types,
                byte_limiter=get_byte_limiter(self._save_concurrent_bytes),
                device_host_byte_limiter=self._transfer_limiter(),
                enable_pinned_host_transfer=self._uses_pinned_host(),
                is_prioritized_key_fn=self._is_prioritized_key_fn,
                processes=Processes(self._multiprocessing_options),
            ),
            snapshot=snapshot,
        )
        self._has_other_writers = bool(prepared.others)
        self._validates_metadata = (
            self._has_other_writers
            or not prepared.processes.is_single
            or type(self._validator) is not Validator
        )
        return prepared

    def _transfer_limiter(self) -> ByteLimiter:
        if self._regulator is not None:
            return get_byte_limiter(self._regulator.update_limit_bytes())
        assert not isinstance(self._transfer_bytes, str)
        return get_byte_limiter(self._transfer_bytes)

    def _uses_pinned_host(self) -> bool:
        if self._pinned_host is not None:
            return self._pinned_host
        jax = imported_jax()
        return jax is not None and bool(jax.default_backend() == "gpu")

    def save(self, directory: Any, *args: Any, **kwargs: Any) -> None:
        """See PyTreeCheckpointHandler.

        Args:
            directory: the absolute path, as any path-like object.
            *args: a BasePyTreeSaveArgs.
            **kwargs: the BasePyTreeSaveArgs, given as `args=`.
        """
        begun = self._begin(directory, _only(*args, **kwargs), snapshot=False)
        run_sync(begun)(None)

    async def async_save(
        self, directory: Any, *args: Any, **kwargs: Any
    ) -> list[Future[None]]:
        """Copies the tree, and returns a future that writes the files.

        The tree is copied before the call returns. Arguments and errors are
        those of `save`.
        """
        write = await self._begin(directory, _only(*args, **kwargs))
        return [Future(write, what="pytree save")]

    async def _begin(
        self, directory: Any, args: BasePyTreeSaveArgs, *, snapshot: bool = True
    ) -> Callable[[Any], None]:
        """Copies the tree and returns a function that writes the copy."""
        transfer = Transfer(directory, self._primary_host)
        with memory_regulator.profiled():
            prepared = self.prepare(args, snapshot=snapshot)
            futures = await prepared.serialize(directory)
        transfer.count(args.item)
        transfer.copied()

        def write(is_cancelled: Any) -> None:
            prepared.write(directory, futures, is_cancelled)
            transfer.written()

        return write

    def restore(
        self, directory: Any, args: BasePyTreeRestoreArgs | None = None
    ) -> PyTree:
        """Reads the tree.

        Args:
            directory: the item's directory, as any path-like object.
            args: what to restore.

        Returns:
            A tree like `args.item`; without `args.item`, dicts and lists.

        Raises:
            FileNotFoundError: the directory, its metadata or a file is missing.
            ValueError: the structures do not match, a leaf cannot be read as
                requested, or files are damaged.
            Exception: any error from a type handler.
        """
        args = args or BasePyTreeRestoreArgs()
        if not _files.exists(os.fspath(directory)):
            raise FileNotFoundError(
                f"Requested directory for restore does not exist at {directory}"
            )
        transfer = Transfer(directory, self._primary_host)
        restored = restore_pytree(
            directory,
            args.item,
            args.restore_args,
            partial_restore=args.partial_restore,
            use_ocdbt=self._use_ocdbt,
            use_zarr3=self._use_zarr3,
            options=self.restore_options(),
        )
        transfer.count(restored)
        transfer.read()
        return restored

    def restore_options(self) -> RestoreOptions:
        """Returns the options with which this handler reads an item.

        Raises:
            ValueError: a limit is not positive.
        """
        return RestoreOptions(
            registry=self._registry,
            metadata_options=self._metadata_options,
            byte_limiter=get_byte_limiter(self._restore_concurrent_bytes),
        )

    def metadata(self, directory: Any) -> TreeMetadata:
        """See PyTreeCheckpointHandler."""
        return read_metadata(directory, self.restore_options())

    def finalize(self, directory: Any) -> None:
        """See PyTreeCheckpointHandler."""
        store = self._array_metadata_store()
        if store is not None and self._primary_host is not None:
            if self._validates_metadata:
                validate_item(self._validator, store, directory)
        if has_parts(directory):
            processes = Processes(self._multiprocessing_options)
            finish_item(
                directory,
                processes,
                use_ocdbt=self._use_ocdbt,
                adopt_existing=self._has_other_writers,
            )
        elif has_unmerged(directory):
            merge_now(directory, self._validates_merge and not self._use_zarr3)

    def _array_metadata_store(self) -> Any | None:
        if not self._registry.has(JAX_ARRAY_TYPE_STR):
            return None
        handler = self._registry.get(JAX_ARRAY_TYPE_STR)
        return getattr(handler, "_array_metadata_store", None)


def _only(*given: Any, **kwargs: Any) -> Any:
    """Returns the only argument.

    Raises:
        TypeError: there is not exactly one argument.
    """
    if len(given) + len(kwargs) != 1 or not set(kwargs) <= {"args"}:
        raise TypeError(
            "save() takes a directory and `args`, got"
            f" {len(given)} more positional arguments and {sorted(kwargs)}"
        )
    return given[0] if given else kwargs["args"]


def _regulator(
    transfer_bytes: int | str | None, limits: MemoryLimitOptions | None
) -> memory_regulator.MemoryRegulator | None:
    if isinstance(transfer_bytes, str) and transfer_bytes != "auto":
        raise TypeError(
            "save_device_host_concurrent_bytes must be a number or"
            f' "auto" (got {transfer_bytes!r})'
        )
    if transfer_bytes != "auto":
        return None
    if limits is None or limits.max_transfer_concurrent_gb is None:
        raise ValueError(
            "max_save_device_host_concurrent_bytes must be provided if"
            ' save_device_host_concurrent_bytes is "auto"'
        )
    limit_bytes = limits.max_transfer_concurrent_gb * _BYTES_PER_GB
    return memory_regulator.MemoryRegulator(
        max_memory_limit_gib=limit_bytes / _BYTES_PER_GIB
    )


@register_with_handler(BasePyTreeCheckpointHandler, for_save=True)
@dataclasses.dataclass
class BasePyTreeSaveArgs(CheckpointArgs):
    """The tree to save.

    Attributes:
        item: the tree.
        save_args: a tree of `SaveArgs` with the same structure.
        ocdbt_target_data_file_size: target size of data files in bytes; 0 means
            no limit.
        custom_metadata: a JSON value for the item's `_METADATA`.
    """

    item: PyTree
    save_args: PyTree | None = None
    ocdbt_target_data_file_size: int | None = None
    custom_metadata: Any | None = None


@register_with_handler(BasePyTreeCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class BasePyTreeRestoreArgs(CheckpointArgs):
    """The tree to restore.

    Attributes:
        item: determines the result's structure.
        restore_args: a tree of `RestoreArgs` with the structure of `item`.
        partial_restore: restores only the leaves in `item`; a leaf that the
            checkpoint lacks keeps its value from `item`.
    """

    item: PyTree | None = None
    restore_args: PyTree | None = None
    partial_restore: bool = False
