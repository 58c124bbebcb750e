"""Lists, splits, compares and merges nested dicts and lists.

Everything that is not a dict or a list is a leaf, including tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from holdfast.megatron import _tensors

__all__ = [
    "dict_list_map_inplace",
    "dict_list_map_outplace",
    "dict_map",
    "dict_map_with_key",
    "diff",
    "extract_matching_values",
    "inspect_types",
    "map_reduce",
    "merge",
    "nested_items_iter",
    "nested_values",
]

Nested = dict[Any, Any] | list[Any]


def extract_matching_values(
    x: Any,
    predicate: Callable[[Any], bool],
    return_lists_as_dicts: bool = False,
) -> tuple[Any, Any]:
    """Splits a tree into the leaves that match and the leaves that do not.

    Args:
      x: a dict or a list.
      predicate: called with a leaf.
      return_lists_as_dicts: turn lists into dicts keyed by the old indices, so
        the leaves keep their places.

    The second tree gets containers without leaves. Raises ValueError if `x` is
    not a dict or a list.
    """
    if isinstance(x, dict):
        return _extract_from_dict(x, predicate, return_lists_as_dicts)
    if isinstance(x, list):
        return _extract_from_list(x, predicate, return_lists_as_dicts)
    raise ValueError(f"Unexpected top-level object type: {type(x)}")


def _extract_from_dict(
    x: dict[Any, Any], predicate: Callable[[Any], bool], lists_as_dicts: bool
) -> tuple[Any, Any]:
    matching, others = {}, {}
    for key, value in x.items():
        if isinstance(value, (dict, list)):
            inner, rest = extract_matching_values(
                value, predicate, lists_as_dicts
            )
            if inner:
                matching[key] = inner
            if rest or not value:
                others[key] = rest
        elif predicate(value):
            matching[key] = value
        else:
            others[key] = value
    return matching, others


def _extract_from_list(
    x: list[Any], predicate: Callable[[Any], bool], lists_as_dicts: bool
) -> tuple[Any, Any]:
    matching: dict[int, Any] = {}
    others: dict[int, Any] = {}
    for index, value in enumerate(x):
        if isinstance(value, (dict, list)) and value:
            inner, rest = extract_matching_values(
                value, predicate, lists_as_dicts
            )
            if inner:
                matching[index] = inner
            if rest:
                others[index] = rest
        else:
            (matching if predicate(value) else others)[index] = value
    if lists_as_dicts:
        return matching, others
    return list(matching.values()), list(others.values())


def diff(
    x1: Any, x2: Any, prefix: tuple[Any, ...] = ()
) -> tuple[list[Any], list[Any], list[Any]]:
    """Compares two trees.

    Returns the paths that only the first tree has, the paths that only the
    second has, and (path, type, type, ...) for leaves that are not equal.
    """
    if isinstance(x1, dict) and isinstance(x2, dict):
        left = [(*prefix, k) for k in x1 if k not in x2]
        right = [(*prefix, k) for k in x2 if k not in x1]
        pairs = [(k, x1[k], x2[k]) for k in x1 if k in x2]
    elif isinstance(x1, (list, tuple, np.ndarray)) and type(x1) is type(x2):
        if isinstance(x1, np.ndarray) and x1.ndim == 0:
            return _leaf_diff(x1, x2, prefix)
        left = [(*prefix, i) for i in range(len(x2), len(x1))]
        right = [(*prefix, i) for i in range(len(x1), len(x2))]
        pairs = [
            (i, a, b) for i, (a, b) in enumerate(zip(x1, x2, strict=False))
        ]
    else:
        return _leaf_diff(x1, x2, prefix)
    mismatch: list[Any] = []
    for key, a, b in pairs:
        more_left, more_right, more = diff(a, b, (*prefix, key))
        left += more_left
        right += more_right
        mismatch += more
    return left, right, mismatch


def _leaf_diff(
    x1: Any, x2: Any, prefix: tuple[Any, ...]
) -> tuple[list[Any], list[Any], list[Any]]:
    if hasattr(x1, "replica_id") and hasattr(x2, "replica_id"):
        return diff(x1.data, x2.data, (*prefix, type(x1)))
    row = [prefix, type(x1), type(x2)]
    try:
        if _tensors.is_tensor(x1) and _tensors.is_tensor(x2):
            differs = x1.shape != x2.shape or bool((x1 != x2).any())
            row += [tuple(x1.shape), tuple(x2.shape)]
        else:
            differs = bool(np.any(x1 != x2))
    except (RuntimeError, TypeError, ValueError):
        differs = True
    return [], [], [tuple(row)] if differs else []


def inspect_types(
    x: Any, prefix: tuple[Any, ...] = (), indent: int = 4
) -> None:
    """Prints the types of the leaves."""
    space = " " * indent * len(prefix)
    if isinstance(x, (dict, list)):
        print()
        items = x.items() if isinstance(x, dict) else enumerate(x)
        mark = ">" if isinstance(x, dict) else "-"
        for key, value in items:
            print(f"{space}{mark} {key}: ", end="")
            inspect_types(value, (*prefix, key), indent)
    elif _tensors.is_tensor(x):
        print(f"Tensor of shape {x.shape}")
    else:
        text = str(x)
        cut = text[:30] + "... (truncated)" if len(text) > 30 else text
        print(f"[{type(x)}]: {cut}")


def nested_items_iter(x: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yields (container, key or index, leaf) for every leaf."""
    for key, value in x.items() if isinstance(x, dict) else enumerate(x):
        if isinstance(value, (dict, list)):
            yield from nested_items_iter(value)
        else:
            yield x, key, value


