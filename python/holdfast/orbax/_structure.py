"""Trees: walking them fast, matching them, and saying how they differ.

A tree is "serialized" when its containers are dicts with text keys and lists:
the form of everything read from `_METADATA`. Only empty containers of other
kinds may be left in it, as leaves.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from holdfast.orbax._jax import (
    imported_jax,
    is_jax_array,
    is_shape_dtype_struct,
)
from holdfast.orbax._leaf_args import (
    ArrayRestoreArgs,
    RestoreArgs,
    SaveArgs,
)
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.tree_paths import (
    children_with_keys,
    flatten_with_path,
    get_key_name,
    is_sequence_key,
    isinstance_of_namedtuple,
    str_keypath,
    tree_leaves,
    unflatten_like,
)
from holdfast.orbax.tree_structure import Diff

Names = tuple[str, ...]

# Types that are never containers; asking jax takes longer than everything else.
_LEAF_TYPES: set[type] = {
    int,
    float,
    bool,
    complex,
    str,
    bytes,
    np.ndarray,
    type(...),
    ValueMetadataEntry,
    RestoreArgs,
    ArrayRestoreArgs,
    SaveArgs,
}


def add_leaf_type(kind: type) -> None:
    """Says that instances of exactly this type are never containers."""
    _LEAF_TYPES.add(kind)


def children(node: Any) -> Sequence[tuple[Any, Any]] | None:
    """(key entry, child) pairs; None for a leaf."""
    kind = type(node)
    if kind in _LEAF_TYPES:
        return None
    if is_jax_array(node) or is_shape_dtype_struct(node):
        _LEAF_TYPES.add(kind)
        return None
    return children_with_keys(node)


def serialize(tree: Any) -> Any:
    """The tree in dicts and lists; leaves and empty containers as they are."""
    kind = type(tree)
    if kind is dict and tree:
        try:
            keys = sorted(tree)
        except TypeError:
            children(tree)  # raises as jax does
            raise
        return {str(key): serialize(tree[key]) for key in keys}
    if (kind is list or kind is tuple) and tree:
        return [serialize(child) for child in tree]
    pairs = children(tree)
    if not pairs:
        return tree
    if is_sequence_key(pairs[0][0]):
        return [serialize(child) for _, child in pairs]
    return {str(get_key_name(key)): serialize(child) for key, child in pairs}


@dataclasses.dataclass(frozen=True)
class FlatTree:
    """A tree taken apart.

    Attributes:
        tree: the original.
        leaves: in JAX's order; empty containers are none.
    """

    tree: Any
    leaves: list[Any]

    @functools.cached_property
    def paths(self) -> list[Names]:
        """The keys that lead to each leaf, as text."""
        return [str_keypath(path) for path, _ in flatten_with_path(self.tree)]

    def rebuild(self, leaves: list[Any]) -> Any:
        """The tree with other leaves."""
        return unflatten_like(self.tree, leaves)


def flatten(tree: Any) -> FlatTree:
    """Takes a tree apart.

    Raises:
        ValueError: keys of a dict that do not compare.
    """
    return FlatTree(tree, tree_leaves(tree))


def nest(
    entries: Iterable[tuple[Names, Sequence[bool] | None, Any]],
) -> Any:
    """The serialized tree of (keys, whether each is an index, value).

    None instead of flags: no key is an index.

    Raises:
        ValueError: there are no entries, or keys of a node disagree.
    """
    keyed: list[tuple[tuple[Any, ...], Any]] = [
        (
            keys
            if seq is None
            else tuple(
                int(k) if s else k for k, s in zip(keys, seq, strict=True)
            ),
            value,
        )
        for keys, seq, value in entries
    ]
    if not keyed:
        raise ValueError(
            "Unable to uniquely reconstruct tree from empty flattened list"
            " (it could be {} or [])."
        )
    try:
        keyed.sort(key=lambda entry: entry[0])
    except TypeError as error:
        raise ValueError(
            f"keys of one node are of two kinds: {error}"
        ) from error
    if not keyed[0][0] and len(keyed) == 1:
        return keyed[0][1]
    root: dict[Any, Any] = {}
    for i, (keys, value) in enumerate(keyed):
        # An empty container that was filled later is recorded as both.
        if i + 1 < len(keyed) and keyed[i + 1][0][: len(keys)] == keys:
            continue
        node = root
        for key in keys[:-1]:
            node = node.setdefault(key, {})
        node[keys[-1]] = value
    return _lists_of_indices(root)


def _lists_of_indices(node: Any) -> Any:
    """Dicts whose keys are ints become lists."""
    if type(node) is not dict:
        return node
    values = {key: _lists_of_indices(child) for key, child in node.items()}
    if not values or not isinstance(next(iter(values)), int):
        return values
    if list(values) != list(range(len(values))):
        raise ValueError(f"indices of a list are not dense: {list(values)}")
    return list(values.values())


class FlatDict(dict[Names, Any]):
    """Leaves of a serialized tree by their paths."""


def flat_dict(serialized: Any) -> FlatDict:
    """Path -> leaf of a serialized tree; empty containers are left out."""
    flat = FlatDict()

    def walk(path: Names, node: Any) -> None:
        if type(node) is dict:
            for key, child in node.items():
                walk((*path, key), child)
        elif type(node) is list:
            for i, child in enumerate(node):
                walk((*path, str(i)), child)
        elif children(node) is None:
            flat[path] = node

    if isinstance(serialized, FlatDict):
        return serialized
    walk((), serialized)
    return flat


def difference(a: Any, b: Any) -> Any | None:
    """Where two serialized trees differ in structure; None: nowhere.

    A tree like `a` with a `Diff` at each difference; a dict keeps only the keys
    that differ, and a list has None for elements that do not.
    """
    kind = type(a)
    a_is_node = kind in (dict, list) and bool(a)
    b_is_node = type(b) in (dict, list) and bool(b)
    if not a_is_node and not b_is_node:
        return None
    if kind is not type(b):
        return Diff(kind, type(b))
    if kind is list:
        if len(a) != len(b):
            return Diff((kind, len(a)), (kind, len(b)))
        diffs = [difference(x, y) for x, y in zip(a, b, strict=True)]
        return None if all(diff is None for diff in diffs) else diffs
    common = {key: difference(a[key], b[key]) for key in a if key in b}
    found = {key: diff for key, diff in common.items() if diff is not None}
    found.update((key, Diff(a[key], None)) for key in a if key not in b)
    found.update((key, Diff(None, b[key])) for key in b if key not in a)
    return found or None


def _side_text(side: Any) -> str:
    if side is None or side is ...:
        return "MISSING"
    if isinstance(side, type):
        return type_text(side)
    return str(side)


def type_text(kind: type) -> str:
    """A class in messages, where those of `_METADATA` go by Orbax's name."""
    if issubclass(kind, ValueMetadataEntry):
        module = "orbax.checkpoint._src.metadata.value_metadata_entry"
        return f"<class '{module}.ValueMetadataEntry'>"
    return str(kind)


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
    """`difference`'s result as lines for people."""
    return "\n".join(_diff_lines(diff, "", ("Item", "Metadata")))


