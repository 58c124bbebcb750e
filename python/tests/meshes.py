"""Meshes over the devices of this process, and shardings on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")


def mesh(*shape: int) -> Any:
    """The first devices, with axes x, y and z."""
    devices = np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape)
    return jax.sharding.Mesh(devices, ("x", "y", "z")[: len(shape)])


def sharding(shape: tuple[int, ...], *spec: Any) -> Any:
    """The axes of `spec` on a mesh of that shape."""
    return jax.sharding.NamedSharding(
        mesh(*shape), jax.sharding.PartitionSpec(*spec)
    )