def nested_values(x: Any) -> Iterator[Any]:
    """Yields every leaf."""
    for _, _, value in nested_items_iter(x):
        yield value


def dict_map(f: Callable[[Any], Any], d: Any) -> None:
    """Replaces every leaf with `f(leaf)`."""
    for container, key, value in nested_items_iter(d):
        container[key] = f(value)


def dict_map_with_key(f: Callable[[Any, Any], Any], d: Any) -> None:
    """Replaces every leaf with `f(key, leaf)`."""
    for container, key, value in nested_items_iter(d):
        container[key] = f(key, value)


def dict_list_map_inplace(f: Callable[[Any], Any], x: Any) -> Any:
    """Replaces every leaf of `x` with `f(leaf)`; returns `f(x)` if `x` is a
    leaf."""
    if isinstance(x, dict):
        for key, value in x.items():
            x[key] = dict_list_map_inplace(f, value)
    elif isinstance(x, list):
        x[:] = [dict_list_map_inplace(f, value) for value in x]
    else:
        return f(x)
    return x


def dict_list_map_outplace(f: Callable[[Any], Any], x: Any) -> Any:
    """Returns a copy of `x` with every leaf replaced by `f(leaf)`."""
    if isinstance(x, dict):
        return {k: dict_list_map_outplace(f, v) for k, v in x.items()}
    if isinstance(x, list):
        return [dict_list_map_outplace(f, v) for v in x]
    return f(x)


def merge(x1: Any, x2: Any, key: tuple[Any, ...] = ()) -> Any:
    """Adds to `x1` everything that only `x2` has; returns `x1`.

    Raises ValueError for lists of different lengths, and for a path where
    both have a leaf.
    """
    if isinstance(x1, dict) and isinstance(x2, dict):
        for k, value in x2.items():
            x1[k] = merge(x1[k], value, (*key, k)) if k in x1 else value
    elif isinstance(x1, list) and isinstance(x2, list):
        if len(x1) != len(x2):
            raise ValueError(
                "Cannot merge two lists with different lengths"
                f" ({len(x1)} and {len(x2)}, encountered at level {key})"
            )
        for i, value in enumerate(x2):
            x1[i] = merge(x1[i], value, (*key, i))
    else:
        raise ValueError(
            "Duplicate non-dict and non-list values encountered:"
            f" `{x1}` and `{x2}` (at level {key})"
        )
    return x1


def _same(x: Any) -> Any:
    return x


def map_reduce(
    xs: Iterable[Any],
    key_fn: Callable[[Any], Any] = _same,
    value_fn: Callable[[Any], Any] = _same,
    reduce_fn: Callable[[Any], Any] = _same,
) -> dict[Any, Any]:
    """Returns {key: `reduce_fn` of the list of all values with that key}."""
    lists: dict[Any, list[Any]] = {}
    for x in xs:
        lists.setdefault(key_fn(x), []).append(value_fn(x))
    return {key: reduce_fn(values) for key, values in lists.items()}
