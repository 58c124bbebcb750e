"""Walks and matches trees fast, and describes their differences.

A tree is "serialized" if its containers are dicts with string keys, and lists.
Everything read from `_METADATA` has this form. Containers of other kinds occur
only if they are empty, and count as leaves.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NoReturn

from holdfast.orbax._devices.optional_jax import imported_jax
from holdfast.orbax._leaves.args import (
    ArrayRestoreArgs,
    RestoreArgs,
    SaveArgs,
)
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.tree_paths import (
    LEAF_TYPES,
    add_leaf_type,
    children_with_keys,
    flatten_with_path,
    get_key_name,
    is_sequence_key,
    str_keypath,
    tree_leaves,
    unflatten_like,
)
from holdfast.orbax.tree_structure import Diff, tree_difference, type_text

Names = tuple[str, ...]

for _kind in (ValueMetadataEntry, RestoreArgs, ArrayRestoreArgs, SaveArgs):
    add_leaf_type(_kind)


def serialize(tree: Any) -> Any:
    """Converts a tree to dicts and lists; keeps leaves and empty containers."""
    kind = type(tree)
    if kind in LEAF_TYPES:
        return tree
    if kind is dict and tree:
        try:
            keys = sorted(tree)
        except TypeError:
            children_with_keys(tree)  # raises jax's error
            raise
        return {str(key): serialize(tree[key]) for key in keys}
    if (kind is list or kind is tuple) and tree:
        return [serialize(child) for child in tree]
    pairs = children_with_keys(tree)
    if not pairs:
        return tree
    if is_sequence_key(pairs[0][0]):
        return [serialize(child) for _, child in pairs]
    return {str(get_key_name(key)): serialize(child) for key, child in pairs}


@dataclasses.dataclass(frozen=True)
class FlatTree:
    """A flattened tree.

    Attributes:
        tree: the original tree.
        leaves: the leaves in JAX's order; empty containers are not leaves.
    """

    tree: Any
    leaves: list[Any]

    @functools.cached_property
    def paths(self) -> list[Names]:
        """The keys that lead to each leaf, as strings."""
        return [str_keypath(path) for path, _ in flatten_with_path(self.tree)]

    def rebuild(self, leaves: list[Any]) -> Any:
        """Returns the tree with different leaves."""
        return unflatten_like(self.tree, leaves)


def flatten(tree: Any) -> FlatTree:
    """Flattens a tree.

    Raises:
        ValueError: the keys of a dict cannot be sorted.
    """
    return FlatTree(tree, tree_leaves(tree))


class FlatDict(dict[Names, Any]):
    """The leaves of a serialized tree, by path."""


def flat_dict(serialized: Any) -> FlatDict:
    """Returns a serialized tree's leaves by path, without empty containers."""
    flat = FlatDict()

    def walk(path: Names, node: Any) -> None:
        if type(node) is dict:
            for key, child in node.items():
                walk((*path, key), child)
        elif type(node) is list:
            for i, child in enumerate(node):
                walk((*path, str(i)), child)
        elif type(node) in LEAF_TYPES or children_with_keys(node) is None:
            flat[path] = node

    if isinstance(serialized, FlatDict):
        return serialized
    walk((), serialized)
    return flat


def difference(a: Any, b: Any) -> Any | None:
    """Returns how the structures of two serialized trees differ, or None."""
    if _is_alike(a, b):
        return None
    return tree_difference(
        a,
        b,
        is_leaf=lambda node: type(node) not in (dict, list) or not node,
        leaves_equal=lambda *_: True,
    )


def _is_alike(a: Any, b: Any) -> bool:
    """Returns whether `difference` would return None, but much faster."""
    if type(a) is dict and a:
        if type(b) is not dict or a.keys() != b.keys():
            return False
        return all(_is_alike(child, b[key]) for key, child in a.items())
    if type(a) is list and a:
        if type(b) is not list or len(a) != len(b):
            return False
        return all(map(_is_alike, a, b))
    return type(b) not in (dict, list) or not b


def _side_text(side: Any) -> str:
    if side is None or side is ...:
        return "MISSING"
    if isinstance(side, type):
        return type_text(side)
    return str(side)


