"""Helpers that transformations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.orbax._devices.optional_jax import is_jax_array, require_jax


def only_one(trees: tuple[Any, ...], verb: str) -> Any:
    """The one tree.

    Raises:
        ValueError: there are several.
    """
    if len(trees) > 1:
        raise ValueError(
            f"Can only {verb} parameters in a single parameter structure."
        )
    return trees[0]


def is_numpy(value: Any) -> bool:
    """Returns whether it is numpy's, and the result is to be as well."""
    return isinstance(value, np.ndarray)


def is_host_array(value: Any) -> bool:
    """Returns whether it is a jax.Array in host memory."""
    if not is_jax_array(value):
        return False
    platform: str = next(iter(value.devices())).platform
    return platform == "cpu"


def call_numpy(
    function: str, operands: Sequence[Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls a function of numpy, or of jax.numpy where the operands are.

    Args:
        function: its name.
        operands: decide whose it is.
        *args: its arguments.
        **kwargs: more of them.
    """
    if is_numpy(operands[0]):
        return getattr(np, function)(*args, **kwargs)
    jax = require_jax(f"{function} of jax.Arrays")
    call = getattr(jax.numpy, function)
    if not all(map(is_host_array, operands)):
        return call(*args, **kwargs)
    # Models are larger than what an accelerator has free.
    with jax.default_device(jax.devices("cpu")[0]):
        return call(*args, **kwargs)
