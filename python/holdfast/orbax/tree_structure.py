"""Compares trees, trims a tree to another's structure, and merges trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.orbax._devices.optional_jax import imported_jax
from holdfast.orbax._trees.parts_of import PLACEHOLDER, PartsOf
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.tree_paths import (
    PyTree,
    children_with_keys,
    flatten_with_path,
    get_key_name,
    is_leaf_node,
    is_leaf_node_or_none,
    isinstance_of_namedtuple,
    to_flat_dict,
    unflatten_like,
)

Path = tuple[str | int, ...]
TrimCallback = Callable[[Path, Any], None]


class Diff(NamedTuple):
    """The values of the first and second tree at one path."""

    lhs: Any
    rhs: Any


def tree_difference(
    a: PyTree,
    b: PyTree,
    *,
    is_leaf: Callable[[Any], bool] | None = None,
    leaves_equal: Callable[[Any, Any], bool] | None = None,
) -> PyTree | None:
    """Finds where two trees differ.

    Args:
        a: the first tree.
        b: the second tree.
        is_leaf: which nodes are compared as leaves; by default, jax's leaves.
        leaves_equal: compares two leaves; by default, compares their types.

    Returns:
        A tree like `a` with a `Diff` at each difference and None elsewhere, or
        None if the trees do not differ. A dict keeps only the keys that differ.
    """
    is_leaf = is_leaf or is_leaf_node
    if is_leaf(a) and is_leaf(b):
        same = leaves_equal(a, b) if leaves_equal else type(a) is type(b)
        return None if same else Diff(a, b)
    if type(a) is not type(b):
        return Diff(type(a), type(b))

    def differ(x: Any, y: Any) -> Any:
        return tree_difference(x, y, is_leaf=is_leaf, leaves_equal=leaves_equal)

    if isinstance(a, list | tuple):
        if not isinstance_of_namedtuple(a) and len(a) != len(b):
            return Diff((type(a), len(a)), (type(b), len(b)))
        diffs = [differ(x, y) for x, y in zip(a, b, strict=True)]
        if all(diff is None for diff in diffs):
            return None
        named = isinstance_of_namedtuple(a)
        return type(a)(*diffs) if named else type(a)(diffs)
    if isinstance(a, Mapping):
        return _mapping_difference(a, b, differ) or None
    return _node_difference(a, b, differ)


def _mapping_difference(
    a: Mapping[Any, Any],
    b: Mapping[Any, Any],
    differ: Callable[[Any, Any], Any],
) -> dict[Any, Any]:
    common = {key: differ(a[key], b[key]) for key in a if key in b}
    diffs = {key: diff for key, diff in common.items() if diff is not None}
    diffs.update((k, Diff(v, None)) for k, v in a.items() if k not in b)
    diffs.update((k, Diff(None, v)) for k, v in b.items() if k not in a)
    return diffs


def _node_difference(
    a: Any, b: Any, differ: Callable[[Any, Any], Any]
) -> Any | None:
    children = children_with_keys(a) or []
    diffs = _mapping_difference(
        dict(children), dict(children_with_keys(b) or []), differ
    )
    if not diffs:
        return None
    return _with_children(a, [diffs.get(key) for key, _ in children])


def _with_children(node: Any, children: list[Any]) -> Any:
    """Copies a registered node with other children; needs jax."""
    jax = imported_jax()
    assert jax is not None
    structure = jax.tree.structure(
        node, is_leaf=lambda other: other is not node
    )
    return jax.tree.unflatten(structure, children)


def trimmed(template: PyTree, structure: PyTree, strict: bool) -> PyTree:
    """Does what `tree_trim` does; leaves that `structure` lacks become `...`.

    With `strict`, a leaf that `structure` lacks is an error.
    """
    return _Trim(strict, False).trim((), template, structure, None)


def tree_trim(
    template: PyTree,
    structure: PyTree,
    *,
    trimmed_structure_callback: TrimCallback | None = None,
    strict: bool = True,
    allow_sequence_mapping_alignment: bool = False,
) -> PyTree | PartsOf:
    """Removes the parts of `structure` that `template` does not have.

    Args:
        template: the tree whose structure and container types are wanted.
        structure: the tree with the values.
        trimmed_structure_callback: called with the path and subtree of each
            removed part.
        strict: if True, a part that `structure` lacks is an error; if False,
            the result is a `PartsOf` without that part.
        allow_sequence_mapping_alignment: lets lists and tuples match dicts
            whose keys are indices.

    Raises:
        ValueError: `structure` lacks a key, or lengths differ.
        TypeError: container types differ.
    """
    trim = _Trim(strict, allow_sequence_mapping_alignment).trim
    kept = trim((), template, structure, trimmed_structure_callback)
    parts = PartsOf(template, kept)
    return parts.full_structure if strict else parts


def _by_name(node: Any) -> dict[str, Any]:
    return {
        str(get_key_name(key)): child
        for key, child in children_with_keys(node) or []
    }


def _key_texts(node: Any) -> dict[str, str]:
    """Maps each name to jax's string for the key: "['a']", "[0]", ".field"."""
    texts = {}
    for key, _ in children_with_keys(node) or []:
        name = get_key_name(key)
        kind = type(key).__name__
        if kind == "DictKey":
            texts[str(name)] = f"[{key.key!r}]"
        elif kind == "GetAttrKey":
            texts[str(name)] = f".{name}"
        else:
            texts[str(name)] = str(key)
    return texts