def trim(path: tuple[Any, ...], template: Any, tree: Any, strict: bool) -> Any:
    """`tree` without what `template` does not have.

    Args:
        path: where both are, for messages.
        template: gives the result's structure.
        tree: the values.
        strict: refuse keys that `tree` lacks; else they become `...`.

    Raises:
        TypeError: containers of different kinds.
        ValueError: a missing key, or lengths that differ.
    """
    if isinstance(template, Mapping):
        return _trim_mapping(path, template, tree, strict)
    if isinstance_of_namedtuple(template):
        return _trim_namedtuple(path, template, tree, strict)
    if isinstance(template, list | tuple):
        return _trim_sequence(path, template, tree, strict)
    if template is None:
        if children(tree) is not None:
            trim(path, {}, tree, strict)
        return None
    pairs = children(template)
    if pairs is None:
        if tree is not None and children(tree) is not None:
            raise _type_mismatch(path, template, tree)
        return tree
    wanted = {str(get_key_name(key)): child for key, child in pairs}
    kept = trim(path, wanted, _by_name(tree), strict)
    return _replace_children(template, [kept[name] for name in wanted])


def _by_name(node: Any) -> dict[str, Any]:
    return {str(get_key_name(k)): child for k, child in children(node) or ()}


def _replace_children(node: Any, values: list[Any]) -> Any:
    """A registered node with other children."""
    jax = imported_jax()
    assert jax is not None
    structure = jax.tree.structure(node, is_leaf=lambda x: x is not node)
    return jax.tree.unflatten(structure, values)


