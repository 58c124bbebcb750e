"""Key paths, flat dicts and names of pytrees.

Plain trees (dict, list, tuple, namedtuple, None) do not need jax here. A tree
can hold jax.Arrays, or nodes registered with jax, only after the program has
imported jax; from then on jax's own tree functions are used.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from holdfast._lazy import importing
from holdfast._pytree import unsorted_keys
from holdfast.orbax._devices.optional_jax import (
    imported_jax,
    is_jax_array,
    is_shape_dtype_struct,
    sharding_or_format,
)

T = TypeVar("T")
PyTree: TypeAlias = Any
PyTreeOf: TypeAlias = Any | T
PyTreeKey: TypeAlias = Any
PyTreePath: TypeAlias = tuple[PyTreeKey, ...]
JsonValue: TypeAlias = "str | int | float | bool | None | JsonType"
JsonType: TypeAlias = "list[JsonValue] | dict[str, JsonValue]"
IsLeaf: TypeAlias = Callable[[Any], bool] | None


# Key entries of trees flattened without jax. They have the class names of jax's
# key entries and are distinguished by those names, so both kinds may be mixed.
@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The index of a list's or tuple's child."""

    idx: int


@dataclasses.dataclass(frozen=True)
class DictKey:
    """The key of a dict's child."""

    key: Any


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The field of a namedtuple's child."""

    name: str


def isinstance_of_namedtuple(value: Any) -> bool:
    """Returns whether the value is an instance of a namedtuple."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def issubclass_of_namedtuple(kind: Any) -> bool:
    """Returns whether the type is a namedtuple class."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _plain_children(node: Any) -> list[tuple[Any, Any]] | None:
    """Returns a plain node's (key entry, child) pairs in jax's order.

    Returns None for a leaf.
    """
    if node is None:
        return []
    if isinstance_of_namedtuple(node):
        names = zip(node._fields, node, strict=True)
        return [(GetAttrKey(name), child) for name, child in names]
    if type(node) in (list, tuple):
        return [(SequenceKey(i), child) for i, child in enumerate(node)]
    if type(node) is OrderedDict:
        return [(DictKey(key), child) for key, child in node.items()]
    if type(node) in (dict, defaultdict):
        try:
            keys = sorted(node)
        except TypeError as error:
            raise ValueError(unsorted_keys(list(node))) from error
        return [(DictKey(key), node[key]) for key in keys]
    return None


# Types that are never containers. It would be slow to ask jax about each leaf.
LEAF_TYPES: set[type] = {
    int,
    float,
    bool,
    complex,
    str,
    bytes,
    np.ndarray,
    type(...),
}


def add_leaf_type(kind: type) -> None:
    """Declares that instances of exactly this type are never containers."""
    LEAF_TYPES.add(kind)


def children_with_keys(node: Any) -> list[tuple[PyTreeKey, Any]] | None:
    """Returns a node's (key entry, child) pairs in the order of a flatten.

    Returns None for a leaf.
    """
    if type(node) in LEAF_TYPES:
        return None
    jax = imported_jax()
    if jax is None:
        return _plain_children(node)
    if is_jax_array(node) or is_shape_dtype_struct(node):
        LEAF_TYPES.add(type(node))
        return None
    pairs, _ = jax.tree_util.tree_flatten_with_path(
        node, is_leaf=lambda other: other is not node
    )
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    return [(path[0], child) for path, child in pairs]


def _walk(
    node: Any, path: PyTreePath, is_leaf: IsLeaf
) -> Iterator[tuple[PyTreePath, Any]]:
    children = None if is_leaf and is_leaf(node) else _plain_children(node)
    if children is None:
        yield path, node
        return
    for key, child in children:
        if is_leaf is None and type(child) in LEAF_TYPES:
            yield (*path, key), child
        else:
            yield from _walk(child, (*path, key), is_leaf)


def flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> list[tuple[PyTreePath, Any]]:
    """Returns (key path, leaf) pairs in jax's order, without empty nodes."""
    jax = imported_jax()
    if jax is None:
        return list(_walk(tree, (), is_leaf))
    flat, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    return list(flat)


