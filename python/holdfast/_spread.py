"""Finds out whether a tree has arrays that are spread over several processes.

All these processes must make a call with such a tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast import _dtensor, errors
from holdfast._pytree import jax_if_imported, one_level

__all__ = ["has_spread"]


def has_spread(tree: Any, kind: str) -> bool:
    """Returns whether a leaf is an array of `kind`, "jax" or "torch", that
    other processes have parts of. Leaves of targets count too."""
    is_spread = _is_spread_jax if kind == "jax" else _is_spread_torch
    waiting = [tree]
    seen: set[int] = set()  # a tree may contain itself
    while waiting:
        node = waiting.pop()
        if isinstance(node, (np.ndarray, np.generic, str, bytes, int, float)):
            continue
        if is_spread(node):
            return True
        if id(node) in seen:
            continue
        seen.add(id(node))
        try:
            level = one_level(node)
        except errors.InvalidArgumentError:
            continue  # the save reports this error
        if level is not None:
            waiting.extend(level.children)
    return False


def _is_spread_jax(value: Any) -> bool:
    jax = jax_if_imported()
    if jax is None or not isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return False
    sharding = getattr(value, "sharding", None)
    return sharding is not None and not sharding.is_fully_addressable


def _is_spread_torch(value: Any) -> bool:
    return _dtensor.is_dtensor(value) and bool(value.device_mesh.size() > 1)
