"""Helpers that transformations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.orbax._devices.optional_jax import is_jax_array, require_jax


def only_one(trees: tuple[Any, ...], verb: str) -> Any:
    """Returns the only tree.

    Raises:
        ValueError: there are several trees.
    """
    if len(trees) > 1:
        raise ValueError(
            f"Can only {verb} parameters in a single parameter structure."
        )
    return trees[0]


def is_numpy(value: Any) -> bool:
    """Returns whether a value is a numpy array, not a jax.Array."""
    return isinstance(value, np.ndarray)


def is_host_array(value: Any) -> bool:
    """Returns whether a value is a jax.Array in host memory."""
    if not is_jax_array(value):
        return False
    platform: str = next(iter(value.devices())).platform
    return platform == "cpu"


def call_numpy(
    function: str, operands: Sequence[Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls a function of numpy or jax.numpy.

    Args:
        function: the function's name.
        operands: the arrays that the function gets. If the first operand is a
            numpy array, the function is numpy's. Otherwise it is jax.numpy's,
            and runs on the CPU if all operands are in host memory.
        *args: the function's positional arguments.
        **kwargs: the function's keyword arguments.
    """
    if is_numpy(operands[0]):
        return getattr(np, function)(*args, **kwargs)
    jax = require_jax(f"{function} of jax.Arrays")
    call = getattr(jax.numpy, function)
    if not all(map(is_host_array, operands)):
        return call(*args, **kwargs)
    # An accelerator may not have enough memory for a model.
    with jax.default_device(jax.devices("cpu")[0]):
        return call(*args, **kwargs)