def tree_leaves(tree: PyTree) -> list[Any]:
    """Returns only the leaves, in the order of `flatten_with_path`."""
    jax = imported_jax()
    if jax is None:
        return [leaf for _, leaf in _walk(tree, (), None)]
    return list(jax.tree_util.tree_leaves(tree))


def _rebuild(node: Any, leaves: Iterator[Any], is_leaf: IsLeaf) -> Any:
    children = None if is_leaf and is_leaf(node) else _plain_children(node)
    if children is None:
        return next(leaves)
    values = [_rebuild(child, leaves, is_leaf) for _, child in children]
    if node is None:
        return None
    if isinstance(node, dict):
        rebuilt = node.copy()
        rebuilt.clear()
        for (key, _), value in zip(children, values, strict=True):
            rebuilt[key.key] = value
        return rebuilt
    if isinstance_of_namedtuple(node):
        return type(node)(*values)
    return type(node)(values)


def unflatten_like(
    target: PyTree, leaves: list[Any], is_leaf: IsLeaf = None
) -> PyTree:
    """Returns `target` with new leaves, given in the order of a flatten."""
    jax = imported_jax()
    if jax is None:
        return _rebuild(target, iter(leaves), is_leaf)
    return jax.tree.unflatten(jax.tree.structure(target, is_leaf), leaves)


def is_leaf_node(value: Any) -> bool:
    """Returns whether a value is neither a plain nor a registered container."""
    return children_with_keys(value) is None


def is_leaf_node_or_none(value: Any) -> bool:
    """Returns whether the value is a leaf or None."""
    return value is None or is_leaf_node(value)


def is_empty_node(x: Any) -> bool:
    """Returns whether the value is a container without children, or None."""
    return children_with_keys(x) == []


def is_empty_or_leaf(x: Any) -> bool:
    """Returns whether the value is a leaf or a container without children."""
    return not children_with_keys(x)


def is_dict_key(key: Any) -> bool:
    """Returns whether a key entry is a dict's key or an attribute's name."""
    return type(key).__name__ in ("DictKey", "GetAttrKey")


def is_sequence_key(key: Any) -> bool:
    """Returns whether a key entry is an index.

    Lists, tuples and some registered nodes have indices.
    """
    return type(key).__name__ in ("SequenceKey", "FlattenedIndexKey")


_FIELDS = {
    "SequenceKey": "idx",
    "DictKey": "key",
    "GetAttrKey": "name",
    "FlattenedIndexKey": "key",
}


class _RawKeyOf(dict[type, Callable[[Any], Any]]):
    """Maps each key entry class to a function that returns its raw key."""

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        field = _FIELDS.get(kind.__name__)
        self[kind] = _refuse_key if field is None else attrgetter(field)
        return self[kind]


_RAW_KEY_OF = _RawKeyOf()


def _refuse_key(key: Any) -> NoReturn:
    raise ValueError(f'Unsupported KeyEntry: {type(key)}: "{key}"')


def _raw_key(key: Any) -> Any:
    """Returns the value that a key entry holds.

    Raises:
        ValueError: `key` is not one of jax's key entry types.
    """
    return _RAW_KEY_OF[type(key)](key)


def get_key_name(key: Any) -> int | str:
    """Returns a key entry's index, or its key as a string.

    Raises:
        ValueError: `key` is not one of jax's key entry types.
    """
    raw: int | str = _raw_key(key)
    return str(raw) if type(key).__name__ == "DictKey" else raw


def str_keypath(keypath: PyTreePath) -> tuple[str, ...]:
    """Returns the keys of a key path as strings."""
    # `get_key_name` is not needed: str() of its result is the same.
    return tuple([str(_RAW_KEY_OF[type(key)](key)) for key in keypath])


tuple_path_from_keypath = str_keypath


