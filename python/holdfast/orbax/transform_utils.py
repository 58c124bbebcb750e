"""Transforms trees by rules: `orbax.checkpoint.transform_utils`.

A rule's key is a regular expression that must match a complete key of the new
tree, with the key's parts joined by "/".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from holdfast._log import log
from holdfast.orbax._compat.attributes import attribute_error
from holdfast.orbax.tree_paths import (
    flatten_with_path,
    from_flat_dict,
    to_flat_dict,
)
from holdfast.orbax.type_handlers import RestoreArgs

__all__ = [
    "MultiValueFn",
    "PyTree",
    "RestoreArgs",
    "RestoreTransform",
    "Transform",
    "ValueFn",
    "apply_transformations",
    "intersect_trees",
    "merge_trees",
]

PyTree: TypeAlias = Any
ValueFn: TypeAlias = Callable[[Any], Any]
MultiValueFn: TypeAlias = Callable[[str, PyTree], Any]


def _require(holds: bool) -> None:
    """Rejects a contradictory rule with the error class that Orbax raises."""
    if not holds:
        raise AssertionError


@dataclasses.dataclass
class Transform:
    r"""Where the value for a key of the new tree comes from.

    Attributes:
        original_key: the key in the original tree, joined by "/"; may contain
            back references to the rule's groups (`\1`). None means the same
            key.
        use_fallback: takes the value from the new tree if
            `default_to_original` is True, and otherwise from the original tree.
        value_fn: called with the original value; returns the new value.
        multi_value_fn: called with the new key and the complete original tree;
            returns the new value.

    Raises:
        AssertionError: attributes exclude each other.
    """

    original_key: str | tuple[str] | None = None
    use_fallback: bool = False
    value_fn: Callable[..., Any] | None = None
    multi_value_fn: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        takes_one = self.original_key is not None or self.value_fn is not None
        if self.use_fallback:
            _require(not takes_one and self.multi_value_fn is None)
        if self.multi_value_fn is not None:
            _require(not takes_one)


@dataclasses.dataclass
class RestoreTransform(Transform):
    """A rule for restores, which read only the values that are needed.

    Attributes:
        value_fn: as in `Transform`.
        multi_value_fn: as in `Transform`, but also called with the new key's
            RestoreArgs.
        multi_value_fn_input_args: maps a regular expression for the original
            keys that `multi_value_fn` needs to their RestoreArgs.

    Raises:
        AssertionError: attributes exclude each other.
    """

    multi_value_fn_input_args: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.multi_value_fn_input_args is not None:
            _require(self.multi_value_fn is not None)


def apply_transformations(
    original_tree: PyTree,
    transformations: PyTree,
    new_tree: PyTree,
    default_to_original: bool | None = True,
) -> PyTree:
    """Fills the new tree with values that rules take from the original tree.

    Args:
        original_tree: any pytree.
        transformations: a tree of `Transform`; its keys, joined by "/", are the
            rules' regular expressions. Rules are tried in the order of the
            tree's leaves (dicts by key); the last matching rule wins.
        new_tree: determines the result's structure and every value that has no
            other source; None and empty containers are left unchanged.
        default_to_original: if True, a key without a rule takes the original
            tree's value. A key that the original tree lacks keeps the new
            tree's value; so do all keys without a rule if this is False.

    Raises:
        ValueError: the original tree lacks a key that a rule needs.
        re.error: a rule's key is not a regular expression.
    """
    if not flatten_with_path(new_tree) and not new_tree:
        return {}
    original = to_flat_dict(original_tree, sep="/")
    new = to_flat_dict(new_tree, sep="/")
    rules = to_flat_dict(transformations, sep="/")
    unmatched = []
    for key in new:
        has_rule = False
        for pattern, rule in rules.items():
            match = re.fullmatch(pattern, key)
            if match is None:
                continue
            has_rule = True
            if not rule.use_fallback:
                new[key] = _ruled_value(rule, match, original, original_tree)
            elif not default_to_original:
                new[key] = _fallback_value(key, original)
        if has_rule:
            continue
        if key not in original:
            unmatched.append(key)
        elif default_to_original:
            new[key] = original[key]
    if unmatched:
        log.info(
            "The following keys are not loaded from the original tree after"
            " applying specified transforms: %s",
            ", ".join(unmatched),
        )
    return from_flat_dict(new, target=new_tree, sep="/")


def _fallback_value(key: str, original: dict[str, Any]) -> Any:
    if key not in original:
        raise ValueError(
            f"{key} not found in origin tree (`use_fallback` requested)."
        )
    return original[key]


def _ruled_value(
    rule: Transform,
    match: re.Match[str],
    original: dict[str, Any],
    original_tree: PyTree,
) -> Any:
    """Returns the value that a rule without fallback gives a matched key."""
    if rule.multi_value_fn is not None:
        if rule.value_fn is not None:
            raise ValueError(
                f"Cannot provide both multi_value_fn and value_fn in {rule}"
            )
        return rule.multi_value_fn(match.string, original_tree)
    key = original_key_of(rule, match)
    if key not in original:
        raise ValueError(
            f'Transformation key "{key}" not found in origin tree.'
        )
    value = original[key]
    return value if rule.value_fn is None else rule.value_fn(value)


def original_key_of(rule: Transform, match: re.Match[str]) -> str:
    """Returns the key in the original tree, with back references expanded."""
    if rule.original_key is None:
        return match.string
    return match.expand(rule.original_key)  # type: ignore[arg-type]


def merge_trees(*trees: PyTree, target: PyTree | None = None) -> PyTree:
    """Merges the leaves of all trees into one tree; later trees win.

    Args:
        *trees: any pytrees; their empty containers are left out.
        target: determines the result's structure; None means dicts.

    Raises:
        KeyError: `target` has a key that no tree has.
    """
    flat: dict[Any, Any] = {}
    for tree in trees:
        flat.update(to_flat_dict(tree))
    return from_flat_dict(flat, target=target)


def intersect_trees(*trees: PyTree, target: PyTree | None = None) -> PyTree:
    """Returns the last tree's leaves at the keys that all trees share.

    Args:
        *trees: at least one pytree; empty containers are left out.
        target: determines the result's structure; None means dicts.

    Raises:
        TypeError: no trees are given.
        KeyError: `target` has a key that some tree lacks.
    """
    flat = [to_flat_dict(tree) for tree in trees]
    common = set.intersection(*(set(leaves) for leaves in flat))
    kept = {key: leaf for key, leaf in flat[-1].items() if key in common}
    return from_flat_dict(kept, target=target)


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name)
