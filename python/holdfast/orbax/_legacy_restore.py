"""Restores of older items: no `_METADATA`, or values in a msgpack file.

The tree comes from the msgpack file, from the caller, or from the names of the
directories, in this order. What the caller's item and the stored tree have not
in common is not an error here; only what the item asks for must exist.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from holdfast._dtypes import numpy_dtype
from holdfast.orbax import _structure
from holdfast.orbax._errors import reading, reading_error
from holdfast.orbax._jax import require_jax
from holdfast.orbax._leaf_plan import Kind, LeafPlan, empty_value, plan_leaf
from holdfast.orbax._leaf_reader import ArraysAt, read_leaves
from holdfast.orbax._source import (
    BareArrays,
    Source,
    StoredLeaf,
    has_structure,
    names_of_directories,
    open_item,
)
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.tree_paths import deserialize_tree
from holdfast.orbax.type_handlers import (
    PLACEHOLDER,
    ArrayRestoreArgs,
    RestoreArgs,
    is_supported_empty_value,
)


def restore_legacy(
    directory: Any,
    item: Any,
    restore_args: Any,
    *,
    use_ocdbt: bool,
    use_zarr3: bool,
) -> Any:
    """The tree of an older item; args and errors as `restore_pytree`'s."""
    path = os.fspath(directory)
    if has_structure(path):
        source = open_item(directory)
        return _restore_recorded(source, item, restore_args)
    if not use_ocdbt:
        structure = names_of_directories(path)
        restored = _restore_bare(directory, structure, restore_args, use_zarr3)
        return restored if item is None else deserialize_tree(restored, item)
    if item is None:
        raise FileNotFoundError(
            f"No structure could be identified for the checkpoint at"
            f" {directory}."
        )
    return _restore_bare(directory, item, restore_args, use_zarr3)


def _default_entry(args: RestoreArgs) -> ValueMetadataEntry:
    is_jax = isinstance(args, ArrayRestoreArgs)
    return ValueMetadataEntry("jax.Array" if is_jax else "np.ndarray")


def _restore_bare(
    directory: Any, structure: Any, restore_args: Any, use_zarr3: bool
) -> Any:
    """Reads an array for each leaf of `structure`, found by its name."""
    arrays = BareArrays(directory, use_zarr3)
    flat = _structure.flatten(structure)
    args = _args_by_names(flat, restore_args)
    plans = []
    for names, leaf_args in zip(flat.paths, args, strict=True):
        plans.append(
            plan_leaf(
                ".".join(names),
                arrays.find(names),
                _default_entry(leaf_args),
                leaf_args,
                lambda names=names: _structure.describe_keypath(
                    structure, names
                ),
            )
        )
    where = ArraysAt(arrays.path, arrays.use_ocdbt, arrays.metadata_key)
    return flat.rebuild(read_leaves(plans, where))


def _args_by_names(
    flat: _structure.FlatTree, restore_args: Any
) -> list[RestoreArgs]:
    """Restore arguments of each leaf, looked up by path.

    Raises:
        ValueError: a leaf has none.
    """
    if restore_args is None:
        return [RestoreArgs()] * len(flat.paths)
    given = _structure.flat_dict(_structure.serialize(restore_args))
    missing = [names for names in flat.paths if names not in given]
    if missing:
        raise ValueError(
            f"restore_args have no entry for {len(missing)} leaves, including:"
            f" {missing[:10]}"
        )
    return [given[names] for names in flat.paths]


def _restore_recorded(source: Source, item: Any, restore_args: Any) -> Any:
    """An item whose tree is recorded, some values in the msgpack file."""
    tree = _structure.nest(
        (leaf.names, leaf.info.key_is_sequence, _leaf_or_empty(leaf))
        for leaf in source.leaves
    )
    flat = _structure.flatten(tree)
    args = [RestoreArgs()] * len(flat.leaves)
    if restore_args is not None:
        args = _structure.match_up_to(
            tree, _structure.serialize(restore_args), any_empties=False
        )
    plans = [
        _plan_recorded(leaf, leaf_args)
        for leaf, leaf_args in zip(flat.leaves, args, strict=True)
    ]
    where = ArraysAt(
        source.path,
        source.use_ocdbt,
        "zarr.json" if source.use_zarr3 else ".zarray",
    )
    restored = flat.rebuild(read_leaves(plans, where))
    return restored if item is None else deserialize_tree(restored, item)


_structure.add_leaf_type(StoredLeaf)

_EMPTY_TYPE_OF_KIND = {
    "none": "None",
    "empty_dict": "Dict",
    "empty_list": "List",
    "empty_tuple": "Tuple",
}


def _leaf_or_empty(leaf: StoredLeaf) -> Any:
    kind = leaf.info.kind
    if kind in _EMPTY_TYPE_OF_KIND:
        return empty_value(_EMPTY_TYPE_OF_KIND[kind])
    return leaf


def _plan_recorded(leaf: StoredLeaf, args: RestoreArgs) -> LeafPlan:
    if leaf.info.kind == "placeholder":
        return LeafPlan(Kind.VALUE, leaf.name, leaf, args, PLACEHOLDER)
    if leaf.has_value_in_aggregate():
        value = _aggregated_value(leaf, args)
        return LeafPlan(Kind.VALUE, leaf.name, leaf, args, value)
    entry = (
        ValueMetadataEntry(leaf.value_type)
        if leaf.value_type
        else _default_entry(args)
    )
    return plan_leaf(leaf.name, leaf, entry, args, lambda: leaf.names)


# Dtypes of numbers that were numpy's; Python's are int64, float64 and so on.
_NUMPY_ONLY = frozenset(
    {
        "int8",
        "int16",
        "int32",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "complex64",
    }
)


def _as_saved(value: Any, leaf: StoredLeaf) -> Any:
    """A number with the numpy type that it had."""
    dtype = leaf.info.dtype
    if leaf.info.kind != "scalar" or isinstance(value, np.ndarray):
        return value
    if dtype in _NUMPY_ONLY:
        return numpy_dtype(dtype, leaf.name).type(value)
    return value


def _aggregated_value(leaf: StoredLeaf, args: RestoreArgs) -> Any:
    """A value of the msgpack file, cast and placed as asked.

    Raises:
        ValueError: the file is damaged, or lacks the value.
    """
    problem = leaf.info.problem
    if problem is not None:
        raise reading_error(problem) from problem
    with reading():
        value = _as_saved(leaf.checkpoint.read(leaf.index), leaf)
    if is_supported_empty_value(value) or isinstance(value, str | bytes):
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