def param_name_from_keypath(keypath: PyTreePath) -> str:
    """Returns the name of a stored leaf: its keys joined by dots."""
    return ".".join(str_keypath(keypath))


def get_param_names(
    item: PyTree, *, include_empty_nodes: bool = True
) -> PyTree:
    """Returns `item` with each leaf replaced by the stored leaf's name."""
    is_leaf = is_empty_or_leaf if include_empty_nodes else None
    flat = flatten_with_path(item, is_leaf)
    names = [param_name_from_keypath(path) for path, _ in flat]
    return unflatten_like(item, names, is_leaf)


def _empty_container(key: Any) -> dict[Any, Any] | list[Any]:
    if is_dict_key(key):
        return {}
    if is_sequence_key(key):
        return []
    raise ValueError(f"Unsupported KeyEntry: {key}.")


def _descend(node: Any, key: Any, new: Any) -> Any:
    """Returns the child at `key` of a dict or list; adds `new` if absent."""
    name = get_key_name(key)
    if isinstance(node, dict):
        return node.setdefault(name, new)
    if name == len(node):
        node.append(new)
    return node[name]


def from_flattened_with_keypath(
    flat_with_keys: list[tuple[PyTreePath, Any]],
) -> PyTree:
    """Builds dicts and lists from (key path, leaf) pairs.

    Raises:
        ValueError: the list is empty, or a key is of an unknown type.
    """
    if not flat_with_keys:
        raise ValueError(
            "Unable to uniquely reconstruct tree from empty flattened list "
            "(it could be {} or [])."
        )
    if not flat_with_keys[0][0]:
        return flat_with_keys[0][1]
    result = _empty_container(flat_with_keys[0][0][0])
    for keypath, value in flat_with_keys:
        node: Any = result
        for i, key in enumerate(keypath[:-1]):
            node = _descend(node, key, _empty_container(keypath[i + 1]))
        _descend(node, keypath[-1], value)
    return result


def serialize_tree(tree: PyTree, keep_empty_nodes: bool = False) -> PyTree:
    """Converts `tree` to dicts and lists with string keys.

    Args:
        tree: any pytree.
        keep_empty_nodes: keeps containers without children as leaves.
    """
    is_leaf = is_empty_or_leaf if keep_empty_nodes else None
    return from_flattened_with_keypath(flatten_with_path(tree, is_leaf))


def _look_up(node: Any, key: Any) -> Any:
    """Returns the child at `key` of a serialized tree or a registered node.

    Raises:
        KeyError: the node has no such child.
    """
    name = get_key_name(key)
    if type(node) in (dict, list, tuple):
        if isinstance(node, dict) and name not in node:
            name = str(name)
        return node[name]
    try:
        return _child_at(node, key)
    except (AttributeError, IndexError) as error:
        raise KeyError(f"Key {key!r} not found in {node!r}") from error


def _child_at(node: Any, key: Any) -> Any:
    """Returns the child at `key` of a node that is not a plain container."""
    if type(key).__name__ == "FlattenedIndexKey":
        return (children_with_keys(node) or [])[_raw_key(key)][1]
    if type(key).__name__ == "GetAttrKey":
        return getattr(node, _raw_key(key))
    return node[_raw_key(key)]


def deserialize_tree(
    serialized: PyTree, target: PyTree, keep_empty_nodes: bool = False
) -> PyTree:
    """Gives the values of a serialized tree the structure of `target`.

    Args:
        serialized: the result of `serialize_tree`.
        target: a tree whose leaves are ignored.
        keep_empty_nodes: takes the values at empty containers of `target` from
            `serialized`.

    Raises:
        KeyError: `target` has a path that `serialized` lacks.
    """
    is_leaf = is_empty_or_leaf if keep_empty_nodes else None
    values = []
    for keypath, _ in flatten_with_path(target, is_leaf):
        node = serialized
        for key in keypath:
            node = _look_up(node, key)
        values.append(node)
    return unflatten_like(target, values, is_leaf)