def _type_mismatch(
    path: tuple[Any, ...], template: Any, tree: Any, end: str = "."
) -> TypeError:
    return TypeError(
        f"Type mismatch at key path {path}: template has type"
        f" {type_text(type(template))}, but structure has type"
        f" {type_text(type(tree))}{end}"
    )


def _trim_mapping(
    path: tuple[Any, ...], template: Mapping[Any, Any], tree: Any, strict: bool
) -> Any:
    if tree is None:
        tree = {}
    elif not isinstance(tree, Mapping):
        plain_sequence = isinstance(tree, list | tuple)
        if isinstance_of_namedtuple(tree):
            plain_sequence = False
        if plain_sequence or children(tree) is None:
            raise _type_mismatch(path, template, tree)
        tree = _by_name(tree)
    missing = [key for key in template if key not in tree]
    if missing and strict:
        raise ValueError(
            f"Missing {len(missing)} keys in structure path {path}, including:"
            f" {missing[:10]}"
        )
    kept = {
        key: trim((*path, key), template[key], tree[key], strict)
        for key in tree
        if key in template
    }
    for key in missing:
        kept[key] = _placeholders(template[key])
    return type(template)(kept)  # type: ignore[call-arg]


def _placeholders(template: Any) -> Any:
    flat = flatten(template)
    return flat.rebuild([...] * len(flat.leaves))


def _trim_namedtuple(
    path: tuple[Any, ...], template: Any, tree: Any, strict: bool
) -> Any:
    if tree is None:
        tree = ()
    if isinstance(tree, Mapping):
        kept = trim(path, template._asdict(), tree, strict)
        return type(template)(**kept)
    if isinstance(tree, list | tuple):
        items = trim(path, tuple(template), tree, strict)
        return type(template)(*items)
    raise _type_mismatch(path, template, tree)


def _trim_sequence(
    path: tuple[Any, ...], template: Any, tree: Any, strict: bool
) -> Any:
    if tree is None:
        tree = ()
    elif not isinstance(tree, list | tuple):
        raise _type_mismatch(path, template, tree, end="")
    if len(tree) != len(template):
        raise ValueError(
            f"Length mismatch at key path {path}: template has length"
            f" {len(template)}, but structure has length {len(tree)}"
        )
    pairs = enumerate(zip(template, tree, strict=True))
    return type(template)(trim((*path, i), t, s, strict) for i, (t, s) in pairs)


def match_up_to(tree: Any, other: Any, any_empties: bool = True) -> list[Any]:
    """The part of `other` that stands at each leaf of `tree`.

    Args:
        tree: a tree of n leaves.
        other: a tree with the same containers down to those leaves.
        any_empties: anything may stand at an empty container of `tree`; else
            the same container must.

    Returns:
        n subtrees, in flatten order.

    Raises:
        ValueError: a container of `tree` has no counterpart in `other`.
    """
    found: list[Any] = []
    if not _match(tree, other, found, any_empties):
        _raise_mismatch(tree, other, any_empties)
    return found


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
    pairs = children(tree)
    if pairs is None:
        found.append(other)
        return True
    if not pairs and any_empties:
        return True
    other_pairs = children(other)
    if other_pairs is None or type(other) is not kind:
        return False
    if [key for key, _ in pairs] != [key for key, _ in other_pairs]:
        return False
    both = zip(pairs, other_pairs, strict=True)
    return all([match(x, y) for (_, x), (_, y) in both])


def _raise_mismatch(tree: Any, other: Any, any_empties: bool) -> NoReturn:
    jax = imported_jax()
    if jax is not None:
        # jax says best where the two part.
        is_leaf = (lambda x: not children(x)) if any_empties else None
        jax.tree.map(lambda *_: None, tree, other, is_leaf=is_leaf)
    raise ValueError(
        "Tree structures do not match: every container of the first tree must"
        " have a counterpart of the same kind and with the same keys in the"
        f" second (got {type(tree)} with {_brief(tree)} and {type(other)} with"
        f" {_brief(other)})"
    )


def _brief(node: Any) -> str:
    names = [str(get_key_name(key)) for key, _ in children(node) or ()]
    return f"keys {names[:10]}"


def map_leaves(fn: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with fn(leaf) for each leaf."""
    flat = flatten(tree)
    return flat.rebuild([fn(leaf) for leaf in flat.leaves])


def describe_keypath(tree: Any, names: Names) -> str:
    """jax's text of the key path that `names` stand for in `tree`."""
    for path, _ in flatten_with_path(tree):
        if str_keypath(path) == names:
            return str(path)
    return str(names)
