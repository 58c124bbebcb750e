"""Decides which stored leaves a restore with transforms reads, and how.

The functions are pure: they use only keys, before anything is read. They apply
the rules backwards, from the keys of the caller's item to the checkpoint's
keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from holdfast.orbax._trees import structure
from holdfast.orbax.transform_utils import (
    RestoreTransform,
    Transform,
    apply_transformations,
    original_key_of,
)
from holdfast.orbax.tree_paths import to_flat_dict

Names = tuple[str, ...]

NO_ITEM = (
    "If providing `transforms`, must provide `item` matching structure of"
    " expected result."
)
_NO_RESTORE_ARGS = (
    "If providing `transforms`, must provide `restore_args` matching structure"
    " of expected result."
)


def plan_transforms(
    stored: Iterable[Names],
    item: Any,
    transforms: Any,
    restore_args: dict[Names, Any],
    default_to_original: bool = True,
) -> dict[Names, Any]:
    """Returns the restore arguments of each stored leaf that is needed.

    Args:
        stored: the keys of every leaf in the checkpoint.
        item: the requested tree.
        transforms: a tree of `Transform`.
        restore_args: restore arguments by the item's keys.
        default_to_original: read the item's keys that have no transform.

    Raises:
        ValueError: a `multi_value_fn` does not name its inputs.
        KeyError: `restore_args` lacks a leaf that is needed.
        re.error: a key of `transforms` is not a regular expression.
    """
    wanted = to_flat_dict(item, keep_empty_nodes=True)
    outputs = [("/".join(names), names) for names in wanted]
    rules = [
        _Rule("/".join(names), transform, outputs)
        for names, transform in to_flat_dict(transforms).items()
    ]
    needed = {}
    for names in stored:
        args = _matching_args(names, rules, restore_args)
        if args:
            needed[names] = args
        elif names in wanted:
            is_fallback = _is_fallback("/".join(names), rules)
            if is_fallback != bool(default_to_original):
                needed[names] = restore_args[names]
    return needed


class _Rule:
    """A transform, and the item's key that each original key produces."""

    def __init__(
        self,
        pattern: str,
        transform: Transform,
        outputs: list[tuple[str, Names]],
    ) -> None:
        self.pattern = pattern
        self.transform = transform
        self._outputs = outputs
        self._output_of: dict[str, Names] | None = None
        self._error: Exception | None = None

    def output_of(self, key: str) -> Names | None:
        """Returns the item's first key that is made from this original key.

        Raises:
            re.error: a pattern is invalid, or refers to a missing group.
        """
        if self._output_of is None:
            self._output_of = {}
            self._match_outputs(self._output_of)
        if key in self._output_of:
            return self._output_of[key]
        if self._error is not None:
            raise self._error
        return None

    def _match_outputs(self, output_of: dict[str, Names]) -> None:
        # An error affects only keys that were not found before it occurred.
        try:
            for text, names in self._outputs:
                match = re.fullmatch(self.pattern, text)
                if match is not None:
                    key = original_key_of(self.transform, match)
                    output_of.setdefault(key, names)
        except Exception as error:
            self._error = error

    def input_args(self, key: str) -> Any | None:
        """Returns the entry of `multi_value_fn_input_args` for this original
        key.

        Raises:
            ValueError: the transform does not have this entry.
        """
        if not isinstance(self.transform, RestoreTransform):
            raise ValueError(
                "Must use RestoreTransform in order to use multi_value_fn"
                " during restore."
            )
        if self.transform.multi_value_fn_input_args is None:
            raise ValueError(
                "`multi_value_fn` was specified, but"
                " `multi_value_fn_input_args` were not. The latter must be"
                " specified to identify inputs for the function."
            )
        for pattern, args in self.transform.multi_value_fn_input_args.items():
            if re.fullmatch(pattern, key):
                return _Found(args)
        return None


class _Found:
    """Arguments that were found, which may be None."""

    def __init__(self, args: Any) -> None:
        self.args = args


def _matching_args(
    names: Names, rules: list[_Rule], restore_args: dict[Names, Any]
) -> Any | None:
    key = "/".join(names)
    for rule in rules:
        if rule.transform.multi_value_fn is not None:
            found = rule.input_args(key)
            if found is not None:
                return found.args
        elif not rule.transform.use_fallback:
            output = rule.output_of(key)
            if output is not None:
                return restore_args[output]
    return None


def _is_fallback(key: str, rules: list[_Rule]) -> bool:
    # Try every pattern, so an invalid pattern is always refused.
    matching = [rule for rule in rules if re.fullmatch(rule.pattern, key)]
    return any(rule.transform.use_fallback for rule in matching)


def transform_restored(
    item: Any,
    restored: Any,
    restore_args: Any,
    transforms: Any,
    default_to_original: bool,
) -> Any:
    """Makes the item's tree from the restored leaves.

    Args:
        item: the requested tree.
        restored: the checkpoint's tree; leaves that were not read are
            metadata.
        restore_args: a tree like the item.
        transforms: a tree of `Transform`.
        default_to_original: as for `apply_transformations`.

    Raises:
        ValueError: `restore_args` is None, or the checkpoint lacks a key.
    """
    if restore_args is None:
        raise ValueError(_NO_RESTORE_ARGS)
    args_of = to_flat_dict(restore_args, sep="/")

    def with_args(transform: Transform) -> Transform:
        multi_value_fn = transform.multi_value_fn
        if multi_value_fn is None:
            return transform
        return Transform(
            multi_value_fn=lambda key, tree: multi_value_fn(
                key, tree, args_of[key]
            )
        )

    return apply_transformations(
        restored,
        structure.map_leaves(with_args, transforms),
        item,
        default_to_original,
    )