def _diff_lines(diff: Any, path: str, labels: tuple[str, str]) -> list[str]:
    if isinstance(diff, Diff):
        texts = [_side_text(side) for side in diff]
        return [
            f"{path}:" if path else "Mismatch:",
            f"    - {labels[0]}: {texts[0]}",
            f"    - {labels[1]}: {texts[1]}",
        ]
    if isinstance(diff, list):
        pairs = [(f"{path}[{i}]", part) for i, part in enumerate(diff)]
    else:
        prefix = f"{path}." if path else ""
        pairs = [(f"{prefix}{key}", diff[key]) for key in sorted(diff)]
    parts = [
        "\n".join(_diff_lines(part, where, ("Source", "Target")))
        for where, part in pairs
        if part is not None
    ]
    return ["\n\n".join(parts)]


def format_difference(diff: Any) -> str:
    """Formats the result of `difference` as lines for users."""
    return "\n".join(_diff_lines(diff, "", ("Item", "Metadata")))


def match_up_to(tree: Any, other: Any, any_empties: bool = True) -> list[Any]:
    """Returns the part of `other` at each leaf of `tree`.

    Args:
        tree: a tree of n leaves.
        other: a tree with the same containers down to these leaves.
        any_empties: accept any value for an empty container of `tree`. If
            False, the value must be an empty container of the same kind.

    Returns:
        n subtrees, in flatten order.

    Raises:
        ValueError: a container of `tree` has no counterpart in `other`.
    """
    found: list[Any] = []
    if not _match(tree, other, found, any_empties):
        _raise_mismatch(tree, other, any_empties)
    return found


def is_alike_up_to(tree: Any, other: Any) -> bool:
    """Returns whether `match_up_to` would find all of `tree` in `other`."""
    return _match(tree, other, [], True)


def _match(tree: Any, other: Any, found: list[Any], any_empties: bool) -> bool:
    def match(x: Any, y: Any) -> bool:
        return _match(x, y, found, any_empties)

    kind = type(tree)
    if kind is dict and type(other) is dict and tree:
        if tree.keys() != other.keys():
            return False
        return all([match(tree[key], other[key]) for key in sorted(tree)])
    if (kind is list or kind is tuple) and type(other) is kind and tree:
        if len(tree) != len(other):
            return False
        return all([match(x, y) for x, y in zip(tree, other, strict=True)])
    pairs = children_with_keys(tree)
    if pairs is None:
        found.append(other)
        return True
    if not pairs and any_empties:
        return True
    other_pairs = children_with_keys(other)
    if other_pairs is None or type(other) is not kind:
        return False
    if [key for key, _ in pairs] != [key for key, _ in other_pairs]:
        return False
    both = zip(pairs, other_pairs, strict=True)
    return all([match(x, y) for (_, x), (_, y) in both])


def _raise_mismatch(tree: Any, other: Any, any_empties: bool) -> NoReturn:
    jax = imported_jax()
    if jax is not None:
        # Let jax raise its error, which describes the difference best.
        is_leaf = (lambda x: not children_with_keys(x)) if any_empties else None
        jax.tree.map(lambda *_: None, tree, other, is_leaf=is_leaf)
    raise ValueError(
        "Tree structures do not match: every container of the first tree must"
        " have a counterpart of the same kind and with the same keys in the"
        f" second (got {type(tree)} with {_brief(tree)} and {type(other)} with"
        f" {_brief(other)})"
    )


def _brief(node: Any) -> str:
    names = [
        str(get_key_name(key)) for key, _ in children_with_keys(node) or ()
    ]
    return f"keys {names[:10]}"


def map_leaves(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Returns `tree` with every leaf replaced by fn(leaf)."""
    flat = flatten(tree)
    return flat.rebuild([fn(leaf) for leaf in flat.leaves])


def describe_keypath(tree: Any, names: Names) -> str:
    """Returns jax's string for the key path of `names` in `tree`."""
    for path, _ in flatten_with_path(tree):
        if str_keypath(path) == names:
            return str(path)
    return str(names)
