"""Makes meshes over this process's devices, and shardings on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")


def mesh(*shape: int) -> Any:
    """Returns a mesh of the first devices, with axes x, y and z."""
    devices = np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape)
    return jax.sharding.Mesh(devices, ("x", "y", "z")[: len(shape)])


def sharding(shape: tuple[int, ...], *spec: Any) -> Any:
    """Returns the sharding `spec` on a mesh of shape `shape`."""
    return jax.sharding.NamedSharding(
        mesh(*shape), jax.sharding.PartitionSpec(*spec)
    )
