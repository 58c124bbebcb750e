"""Makes the trees that the game saves, one for each number, and compares trees.

The trees of neighboring numbers differ in a few elements, so that deltas are
small. For some numbers, the tree has one more array, or an array has another
shape.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

FOLLOWED = "w"  # has one shape and dtype in every tree


def tree(value: int) -> dict[str, Any]:
    """Returns a new copy of tree number `value`, which the caller may
    change."""
    w = _noise(600).copy()
    w[value % 600] += value
    h = _noise(200).astype(np.float16)
    h = h[:-7] if value % 11 == 10 else h.reshape(40, 5)
    made = {
        "w": w,
        "nest": {"h": h, "frozen": np.arange(50), "flag": value % 2 == 0},
        "list": [np.full((3, 2), value, np.int32), float(value) / 4],
        "step": value,
        "name": f"tree {value}",
    }
    if value % 5 == 4:
        made["more"] = np.arange(value % 97 + 1, dtype=np.uint8)
    return made


@functools.cache
def _noise(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).standard_normal(count).astype(np.float32)


def problem(got: Any, want: Any, name: str = "") -> str | None:
    """Returns the first difference of `got` from `want`, or None."""
    if isinstance(want, dict):
        return _problem_of_dict(got, want, name)
    if isinstance(want, list):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return f"{name}: a {type(got).__name__}, want {len(want)} items"
        pairs = enumerate(zip(got, want, strict=True))
        return _first(problem(a, b, f"{name}.{i}") for i, (a, b) in pairs)
    if isinstance(want, str):
        return None if got == want else f"{name}: {got!r}, want {want!r}"
    a, b = np.asarray(got), np.asarray(want)
    if a.shape != b.shape:
        return f"{name}: shape {a.shape}, want {b.shape}"
    if not isinstance(want, np.ndarray):
        same = a.dtype.kind in "biuf" and bool(a == b)
    else:
        same = a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return None if same else f"{name}: other elements ({a.dtype} {a.shape})"


def _problem_of_dict(got: Any, want: dict[str, Any], name: str) -> str | None:
    if not isinstance(got, dict):
        return f"{name}: a {type(got).__name__}, want a dict"
    if sorted(got) != sorted(want):
        return f"{name}: leaves {sorted(got)}, want {sorted(want)}"
    return _first(
        problem(got[key], want[key], f"{name}.{key}" if name else key)
        for key in want
    )


def _first(problems: Any) -> str | None:
    return next((text for text in problems if text is not None), None)


def problem_of_part(got: Any, want: dict[str, Any]) -> str | None:
    """Like `problem`, but leaves may be missing from `got`."""
    if not isinstance(got, dict):
        return f"a {type(got).__name__}, want a dict"
    wanted, found = dict(leaves(want)), dict(leaves(got))
    for name, value in found.items():
        if name not in wanted:
            return f"{name}: nobody saved such a leaf"
        wrong = problem(value, wanted[name], name)
        if wrong is not None:
            return wrong
    return None


def leaves(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """Returns (name, value) pairs; a name is its keys joined with "."."""
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, (list, tuple)):
        items = [(str(i), item) for i, item in enumerate(value)]
    else:
        return [(name, value)]
    return [
        leaf
        for key, item in items
        for leaf in leaves(item, f"{name}.{key}" if name else str(key))
    ]
