"""What transformations share."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.orbax._jax import is_jax_array


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
    """Whether it is numpy's, and the result is to be as well."""
    return isinstance(value, np.ndarray)


def is_host_array(value: Any) -> bool:
    """Whether it is a jax.Array in host memory."""
    if not is_jax_array(value):
        return False
    platform: str = next(iter(value.devices())).platform
    return platform == "cpu"