def is_flat_dict(tree: PyTree) -> bool:
    """Returns whether the value is a dict whose values are all leaves."""
    return isinstance(tree, dict) and all(map(is_leaf_node, tree.values()))


def to_flat_dict(
    tree: PyTree,
    sep: str | None = None,
    keep_empty_nodes: bool = False,
    is_leaf: IsLeaf = None,
) -> PyTree:
    """Returns a dict that maps each leaf's path to the leaf.

    Args:
        tree: any pytree.
        sep: joins each path into one string; None keeps tuples of strings.
        keep_empty_nodes: containers without children count as leaves.
        is_leaf: which nodes count as leaves; overrides `keep_empty_nodes`.
    """
    if is_leaf is None and keep_empty_nodes:
        is_leaf = is_empty_or_leaf
    flat = {str_keypath(k): v for k, v in flatten_with_path(tree, is_leaf)}
    return flat if sep is None else {sep.join(k): v for k, v in flat.items()}


def _nest(flat_dict: dict[Any, Any], sep: str | None, inplace: bool) -> PyTree:
    if sep is None and () in flat_dict:
        if len(flat_dict) != 1:
            raise ValueError(
                f"Empty keypath () must be the only key; got {list(flat_dict)}."
            )
        return flat_dict.pop(()) if inplace else flat_dict[()]
    result: dict[str, Any] = {}
    for key in list(flat_dict):
        value = flat_dict.pop(key) if inplace else flat_dict[key]
        *parents, last = key if sep is None else key.split(sep)
        node = result
        for name in parents:
            node = node.setdefault(name, {})
        assert last not in node
        node[last] = value
    return result


def from_flat_dict(
    flat_dict: PyTree,
    target: PyTree | None = None,
    sep: str | None = None,
    *,
    inplace: bool = False,
) -> PyTree:
    """Reverses `to_flat_dict`.

    Args:
        flat_dict: maps each path to its leaf.
        target: determines the structure; None means nested dicts.
        sep: the separator in joined paths; None for tuples.
        inplace: removes entries from `flat_dict` as they are used, which saves
            memory.

    Raises:
        ValueError: `inplace` is set and `flat_dict` is not a dict, or the path
            () is not the only path.
        KeyError: `target` has a path that `flat_dict` lacks.
    """
    if inplace and not isinstance(flat_dict, dict):
        raise ValueError("Inplace operations require flat_dict to be a dict.")
    if target is None:
        return _nest(flat_dict, sep, inplace)
    take = flat_dict.pop if inplace else flat_dict.__getitem__
    return unflatten_like(target, [take(k) for k in to_flat_dict(target, sep)])


def to_shape_dtype_struct(
    arr: Any,
    dtype: Any | None = None,
    scalar_dtype: Any | None = None,
    support_format: bool = False,
) -> Any:
    """Returns an array's abstract form, a `jax.ShapeDtypeStruct`; needs jax.

    Args:
        arr: an array, an abstract array, or metadata with `shape` or
            `global_shape`, `dtype` and `sharding`; or a scalar, which is
            returned unchanged or converted.
        dtype: replaces the array's dtype.
        scalar_dtype: `int` or `float`, to which a scalar is converted.
        support_format: keeps an array's layout with its sharding.

    Raises:
        ValueError: `arr` has no shape.
    """
    with importing:
        import jax

    if isinstance(arr, jax.Array) and jax.dtypes.issubdtype(
        arr.dtype, jax.dtypes.prng_key
    ):
        arr = jax.random.key_data(arr)
    if isinstance(arr, int | float | np.number):
        return arr if scalar_dtype is None else scalar_dtype(arr)
    shape = getattr(arr, "shape", getattr(arr, "global_shape", None))
    if shape is None:
        raise ValueError(f"Object does not have a `shape` property: {arr}")
    sharding: Any = sharding_or_format(arr, support_format)
    if hasattr(sharding, "to_jax_sharding"):
        sharding = sharding.to_jax_sharding()
    return jax.ShapeDtypeStruct(shape, dtype or arr.dtype, sharding=sharding)
