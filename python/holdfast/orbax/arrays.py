"""Array shapes and shardings: `orbax.checkpoint.arrays`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from holdfast._log import log
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._trees import structure
from holdfast.orbax.tree_paths import to_shape_dtype_struct

__all__ = [
    "Index",
    "Shape",
    "construct_maximal_shardings",
    "to_shape_dtype_struct",
]

Shape: TypeAlias = tuple[int, ...]
Index: TypeAlias = tuple[slice, ...]


def construct_maximal_shardings(
    abstract_state: Any, devices: Sequence[Any] | None = None
) -> Any:
    """Shards each array over as many devices as its shape allows.

    The longest axis is divided first, by the greatest common divisor of its
    length and the remaining number of devices. MaxText uses this function to
    load checkpoints of unknown layout; Orbax's documentation says that the
    function may change.

    Args:
        abstract_state: a tree of jax.ShapeDtypeStruct.
        devices: the devices to use; None means all of jax's devices.

    Returns:
        A tree of jax.sharding.NamedSharding with the same structure; the mesh
        axes are named a, b, …. An array is replicated if all its dimensions are
        smaller than the number of jax's devices.
    """
    chosen = list(devices or require_jax("a sharding").devices())
    flat = structure.flatten(abstract_state)
    shardings = [_maximal_sharding(leaf.shape, chosen) for leaf in flat.leaves]
    total = sum(
        math.prod(sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf, sharding in zip(flat.leaves, shardings, strict=True)
    )
    log.info("Expected per-device HBM consumption: %s", total)
    it = iter(shardings)
    return structure.map_leaves(lambda _: next(it), abstract_state)


def _maximal_sharding(shape: Shape, devices: list[Any]) -> Any:
    jax = require_jax("a sharding")
    left = len(devices)
    sizes: list[int] = []
    spec: list[str | None] = [None] * len(shape)
    if not shape or max(shape) < jax.device_count():
        spec = []
        sizes = [left]
        left = 1
    for i in np.argsort(shape)[::-1] if spec else ():
        # As in Orbax, an axis shorter than `left` is not split.
        parts = math.gcd(shape[i], left) if shape[i] >= left else 1
        if parts > 1:
            spec[i] = _axis_name(len(sizes))
            sizes.append(parts)
            left //= parts
    if left > 1:
        sizes.append(left)
    names = tuple(map(_axis_name, range(len(sizes))))
    mesh = jax.sharding.Mesh(np.asarray(devices).reshape(sizes), names)
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


def _axis_name(index: int) -> str:
    return chr(ord("a") + index)
