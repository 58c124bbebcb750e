"""One level of a pytree: the children of a container and how to rebuild it.

Handles dicts, lists, tuples and named tuples directly; then types registered
with JAX, if JAX is imported; then dataclasses, attrs classes and other mappings
and sequences. jax is never imported here.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast import errors

__all__ = ["Level", "joined", "jax_if_imported", "one_level"]

@dataclasses.dataclass(frozen=True)
class Level:
    """A container's children in the order in which JAX flattens them.

    `kind` is "dict", "attributes" or "sequence". A dict has its own keys, one
    per child, and "attributes" has the attributes' names. `names` are the
    children's names in a checkpoint. `rebuild` makes the same container from
    other children in the same order.
    """

    kind: str
    keys: list[Any]
    children: list[Any]
    rebuild: Callable[[Sequence[Any]], Any]

    @property
    def names(self) -> list[str]:
        if self.kind == "sequence":
            return [str(i) for i in range(len(self.children))]
        return [str(key) for key in self.keys]


def unsorted_keys(keys: Sequence[Any]) -> str:
    """Returns the error message for a dict whose keys cannot be sorted: JAX's
    words, with the keys."""
    other = next((key for key in keys if type(key) is not type(keys[0])), None)
    first = f"{keys[0]!r} ({type(keys[0]).__name__})"
    what = (
        f"{first} does not compare with others of its kind"
        if other is None
        else f"{first} and {other!r} ({type(other).__name__}) do not compare"
    )
    return (
        "Comparator raised exception while sorting pytree dictionary keys."
        f" {what}: give all keys of the dict one type, as str"
    )


def joined(path: Sequence[Any]) -> str:
    """Returns the name that a leaf has in a checkpoint."""
    return ".".join(str(key) for key in path)


def jax_if_imported() -> Any | None:
    """Returns the module jax if the program has imported it completely, or
    None."""
    jax = sys.modules.get("jax")
    return jax if hasattr(jax, "tree_util") else None


def one_level(value: Any) -> Level | None:
    """Returns a container's level, or None for a leaf, including the leaf None.

    Raises InvalidArgumentError for keys that cannot be sorted or that collide.
    """
    if value is None:
        return None
    cls = type(value)
    if cls is dict:
        return _of_dict(value, sort=True)
    if cls is list or cls is tuple:
        return Level("sequence", [], list(value), cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return Level(
            "attributes", list(cls._fields), list(value), lambda c: cls(*c)
        )
    if cls is collections.OrderedDict:
        return _of_dict(value, sort=False)
    if cls is collections.defaultdict:
        return _of_dict(value, sort=True)
    return _of_registered(value) or _of_unregistered(value)


def _of_dict(value: Mapping[Any, Any], *, sort: bool) -> Level:
    keys = list(value)
    if sort:
        try:
            keys.sort()
        except Exception as error:
            raise errors.InvalidArgumentError(unsorted_keys(keys)) from error
    _check_distinct(keys)

    def rebuild(children: Sequence[Any]) -> Any:
        by_key = dict(zip(keys, children, strict=True))
        items = [(key, by_key[key]) for key in value]
        if isinstance(value, collections.defaultdict):
            return collections.defaultdict(value.default_factory, items)
        if isinstance(value, collections.Counter):
            return type(value)(dict(items))  # Counter(items) counts the pairs
        return type(value)(items)  # type: ignore[call-arg]

    return Level("dict", keys, [value[key] for key in keys], rebuild)


def _check_distinct(keys: list[Any]) -> None:
    names = [str(key) for key in keys]
    if len(set(names)) == len(names):
        return
    seen: dict[str, Any] = {}
    for key, name in zip(keys, names, strict=True):
        if name in seen:
            raise errors.InvalidArgumentError(
                f"the keys {seen[name]!r} and {key!r} are one name, {name!r},"
                " in a checkpoint"
            )
        seen[name] = key


def _of_registered(value: Any) -> Level | None:
    """Returns the level of a node that is registered with jax."""
    jax = jax_if_imported()
    if jax is None:
        return None
    flat, treedef = jax.tree_util.tree_flatten_with_path(
        value, is_leaf=lambda node: node is not value
    )
    if len(flat) == 1 and not flat[0][0]:
        return None  # a leaf to jax
    keys = [_key_of(path[0]) for path, _ in flat]
    children = [child for _, child in flat]
    if keys and all(key is None for key in keys):
        return Level("sequence", [], children, treedef.unflatten)
    keys = [str(i) if key is None else key for i, key in enumerate(keys)]
    _check_distinct(keys)
    kind = "dict" if isinstance(value, Mapping) else "attributes"
    return Level(kind, keys, children, treedef.unflatten)


def _key_of(key: Any) -> Any:
    """Returns a key's value; None for the positions SequenceKey and
    FlattenedIndexKey."""
    kind = type(key).__name__
    if kind == "DictKey":
        return key.key
    if kind == "GetAttrKey":
        return str(key.name)
    if kind in ("SequenceKey", "FlattenedIndexKey"):
        return None
    return str(key)


def _of_unregistered(value: Any) -> Level | None:
    cls = type(value)
    if dataclasses.is_dataclass(cls):
        return _of_fields(value, [f.name for f in dataclasses.fields(cls)])
    if hasattr(cls, "__attrs_attrs__"):
        return _of_fields(value, [f.name for f in cls.__attrs_attrs__])
    if isinstance(value, Mapping):
        return _of_dict(value, sort=True)
    if isinstance(value, (list, tuple)):
        return Level("sequence", [], list(value), cls)
    return None


def _of_fields(value: Any, names: list[str]) -> Level:
    def rebuild(children: Sequence[Any]) -> Any:
        # Copy, because __init__ may take arguments other than the fields.
        made = copy.copy(value)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    return Level(
        "attributes", names, [getattr(value, name) for name in names], rebuild
    )
