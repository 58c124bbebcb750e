"""The tree of an item that may be older than `_METADATA`.

The tree comes from `_METADATA`, the msgpack file, the names of the directories,
or the caller; the first source that exists is used.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast import _files, errors
from holdfast._dtypes import numpy_dtype
from holdfast.orbax._compat.errors import reading, reading_error
from holdfast.orbax._leaves.reader import ArraysAt
from holdfast.orbax._restore.source import (
    AGGREGATE_FILE,
    Source,
    StoredLeaf,
    has_structure,
    is_zarr3_metadata,
    names_of_directories,
    open_arrays,
    open_item,
)
from holdfast.orbax._trees import structure
from holdfast.orbax._trees.empty_values import (
    RESTORE_TYPE_UNKNOWN,
    get_empty_value_from_typestr,
)
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    PyTreeMetadataOptions,
)

_EMPTY_TYPE_OF_KIND = {
    "none": "None",
    "empty_dict": "Dict",
    "empty_list": "List",
    "empty_tuple": "Tuple",
}

# Dtypes that only numpy numbers have. Python numbers are int64, float64 and so
# on.
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


@dataclasses.dataclass(frozen=True)
class StoredTree:
    """An opened item.

    Attributes:
        tree: has a `ValueMetadataEntry` at each leaf that is stored separately,
            and the values of other leaves and empty containers.
        find: returns the stored leaf with a parameter's name, or None.
        where: where to look for arrays.
        use_zarr3: whether arrays are zarr 3.
    """

    tree: Any
    find: Callable[[str], StoredLeaf | None]
    where: ArraysAt
    use_zarr3: bool


def open_stored_tree(
    directory: Any,
    item: Any,
    *,
    use_ocdbt: bool,
    use_zarr3: bool,
    metadata_options: PyTreeMetadataOptions = PYTREE_METADATA_OPTIONS,
    aggregate_filename: str = AGGREGATE_FILE,
) -> StoredTree:
    """Opens an item.

    Args:
        directory: the item's directory, as any path-like object.
        item: the tree to use if no tree is recorded, or None.
        use_ocdbt: do not derive a tree from directory names.
        use_zarr3: whether arrays are zarr 3; used if `_METADATA` does not say.
        metadata_options: whether recorded tuples are restored as tuples.
        aggregate_filename: name of the msgpack file.

    Raises:
        FileNotFoundError: there is no tree.
        ValueError: a file cannot be read or parsed.
    """
    path = os.fspath(directory)
    if has_structure(path, aggregate_filename):
        return _open_recorded(
            directory,
            use_ocdbt,
            use_zarr3,
            metadata_options,
            aggregate_filename,
        )
    if not use_ocdbt:
        item = names_of_directories(path)
    elif item is None:
        raise FileNotFoundError(
            f"No structure could be identified for the checkpoint at"
            f" {directory}."
        )
    flat = structure.flatten(item)
    names = [".".join(path) for path in flat.paths]
    arrays = open_arrays(directory, names, use_zarr3)
    return StoredTree(
        tree=flat.rebuild(
            [ValueMetadataEntry(RESTORE_TYPE_UNKNOWN)] * len(names)
        ),
        find=arrays.by_name.get,
        where=ArraysAt(arrays.path, arrays.use_ocdbt, arrays.metadata_key),
        use_zarr3=use_zarr3,
    )


def _open_recorded(
    directory: Any,
    use_ocdbt: bool,
    use_zarr3: bool,
    metadata_options: PyTreeMetadataOptions,
    aggregate_filename: str,
) -> StoredTree:
    source = open_item(
        directory,
        missing_chunks="fill",
        aggregate_filename=aggregate_filename,
    )
    if source.use_zarr3 is not None:
        use_zarr3 = source.use_zarr3
    # If a msgpack file exists, or directories replace it, empty containers are
    # values; otherwise they are entries like other leaves.
    aggregate = os.path.join(source.path, aggregate_filename)
    has_values = not use_ocdbt or _files.exists(aggregate)
    keep_entries = source.has_tree_metadata and not has_values
    by_name = {
        leaf.name: leaf
        for leaf in source.leaves
        if source.has_tree_metadata or not _is_other_zarr(leaf, use_zarr3)
    }
    metadata_key = "zarr.json" if use_zarr3 else ".zarray"
    return StoredTree(
        tree=_recorded_tree(source, keep_entries, metadata_options),
        find=by_name.get,
        where=ArraysAt(source.path, source.use_ocdbt, metadata_key),
        use_zarr3=use_zarr3,
    )


def _recorded_tree(
    source: Source,
    keep_entries: bool,
    metadata_options: PyTreeMetadataOptions,
) -> Any:
    """Returns the tree of entries; known values replace their entries unless
    `keep_entries`."""
    leaves = [
        _entry_or_value(leaf, keep_entries, metadata_options)
        for leaf in source.leaves
    ]
    return source.tree_of(leaves, metadata_options)


def _entry_or_value(
    leaf: StoredLeaf,
    keep_entries: bool,
    metadata_options: PyTreeMetadataOptions,
) -> Any:
    kind = leaf.info.kind
    if not keep_entries:
        if leaf.is_empty():
            return get_empty_value_from_typestr(
                leaf.value_type, metadata_options
            )
        if kind in _EMPTY_TYPE_OF_KIND:
            return get_empty_value_from_typestr(_EMPTY_TYPE_OF_KIND[kind])
        if leaf.has_value_in_aggregate() and not _lacks_value(leaf):
            return _aggregated_value(leaf)
    write_shape = leaf.info.write_shape
    return ValueMetadataEntry(
        leaf.value_type or RESTORE_TYPE_UNKNOWN,
        leaf.skip_deserialize,
        None if write_shape is None else tuple(write_shape),
    )


def _is_other_zarr(leaf: StoredLeaf, use_zarr3: bool) -> bool:
    """Returns whether the leaf is an array of the other zarr format."""
    is_zarr3 = is_zarr3_metadata(leaf.info.array_metadata)
    return is_zarr3 is not None and is_zarr3 != use_zarr3


def _lacks_value(leaf: StoredLeaf) -> bool:
    return isinstance(leaf.info.problem, errors.NotFoundError)


def _aggregated_value(leaf: StoredLeaf) -> Any:
    """Returns a value from the msgpack file.

    Raises:
        ValueError: the file is damaged.
    """
    problem = leaf.info.problem
    if problem is not None:
        raise reading_error(problem) from problem
    with reading():
        value = leaf.checkpoint.read(leaf.index)
    dtype = leaf.info.dtype
    if leaf.info.kind != "scalar" or isinstance(value, np.ndarray):
        return value
    if dtype in _NUMPY_ONLY:
        return numpy_dtype(dtype, leaf.name).type(value)
    return value
