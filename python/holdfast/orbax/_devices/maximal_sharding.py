"""Shardings that divide each array over as many devices as its shape allows.

MaxText loads checkpoints of unknown layout so. Orbax has the function below
`_src`, and says that it may change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.orbax._devices.optional_jax import require_jax


def construct_maximal_shardings(
    abstract_state: Any, devices: Sequence[Any] | None = None
) -> Any:
    """A sharding for each array of a tree; axes of the meshes are a, b, ….

    The longest axis is divided first, by the greatest common divisor of its
    length and the number of devices that are left to divide by. Arrays that
    are shorter than that number in every direction are replicated.

    Args:
        abstract_state: a tree of jax.ShapeDtypeStruct.
        devices: those to divide over; None: all.

    Returns:
        A tree of jax.sharding.NamedSharding.
    """
    jax = require_jax("a sharding")
    chosen = jax.devices() if devices is None else list(devices)
    return jax.tree.map(lambda x: _sharding(x.shape, chosen), abstract_state)


def _sharding(shape: tuple[int, ...], devices: list[Any]) -> Any:
    jax = require_jax("a sharding")
    if max(shape, default=0) < jax.device_count():
        spec = jax.sharding.PartitionSpec()
        return jax.sharding.NamedSharding(
            jax.sharding.Mesh(np.asarray(devices), ("a",)), spec
        )
    left = len(devices)
    mesh_shape: list[int] = []
    names: list[str | None] = [None] * len(shape)
    for axis in np.argsort(shape)[::-1]:
        parts = math.gcd(shape[axis], left)
        # An axis shorter than what is left stays whole, as in Orbax.
        if shape[axis] < left or parts == 1:
            continue
        names[axis] = _axis_name(len(mesh_shape))
        mesh_shape.append(parts)
        left //= parts
    if left > 1:
        mesh_shape.append(left)
    mesh = jax.sharding.Mesh(
        np.asarray(devices).reshape(mesh_shape),
        tuple(map(_axis_name, range(len(mesh_shape)))),
    )
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*names))


def _axis_name(index: int) -> str:
    return chr(ord("a") + index)