def _naming_keys_of(
    callback: TrimCallback | None, path: Path, node: Any
) -> TrimCallback | None:
    """Wraps a callback so that it gets jax's keys for a node's children.

    The node is trimmed as a dict, whose keys would be plain names.
    """
    if callback is None:
        return None
    texts = _key_texts(node)
    depth = len(path)

    def renamed(where: Path, part: Any) -> None:
        name = texts[str(where[depth])]
        callback((*where[:depth], name, *where[depth + 1 :]), part)

    return renamed


class _Trim:
    def __init__(self, strict: bool, align: bool) -> None:
        self._strict = strict
        self._align = align

    def trim(
        self,
        path: Path,
        template: Any,
        structure: Any,
        callback: TrimCallback | None,
    ) -> Any:
        if isinstance(template, Mapping):
            return self._mapping(path, template, structure, callback)
        if isinstance_of_namedtuple(template):
            return self._namedtuple(path, template, structure, callback)
        if isinstance(template, Sequence) and not isinstance(
            template, str | bytes
        ):
            return self._sequence(path, template, structure, callback)
        if template is None:
            if not is_leaf_node(structure):
                self.trim(path, {}, structure, callback)
            elif callback is not None:
                callback(path, structure)
            return None
        if is_leaf_node(template):
            if not is_leaf_node_or_none(structure):
                raise _type_mismatch(path, template, structure)
            return structure
        wanted = _by_name(template)
        renamed = _naming_keys_of(callback, path, structure)
        kept = self.trim(path, wanted, _by_name(structure), renamed)
        return _with_children(template, [kept[name] for name in wanted])

    def _mapping(
        self,
        path: Path,
        template: Mapping[Any, Any],
        structure: Any,
        callback: TrimCallback | None,
    ) -> Any:
        plain_sequence = isinstance(
            structure, list | tuple
        ) and not isinstance_of_namedtuple(structure)
        if structure is None:
            structure = {}
        elif not isinstance(structure, Mapping):
            if is_leaf_node(structure) or (plain_sequence and not self._align):
                raise _type_mismatch(path, template, structure)
            callback = _naming_keys_of(callback, path, structure)
            structure = _by_name(structure)
        missing = [key for key in template if key not in structure]
        if missing and self._strict:
            raise ValueError(
                f"Missing {len(missing)} keys in structure path {path}, "
                f"including: {missing[:10]}"
            )
        if callback is not None:
            for key, value in structure.items():
                if key not in template:
                    callback((*path, key), value)
        kept = {
            key: self.trim((*path, key), template[key], value, callback)
            for key, value in structure.items()
            if key in template
        }
        kept.update((key, _placeholders(template[key])) for key in missing)
        return type(template)(kept.items())  # type: ignore[call-arg]

    def _namedtuple(
        self,
        path: Path,
        template: Any,
        structure: Any,
        callback: TrimCallback | None,
    ) -> Any:
        if structure is None:
            structure = ()
        if isinstance(structure, Mapping):
            kept = self.trim(path, template._asdict(), structure, callback)
            return type(template)(**kept)
        if isinstance(structure, Sequence):
            items = self.trim(path, tuple(template), structure, callback)
            return type(template)(*items)
        raise _type_mismatch(path, template, structure)

    def _sequence(
        self,
        path: Path,
        template: Sequence[Any],
        structure: Any,
        callback: TrimCallback | None,
    ) -> Any:
        if structure is None:
            structure = ()
        elif not isinstance(structure, Sequence):
            raise _type_mismatch(path, template, structure, end="")
        if len(structure) != len(template):
            raise ValueError(
                f"Length mismatch at key path {path}: template has length "
                f"{len(template)}, but structure has length {len(structure)}"
            )
        pairs = enumerate(zip(template, structure, strict=True))
        return type(template)(  # type: ignore[call-arg]
            self.trim((*path, i), wanted, given, callback)
            for i, (wanted, given) in pairs
        )


