"""Imports jax only when a request needs it; else uses jax if it is imported.

All code of holdfast.orbax that uses jax goes through this module, so numpy
trees do not need jax.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from holdfast._lazy import importing


def imported_jax() -> Any | None:
    """Returns the module jax if the program has imported it, or None.

    Without jax there can be no jax.Array, no sharding and no custom node.
    """
    return sys.modules.get("jax")


def require_jax(why: str) -> Any:
    """Returns the module jax.

    Args:
        why: what needs jax, for the message.

    Raises:
        ImportError: jax is not installed.
    """
    try:
        with importing:
            import jax
    except ImportError as error:
        raise ImportError(f"{why} needs jax, which is not installed") from error
    return jax


def is_jax_array(value: Any) -> bool:
    """Returns whether the value is a jax.Array, including typed PRNG keys."""
    jax = imported_jax()
    return jax is not None and isinstance(value, jax.Array)


def is_shape_dtype_struct(value: Any) -> bool:
    """Returns whether the value is a jax.ShapeDtypeStruct."""
    jax = imported_jax()
    return jax is not None and isinstance(value, jax.ShapeDtypeStruct)


def is_prng_key_dtype(dtype: Any) -> bool:
    """Returns whether the dtype is the extended dtype of typed PRNG keys."""
    jax = imported_jax()
    if jax is None or dtype is None or isinstance(dtype, np.dtype):
        return False
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


@functools.cache
def format_class() -> Any:
    """Returns jax's class for a sharding with a device-local layout."""
    with importing:
        from jax.experimental import layout

    return getattr(layout, "Format", None) or layout.Layout


def is_format(value: Any) -> bool:
    """Returns whether the value is a sharding with a layout
    (`jax.experimental.layout.Format`)."""
    return imported_jax() is not None and isinstance(value, format_class())


def sharding_or_format(value: Any, support_format: bool) -> Any | None:
    """Returns the placement that a target leaf requests.

    Args:
        value: a jax.Array, ShapeDtypeStruct, ArrayMetadata or anything else.
        support_format: include a jax leaf's layout with its sharding.

    Returns:
        A jax Sharding or Format, or ShardingMetadata; None if the leaf requests
        no placement.
    """
    if not hasattr(value, "sharding"):
        return None
    if support_format and getattr(value, "format", None) is not None:
        layout_name = (
            "layout"
            if hasattr(value.format, "layout")
            else "device_local_layout"
        )
        if getattr(value.format, layout_name) is not None:
            return value.format
    return value.sharding


def single_device_sharding(device: Any) -> Any:
    """Returns the sharding that puts a complete array on one device."""
    jax = require_jax("placing an array on a device")
    make = getattr(jax.sharding, "make_single_device_sharding", None)
    return (make or jax.sharding.SingleDeviceSharding)(device)
