"""Saves and loads trees as checkpointables."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Awaitable
from typing import Any, ClassVar

import numpy as np

from holdfast._log import say_ignored
from holdfast.orbax._devices.monitoring import Transfer, record_event
from holdfast.orbax._devices.optional_jax import is_jax_array, require_jax
from holdfast.orbax._handlers.pytree_save import (
    PreparedSave,
    SaveOptions,
    finish_item,
    prepare_save,
)
from holdfast.orbax._leaves.limits import get_byte_limiter
from holdfast.orbax._restore.by_handlers import RestoreOptions
from holdfast.orbax._restore.tree import restore_pytree
from holdfast.orbax._type_handlers.array_metadata import (
    Store,
    Validator,
    validate_item,
)
from holdfast.orbax._type_handlers.arrays import ArrayHandler
from holdfast.orbax._type_handlers.base import check_has_elements
from holdfast.orbax._type_handlers.registry import standard_registry
from holdfast.orbax._type_handlers.single_replica import (
    SingleReplicaArrayHandler,
)
from holdfast.orbax.tree_paths import (
    PyTreePath,
    flatten_with_path,
    param_name_from_keypath,
    tree_leaves,
    unflatten_like,
)
from holdfast.orbax.type_handlers import (
    ArrayRestoreArgs,
    SaveArgs,
    SingleReplicaArrayRestoreArgs,
)
from holdfast.orbax.v1._directory import ItemDirectory
from holdfast.orbax.v1._handler_types import CheckpointableHandler
from holdfast.orbax.v1._leaves import (
    check_loadable,
    check_storable,
    restore_args,
)
from holdfast.orbax.v1._metadata_types import read_tree_metadata
from holdfast.orbax.v1._operations import (
    operation_of_handler,
    processes_of,
)
from holdfast.orbax.v1._save_state import (
    cancelling_progress,
    is_in_background,
)
from holdfast.orbax.v1.context import Context, get_context
from holdfast.orbax.v1.errors import UnregisteredTypeError
from holdfast.orbax.v1.options import ArrayOptions, MemoryOptions
from holdfast.orbax.v1.path import PathAwaitingCreation

StorageOptions = ArrayOptions.Saving.StorageOptions


class PyTreeHandler(CheckpointableHandler[Any, Any]):
    """Saves and loads trees, with the context's options.

    Args:
        context: supplies the options; None means the active context.
        array_metadata_validator: compares the processes' metadata of each
            array.
        leaf_handler_registry: must be None; the program's own leaf types use
            the older interface's type handlers.
        partial_save_mode: must be False; use `partial.save` instead.

    Raises:
        NotImplementedError: `leaf_handler_registry` or `partial_save_mode` was
            set.
    """

    TYPESTR: ClassVar[str] = (
        "orbax.checkpoint.experimental.v1._src.handlers.pytree_handler"
        ".PyTreeHandler"
    )

    def __init__(
        self,
        *,
        context: Context | None = None,
        array_metadata_validator: Validator | None = None,
        leaf_handler_registry: Any | None = None,
        partial_save_mode: bool = False,
    ) -> None:
        if leaf_handler_registry is not None:
            raise NotImplementedError(
                "PyTreeHandler(leaf_handler_registry=...) is not supported:"
                " save your own leaf types with a TypeHandler of"
                " holdfast.orbax.type_handlers"
            )
        if partial_save_mode:
            raise NotImplementedError(
                "PyTreeHandler(partial_save_mode=True) is not supported: call"
                " partial.save and partial.finalize"
            )
        self._context = context or get_context()
        record_event("/jax/orbax/pytree_checkpoint_handler/init/ocdbt")
        self._validator = array_metadata_validator

    async def save(
        self, directory: PathAwaitingCreation, checkpointable: Any
    ) -> Awaitable[None]:
        """Captures the tree's arrays, and writes them in the background.

        Raises:
            UnregisteredTypeError: leaf types cannot be stored; the error names
                them.
            ValueError: a leaf or the structure cannot be saved.
        """
        host = self._context.multiprocessing.primary_host
        transfer = Transfer(directory, host)
        prepared = _prepare(checkpointable, self._context)
        futures: list[Any] | None = None
        if prepared.others and prepared.processes.is_single:
            # Handlers copy their arguments.
            path = await directory.await_creation()
            futures = await prepared.serialize(path)
        transfer.count(checkpointable)
        transfer.copied()

        async def write() -> None:
            progress = cancelling_progress()
            if progress is not None:
                prepared.options["progress"] = progress
            if not prepared.processes.is_single:
                path = await directory.await_creation()
                _write_together(
                    prepared, path, self._context, self._validator
                )
            elif (
                isinstance(directory, ItemDirectory)
                and not prepared.others
                and self._validator is None
            ):
                options = prepared.options_at(os.fspath(directory.path))
                directory.save_item(prepared.tree, **options)
            else:
                path = await directory.await_creation()
                prepared.write(path, futures)
                if self._validator is not None:
                    validate_item(self._validator, Store(), path)
            transfer.written()

        return write()

    async def load(
        self, directory: Any, abstract_checkpointable: Any | None = None
    ) -> Awaitable[Any]:
        """Returns the tree; see `holdfast.orbax.v1.load`.

        Raises:
            UnregisteredTypeError: `abstract_checkpointable` has invalid leaves.
            ValueError: structures do not match, or files are damaged.
        """
        abstract = abstract_checkpointable
        self.validate_abstract_leaves_handleable(abstract)

        async def read() -> Any:
            host = self._context.multiprocessing.primary_host
            transfer = Transfer(directory, host)
            restored = _restore(directory, abstract, self._context)
            transfer.count(restored)
            transfer.read()
            return restored

        return read()

    async def metadata(self, directory: Any) -> Any:
        """Returns the tree with abstract leaves."""
        return read_tree_metadata(
            directory, self._context.pytree.saving.pytree_metadata_options
        )

    def validate_leaves_handleable(self, checkpointable: Any) -> None:
        """Checks that each leaf can be stored.

        Raises:
            UnregisteredTypeError: leaf types cannot be stored; the error names
                them.
        """
        check_storable(tree_leaves(checkpointable))

    def validate_abstract_leaves_handleable(
        self, abstract_checkpointable: Any
    ) -> None:
        """Checks that each leaf is a valid abstract leaf.

        Raises:
            UnregisteredTypeError: leaf types are not valid; the error names
                them.
        """
        check_loadable(tree_leaves(abstract_checkpointable))

    def is_handleable(self, checkpointable: Any) -> bool:
        """Returns whether every leaf can be stored."""
        try:
            self.validate_leaves_handleable(checkpointable)
        except (UnregisteredTypeError, ValueError):
            return False
        return True

    def is_abstract_handleable(
        self, abstract_checkpointable: Any
    ) -> bool | None:
        """Returns whether every leaf is a valid abstract leaf."""
        try:
            self.validate_abstract_leaves_handleable(abstract_checkpointable)
        except (UnregisteredTypeError, ValueError):
            return False
        return True


def _write_together(
    prepared: PreparedSave,
    path: Any,
    context: Context,
    validator: Validator | None,
) -> None:
    """Writes this process's part; the primary makes an item of all parts.

    Args:
        prepared: the tree.
        path: the item's directory, which exists.
        context: the handler's context.
        validator: compares what the processes wrote; None means the default
            comparison.

    Raises:
        ValueError: the parts that the processes wrote do not match.
        OSError: files cannot be written.
        DeadlineExceededError: a process is not ready in time.
    """
    saving = context.array.saving
    operation = operation_of_handler(context, path)
    deadline = time.monotonic() + context.asynchronous.timeout_secs
    name = f"save_and_finalize_{operation.id}.{os.path.basename(path)}"
    with operation.phase(f"{name}_commit_complete", deadline=deadline):
        prepared.write(path)
    with operation.phase(f"{name}_finalize_complete", deadline=deadline):
        if not prepared.processes.is_primary:
            return
        if prepared.processes.primary is not None:
            validate_item(validator or Validator(), Store(), path)
        finish_item(
            path,
            prepared.processes,
            use_ocdbt=saving.use_ocdbt,
            adopt_existing=bool(prepared.others),
        )


def _restore(directory: Any, abstract: Any, context: Context) -> Any:
    loading = context.array.loading
    args = None
    options = RestoreOptions(
        metadata_options=context.pytree.saving.pytree_metadata_options,
        fills_missing=not loading.raise_array_data_missing_error,
    )
    of_arrays = ArrayRestoreArgs
    if loading.use_load_and_broadcast:
        of_arrays = SingleReplicaArrayRestoreArgs
        options = dataclasses.replace(
            options, registry=_broadcasting_registry(loading)
        )
    elif context.array.saving.array_metadata_store is None:
        options = dataclasses.replace(
            options, registry=_saving_registry(context.array.saving, context)
        )
    if abstract is not None:
        args = restore_args(
            abstract,
            strict=not loading.enable_padding_and_truncation,
            of_arrays=of_arrays,
        )
    return restore_pytree(
        directory,
        abstract,
        args,
        partial_restore=context.pytree.loading.partial_load,
        options=options,
    )


def _broadcasting_registry(loading: ArrayOptions.Loading) -> Any:
    """Returns the standard handlers, except that one replica reads jax.Arrays
    for all."""
    given = loading.load_and_broadcast_options
    handler = SingleReplicaArrayHandler(
        replica_axis_index=given.replica_axis_index,
        primary_replica_id=given.primary_replica_id,
        broadcast_memory_limit_bytes=given.broadcast_memory_limit_bytes,
        broadcast_memory_scaling_factor=given.broadcast_memory_scaling_factor,
        array_metadata_store=Store(),
    )
    return _registry_with(handler)


def _saving_registry(saving: ArrayOptions.Saving, context: Context) -> Any:
    """Returns the standard handlers, with the options applied to jax.Arrays.

    Raises:
        ValueError: replicas cannot share the writing, because each process has
            its own checkpoint.
    """
    primary_host = context.multiprocessing.primary_host
    handler = ArrayHandler(
        primary_host=primary_host,
        replica_id=None if primary_host is None else 0,
        use_replica_parallel=saving.use_replica_parallel,
        min_slice_bytes_for_replica_parallel=(
            saving.min_slice_bytes_for_replica_parallel
        ),
        max_replicas_for_replica_parallel=(
            saving.max_replicas_for_replica_parallel
        ),
        enable_write_sharding_file=saving.enable_write_sharding_file,
        enable_replica_parallel_separate_folder=(
            saving.enable_replica_parallel_separate_folder
        ),
        array_metadata_store=saving.array_metadata_store,
        callback=context.memory.serialization_status_callback,
    )
    handler.jax_options()  # raises before any lookup by type
    return _registry_with(handler)


def _registry_with(handler: Any) -> Any:
    registry = standard_registry()
    array = require_jax("jax.Arrays").Array
    registry.add(array, handler, override=True, ignore_warnings=True)
    return registry


def _prepare(tree: Any, context: Context) -> PreparedSave:
    """Checks a tree and captures its arrays."""
    _say_ignored_options(context)
    saving = context.array.saving
    metadata_options = context.pytree.saving.pytree_metadata_options
    leaves = tree_leaves(tree)
    check_storable(leaves)
    has_jax_arrays = any(
        is_jax_array(leaf) for leaf in {type(v): v for v in leaves}.values()
    )
    if has_jax_arrays and any(
        is_jax_array(leaf) and leaf.size == 0 for leaf in leaves
    ):
        for path, leaf in flatten_with_path(tree):
            if is_jax_array(leaf):
                check_has_elements(leaf, param_name_from_keypath(path), None)
    registry = None
    if has_jax_arrays:
        registry = _saving_registry(saving, context)
    prepared = prepare_save(
        tree,
        _save_args_tree(tree, saving),
        options=SaveOptions(
            use_ocdbt=saving.use_ocdbt,
            use_zarr3=saving.use_zarr3,
            use_compression=saving.use_compression,
            ocdbt_target_data_file_size=saving.ocdbt_target_data_file_size,
            processes=processes_of(context),
            registry=registry,
            support_rich_types=metadata_options.support_rich_types,
            device_host_byte_limiter=_transfer_limiter(context.memory),
            is_prioritized_key_fn=context.memory.is_prioritized_key_fn,
        ),
        snapshot=is_in_background(),
    )
    limit = context.memory.write_concurrent_bytes
    if limit is not None:
        prepared.options["memory_bytes"] = limit
    return prepared


def _transfer_limiter(memory: MemoryOptions) -> Any | None:
    """Returns a limiter for concurrent copies from devices; None if unlimited.
    """
    limit_bytes = memory.transfer_concurrent_bytes
    if memory.regulator_options is not None:
        limit_bytes = memory.regulator_options.regulator.current_limit_bytes
    return None if limit_bytes is None else get_byte_limiter(limit_bytes)


def _say_ignored_options(context: Context) -> None:
    memory = context.memory
    copies_first = "everything is copied before save_async returns"
    if memory.serialization_status_callback is None:
        say_ignored(
            "MemoryOptions.transfer_concurrent_bytes",
            memory.transfer_concurrent_bytes,
            copies_first,
        )
    if memory.regulator_options is None:
        say_ignored(
            "MemoryOptions.expected_surge_bytes",
            memory.expected_surge_bytes,
            "there are no regulator_options, whose limit would leave them free",
        )
    say_ignored(
        "MemoryOptions.is_prioritized_key_fn",
        memory.is_prioritized_key_fn,
        "a serialization_status_callback chooses what is copied first",
    )
    say_ignored(
        "ArrayOptions.Saving.enable_pinned_host_transfer",
        context.array.saving.enable_pinned_host_transfer,
        copies_first,
    )


def _save_args_tree(tree: Any, saving: ArrayOptions.Saving) -> Any | None:
    """Returns a tree of SaveArgs, or None if no leaf has options."""
    of_all = saving.storage_options or StorageOptions()
    # Not ==: numpy's float64 equals None.
    if saving.scoped_storage_options_creator is None and all(
        value is None for value in vars(of_all).values()
    ):
        return None
    flat = flatten_with_path(tree)
    args = [_save_args(path, leaf, saving) for path, leaf in flat]
    return unflatten_like(tree, args)


def _save_args(
    path: PyTreePath, leaf: Any, saving: ArrayOptions.Saving
) -> SaveArgs:
    """Returns the options of a leaf, which override the options of all leaves.
    """
    of_all = saving.storage_options or StorageOptions()
    own = None
    if saving.scoped_storage_options_creator is not None:
        own = saving.scoped_storage_options_creator(path, leaf)

    def choose(name: str) -> Any:
        value = None if own is None else getattr(own, name)
        return getattr(of_all, name) if value is None else value

    dtype = choose("dtype")
    return SaveArgs(
        dtype=None if dtype is None else np.dtype(dtype),
        chunk_byte_size=choose("chunk_byte_size"),
        shard_axes=choose("shard_axes") or (),
    )