def _placeholders(template: Any) -> Any:
    leaf_count = len(flatten_with_path(template))
    return unflatten_like(template, [PLACEHOLDER] * leaf_count)


def type_text(kind: type) -> str:
    """Returns a class's name for error messages.

    ValueMetadataEntry gets the name of Orbax's class.
    """
    if issubclass(kind, ValueMetadataEntry):
        module = "orbax.checkpoint._src.metadata.value_metadata_entry"
        return f"<class '{module}.ValueMetadataEntry'>"
    return str(kind)


def _type_mismatch(
    path: Path, template: Any, structure: Any, end: str = "."
) -> TypeError:
    return TypeError(
        f"Type mismatch at key path {path}: template has type"
        f" {type_text(type(template))}, but structure has type"
        f" {type_text(type(structure))}{end}"
    )


def merge_trees(
    *trees: PyTree,
    overwrite: bool = False,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """Merges the leaves of all trees into one tree.

    Args:
        *trees: trees with the same container types.
        overwrite: if True, a later tree's leaf replaces an earlier tree's; if
            False, two trees must not share a leaf's path.
        is_leaf: which nodes count as leaves; by default, None counts as a leaf.

    Raises:
        ValueError: two trees share a leaf's path, or containers do not match.
    """
    is_leaf = is_leaf or is_leaf_node_or_none
    if not trees:
        return {}
    if not overwrite:
        _refuse_common_keys(trees, is_leaf)
    merged = trees[0]
    for tree in trees[1:]:
        merged = _merge(tree, merged, overwrite, is_leaf)
    return merged


def _refuse_common_keys(
    trees: Iterable[PyTree], is_leaf: Callable[[Any], bool]
) -> None:
    seen: set[Any] = set()
    for tree in trees:
        keys = to_flat_dict(tree, is_leaf=is_leaf).keys()
        common = seen & keys
        if common:
            raise ValueError(
                "Found common key paths when overwrite is False: "
                f"{sorted(common)}"
            )
        seen |= keys


def _merge(
    new: Any, old: Any, overwrite: bool, is_leaf: Callable[[Any], bool]
) -> Any:
    """Merges `new` over `old`."""
    if type(new) is not type(old) and not overwrite:
        raise ValueError(f"Types do not match: {type(new)} and {type(old)}")
    if is_leaf(new) or is_leaf(old):
        return new if new is not None else old

    def merge(x: Any, y: Any) -> Any:
        return _merge(x, y, overwrite, is_leaf)

    if isinstance(new, Mapping):
        return _rebuilt(type(new), _merge_mappings(new, old, merge))
    if isinstance_of_namedtuple(new):
        fields = _merge_mappings(new._asdict(), old._asdict(), merge)
        try:
            return type(new)(**fields)
        except (TypeError, ValueError):
            return fields
    if isinstance(new, Sequence) and not isinstance(new, str):
        if len(new) != len(old):
            raise ValueError(
                f"Sequence lengths do not match: {len(new)} and {len(old)}"
            )
        pairs = zip(new, old, strict=True)
        return _rebuilt(type(new), [merge(x, y) for x, y in pairs])
    names = _by_name(new)
    merged = merge(names, _by_name(old))
    return _with_children(new, [merged[name] for name in names])


def _merge_mappings(
    new: Mapping[Any, Any],
    old: Mapping[Any, Any],
    merge: Callable[[Any, Any], Any],
) -> dict[Any, Any]:
    merged = dict(old)
    for key, value in new.items():
        merged[key] = merge(value, old[key]) if key in old else value
    return merged


def _rebuilt(kind: Any, content: Any) -> Any:
    """Returns `kind(content)`, or `content` if the constructor rejects it."""
    try:
        return kind(content)
    except (TypeError, ValueError):
        return content
