"""Restores with transforms, and restores older items.

The caller's item and the stored tree may differ here; only the leaves that the
item requests must exist. Missing chunks are read as fill values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._leaves.args import (
    ArrayRestoreArgs,
    RestoreArgs,
    default_restore_type,
)
from holdfast.orbax._leaves.files import as_path
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax._leaves.plan import LeafPlan, plan_leaf
from holdfast.orbax._restore.by_handlers import (
    HandlerKinds,
    RestoreOptions,
    read_plans,
)
from holdfast.orbax._restore.legacy_structure import (
    StoredTree,
    open_stored_tree,
)
from holdfast.orbax._trees import structure as _structure
from holdfast.orbax._trees.empty_values import (
    RESTORE_TYPE_UNKNOWN,
    is_empty_typestr,
    is_supported_empty_value,
)
from holdfast.orbax._trees.transforms import (
    NO_ITEM,
    plan_transforms,
    transform_restored,
)
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.tree_paths import (
    deserialize_tree,
    from_flat_dict,
    is_empty_node,
    serialize_tree,
    to_flat_dict,
)

LegacyTransformFn = Callable[[Any, Any, Any], tuple[Any, Any]]


def restore_legacy(
    directory: Any,
    item: Any,
    restore_args: Any,
    *,
    transforms: Any = None,
    transforms_default_to_original: bool = True,
    legacy_transform_fn: LegacyTransformFn | None = None,
    use_ocdbt: bool,
    use_zarr3: bool,
    options: RestoreOptions | None = None,
) -> Any:
    """Restores the tree of an item.

    Args:
        directory: the item's directory, as any path-like object.
        item: determines the result's structure; None means the stored tree's.
        restore_args: a tree like `item`, with RestoreArgs as leaves.
        transforms: a tree of Transform; needs `item` and `restore_args`.
        transforms_default_to_original: see `apply_transformations`.
        legacy_transform_fn: called with the item, the stored structure and a
            matching tree of ParamInfo; returns the structure and the ParamInfo
            tree of the result.
        use_ocdbt: if no tree is recorded, do not derive one from directory
            names.
        use_zarr3: whether arrays are zarr 3; used if `_METADATA` does not say.
        options: how to read the item.

    Raises:
        FileNotFoundError: the structure or files are missing.
        ValueError: structures or transforms do not match, leaves cannot be read
            as requested, or files are damaged.
        KeyError: `restore_args` or the checkpoint lacks a leaf of `item`.
    """
    options = options or RestoreOptions()
    stored = open_stored_tree(
        directory,
        item,
        use_ocdbt=use_ocdbt,
        use_zarr3=use_zarr3,
        metadata_options=options.metadata_options,
        aggregate_filename=options.aggregate_filename,
    )
    infos, args = _parameters(
        _Request(
            as_path(directory), item, transforms, transforms_default_to_original
        ),
        stored,
        restore_args,
        options,
    )
    structure = stored.tree
    if legacy_transform_fn is not None:
        if transforms is not None:
            raise ValueError(
                "Cannot provide both `transforms` and `legacy_transform_fn`."
            )
        structure, infos = legacy_transform_fn(item, structure, infos)
        if restore_args is None:
            restore_args = _default_args(item)
        args = restore_args
    restored = _read(stored, structure, infos, args, options)
    if legacy_transform_fn is not None:
        return restored
    if transforms is not None:
        return transform_restored(
            item,
            restored,
            restore_args,
            transforms,
            transforms_default_to_original,
        )
    return restored if item is None else deserialize_tree(restored, item)


@dataclasses.dataclass(frozen=True)
class _Request:
    directory: Any
    item: Any
    transforms: Any
    default_to_original: bool


def _default_args(tree: Any) -> Any:
    return _structure.map_leaves(lambda _: RestoreArgs(), tree)


def _parameters(
    request: _Request,
    stored: StoredTree,
    restore_args: Any,
    options: RestoreOptions,
) -> tuple[Any, Any]:
    """Returns two trees, with each stored leaf's ParamInfo and RestoreArgs.

    Raises:
        ValueError: there are transforms without an item, or they do not match.
        KeyError: `restore_args` lacks a leaf that is read.
    """
    structure = to_flat_dict(stored.tree, keep_empty_nodes=True)
    if restore_args is None:
        restore_args = _default_args(stored.tree)
    directory = request.directory

    def info(names: _structure.Names, skip: bool) -> ParamInfo:
        if skip:
            return ParamInfo(
                name="", parent_dir=directory, skip_deserialize=True
            )
        entry = structure[names]
        return ParamInfo(
            name=".".join(names),
            parent_dir=directory,
            # Values that are not entries have already been read.
            skip_deserialize=getattr(entry, "skip_deserialize", True),
            is_ocdbt_checkpoint=stored.where.use_ocdbt,
            byte_limiter=options.byte_limiter,
            use_zarr3=stored.use_zarr3,
            raise_array_data_missing_error=False,
        )

    if request.transforms is None:
        infos = {names: info(names, skip=False) for names in structure}
        args = restore_args
        if not options.metadata_options.support_rich_types:
            args = serialize_tree(restore_args, keep_empty_nodes=True)
    elif request.item is None:
        raise ValueError(NO_ITEM)
    else:
        needed = plan_transforms(
            structure,
            request.item,
            request.transforms,
            to_flat_dict(restore_args, keep_empty_nodes=True),
            request.default_to_original,
        )
        infos = {names: info(names, names not in needed) for names in structure}
        flat_args = {
            names: needed[names] if names in needed else RestoreArgs()
            for names in structure
        }
        args = from_flat_dict(flat_args, target=stored.tree)
    return from_flat_dict(infos, target=stored.tree), args


def _with_default_type(entry: Any, args: Any) -> Any:
    if not isinstance(entry, ValueMetadataEntry) or entry.skip_deserialize:
        return entry
    if entry.value_type != RESTORE_TYPE_UNKNOWN:
        return entry
    return dataclasses.replace(entry, value_type=default_restore_type(args))


def _read(
    stored: StoredTree,
    structure: Any,
    infos: Any,
    restore_args: Any,
    options: RestoreOptions,
) -> Any:
    """Returns the structure with values; skipped leaves do not change.

    Raises:
        ValueError: the trees do not match, or a leaf cannot be read.
    """
    flat = _structure.flatten(structure)
    args = _structure.match_up_to(structure, restore_args, any_empties=False)
    # A leaf without a recorded type gets the type that the caller wants.
    leaves = [
        _with_default_type(entry, leaf_args)
        for entry, leaf_args in zip(flat.leaves, args, strict=True)
    ]
    structure = flat.rebuild(leaves)
    result = {
        names: _known_value(value, leaf_args)
        for names, value, leaf_args in zip(
            flat.paths, leaves, args, strict=True
        )
    }
    flat = _structure.flatten(infos)
    entries = _structure.match_up_to(infos, structure, any_empties=False)
    args = _structure.match_up_to(infos, restore_args, any_empties=False)
    kinds = HandlerKinds(options.registry)
    plans: dict[_structure.Names, LeafPlan] = {}
    infos_of_plans = []
    for names, info, entry, leaf_args in zip(
        flat.paths, flat.leaves, entries, args, strict=True
    ):
        if info.skip_deserialize or not _is_to_be_read(entry, leaf_args):
            continue
        infos_of_plans.append(info)
        plans[names] = plan_leaf(
            info.name,
            stored.find(info.name),
            dataclasses.replace(entry, skip_deserialize=False),
            leaf_args,
            lambda names=names: _structure.describe_keypath(infos, names),
            kinds,
            options.metadata_options,
        )
    where = dataclasses.replace(stored.where, byte_limiter=options.byte_limiter)
    values = read_plans(
        list(plans.values()), infos_of_plans.__getitem__, where
    )
    result.update(zip(plans, values, strict=True))
    return from_flat_dict(result, target=structure)


def _is_to_be_read(entry: Any, args: Any) -> bool:
    """Returns whether a handler should read the leaf; if not, its entry stays.

    Raises:
        AssertionError: the leaf has no entry, or its arguments have a wrong
            type.
    """
    if not isinstance(args, RestoreArgs):
        if is_empty_node(args):
            return False
        raise AssertionError(
            f"Expected `RestoreArgs` or `SaveArgs`. Got {type(args)}."
        )
    if not isinstance(entry, ValueMetadataEntry):
        raise AssertionError(type(entry))
    return not is_empty_typestr(args.restore_type or entry.value_type)


def _known_value(value: Any, args: Any) -> Any:
    """Casts and places a value from the msgpack file as requested."""
    if isinstance(value, ValueMetadataEntry) or is_supported_empty_value(value):
        return value
    if args.dtype is not None:
        if isinstance(value, int | float | np.number):
            value = np.asarray(value).astype(args.dtype).item()
        elif hasattr(value, "astype"):
            value = value.astype(args.dtype)
    if not hasattr(value, "reshape") or not isinstance(args, ArrayRestoreArgs):
        return value
    return _place_value(value, args)


def _place_value(value: Any, args: ArrayRestoreArgs) -> Any:
    jax = require_jax("ArrayRestoreArgs")
    if args.global_shape is not None:
        value = value.reshape(args.global_shape)
    sharding = args.sharding or jax.sharding.NamedSharding(
        args.mesh, args.mesh_axes
    )
    return jax.make_array_from_callback(
        value.shape, sharding, lambda index: value[index]
    )
