"""`holdfast.load(arrays=...)`: converts a tree's numpy arrays to arrays of
another library.

The library adopts the arrays without a copy if it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast import errors
from holdfast._lazy import importing

__all__ = ["Converter", "converter", "with_arrays"]

NumpyArray = np.ndarray[Any, np.dtype[Any]]
# Converts all arrays of a tree in one call, which is much faster with jax.
Converter = Callable[[Sequence[NumpyArray]], Sequence[Any]]


def converter(arrays: str) -> Converter | None:
    """Returns the converter for "torch" or "jax", and None for "numpy".

    Raises InvalidArgumentError for any other word, and ImportError if the
    library is not installed.
    """
    if arrays == "numpy":
        return None
    if arrays == "torch":
        return _to_torch
    if arrays == "jax":
        return _to_jax
    raise errors.InvalidArgumentError(
        f'arrays: got {arrays!r}, want "numpy", "torch" or "jax"'
    )


def with_arrays(tree: Any, convert: Converter) -> Any:
    """Returns a tree of dicts and lists with its numpy arrays converted."""
    if convert is _to_torch:
        with importing:
            from holdfast import _torch_records

        tree = _torch_records.with_tensors(tree)
    found: list[NumpyArray] = []
    _collect(tree, found)
    return _replaced(tree, iter(convert(found)))


def _collect(node: Any, found: list[NumpyArray]) -> None:
    if isinstance(node, np.ndarray):
        found.append(node)
    elif isinstance(node, dict):
        for child in node.values():
            _collect(child, found)
    elif isinstance(node, list):
        for child in node:
            _collect(child, found)


def _replaced(node: Any, converted: Any) -> Any:
    if isinstance(node, np.ndarray):
        return next(converted)
    if isinstance(node, dict):
        return {key: _replaced(node[key], converted) for key in node}
    if isinstance(node, list):
        return [_replaced(child, converted) for child in node]
    return node


def _to_torch(arrays: Sequence[NumpyArray]) -> Sequence[Any]:
    return [_tensor(array) for array in arrays]


def _tensor(array: NumpyArray) -> Any:
    with importing:
        from holdfast import _torch_arrays

    return _torch_arrays.adopted(array)


def _to_jax(arrays: Sequence[NumpyArray]) -> Sequence[Any]:
    with importing:
        import jax

        from holdfast import _jax_arrays

    for array in arrays:
        _jax_arrays.check_keeps(array.dtype)
    placed: Sequence[Any] = jax.device_put(list(arrays))
    return placed
