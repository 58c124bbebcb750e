"""Pytree helpers: `orbax.checkpoint.tree`; plain trees do not need jax."""

from holdfast.orbax.tree_paths import (
    JsonType,
    PyTree,
    PyTreeKey,
    PyTreeOf,
    PyTreePath,
    deserialize_tree,
    from_flat_dict,
    get_param_names,
    is_flat_dict,
    serialize_tree,
    str_keypath,
    to_flat_dict,
    to_shape_dtype_struct,
)
from holdfast.orbax.tree_structure import (
    merge_trees,
    tree_difference,
    tree_trim,
)

__all__ = [
    "JsonType",
    "PyTree",
    "PyTreeKey",
    "PyTreeOf",
    "PyTreePath",
    "deserialize_tree",
    "from_flat_dict",
    "get_param_names",
    "is_flat_dict",
    "merge_trees",
    "serialize_tree",
    "str_keypath",
    "to_flat_dict",
    "to_shape_dtype_struct",
    "tree_difference",
    "tree_trim",
]
