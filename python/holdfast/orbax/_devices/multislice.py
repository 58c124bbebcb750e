"""Copies the values that one replica has read to all replicas.

One axis of a mesh is the axis of replicas: each index along it selects a set of
devices that together hold the complete array. The devices of the primary
replica supply its elements, and all other devices supply zeros. A sum over the
axis then gives every device its part. The sum is over bits, not numbers, so
every element survives (-0.0, NaNs, booleans).

Units: bytes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast._log import log
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax.multihost import (
    process_index,
    unique_processes_from_devices,
)

# While arrays are summed, three copies of each are in memory.
_COPIES = 3


def replica_devices(mesh: Any, replica: int, axis: int) -> Any:
    """Returns a replica's devices as an array without the replica axis."""
    return np.take(mesh.devices, replica, axis=axis)


def local_replica_sharding(sharding: Any, axis: int, preferred: int = 0) -> Any:
    """Returns the sharding over the devices of this process's replica.

    Args:
        sharding: the sharding over all replicas.
        axis: the mesh axis of replicas.
        preferred: the replica to choose if the process is in several.

    Raises:
        ValueError: the process has no device in the mesh.
    """
    jax = require_jax("a sharding")
    mesh = sharding.mesh
    count = 1 if mesh.devices.ndim == 1 else mesh.devices.shape[axis]
    for replica in sorted(range(count), key=lambda i: i != preferred):
        devices = replica_devices(mesh, replica, axis)
        if process_index() in unique_processes_from_devices(
            np.asarray(devices)
        ):
            own = np.expand_dims(devices, axis=axis)
            own_mesh = jax.sharding.Mesh(own, mesh.axis_names)
            return jax.sharding.NamedSharding(own_mesh, sharding.spec)
    raise ValueError(
        f"process_index {process_index()} does not exist in provided"
        " `global_mesh`"
    )


def bytes_per_device(array: Any) -> int:
    """Returns how many bytes of an array or ShapeDtypeStruct a device holds."""
    shard_shape = array.sharding.shard_shape(array.shape)
    return int(math.prod(shard_shape) * array.dtype.itemsize)


def pieces(
    arrays: Sequence[Any],
    memory_limit_bytes: int | None,
    memory_scaling_factor: float | None,
) -> list[range]:
    """Divides arrays into runs, each of which is summed in one operation.

    Args:
        arrays: jax.Arrays or ShapeDtypeStructs.
        memory_limit_bytes: the limit for a run on one device; a larger array is
            a run by itself. None means the free memory times
            `memory_scaling_factor`.
        memory_scaling_factor: the fraction of free memory to use.

    Raises:
        ValueError: the factor exceeds 1, or the size of memory is not known.
    """
    sizes = [bytes_per_device(array) for array in arrays]
    if memory_limit_bytes is None:
        factor = (
            0.75 if memory_scaling_factor is None else memory_scaling_factor
        )
        memory_limit_bytes = _available_bytes(sum(sizes), factor)
    runs: list[range] = []
    start, total = 0, 0
    for i, size in enumerate(sizes):
        if i > start and total + size > memory_limit_bytes:
            runs.append(range(start, i))
            start, total = i, 0
        if size > memory_limit_bytes:
            log.warning(
                "in_tree leaf size exceeds memory limit for broadcasting. Leaf"
                " size: %d bytes. Allowed memory limit: %d bytes. Proceeding.",
                size,
                memory_limit_bytes,
            )
        total += size
    runs.append(range(start, len(sizes)))
    return [run for run in runs if run]


def _available_bytes(used_bytes: int, scaling_factor: float) -> int:
    if scaling_factor > 1:
        raise ValueError("scaling_factorshould be less than 1.")
    free_bytes = _device_memory_bytes() - used_bytes
    return int(free_bytes * scaling_factor / _COPIES)


def _device_memory_bytes() -> int:
    device = require_jax("devices").local_devices()[0]
    if device.platform == "cpu":
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if device.platform not in ("tpu", "gpu"):
        raise ValueError("Only select TPU and GPU devices are supported.")
    return int(device.memory_stats()["bytes_limit"])


def broadcast_one_replica_to_all(
    arrays: Sequence[Any],
    mesh: Any,
    replica_axis_index: int,
    is_source: bool,
    memory_limit_bytes: int | None = None,
    memory_scaling_factor: float | None = 0.75,
) -> tuple[tuple[Any, ...], int]:
    """Copies the values of one replica to all replicas.

    All processes call it, with arrays of the same shapes and dtypes.

    Args:
        arrays: jax.Arrays over one replica's devices; on processes outside the
            replica, ShapeDtypeStructs with the same NamedSharding. The arrays
            are deleted.
        mesh: the mesh of all replicas.
        replica_axis_index: the mesh axis of replicas.
        is_source: whether this process has the replica's arrays.
        memory_limit_bytes: see `pieces`.
        memory_scaling_factor: see `pieces`.

    Returns:
        The arrays over the complete mesh, and the number of sums.

    Raises:
        ValueError: an array has no NamedSharding.
    """
    jax = require_jax("a broadcast")
    runs = pieces(arrays, memory_limit_bytes, memory_scaling_factor)
    results: list[Any] = []
    for run in runs:
        stacked = tuple(
            _stack(arrays[i], mesh, replica_axis_index, is_source) for i in run
        )
        out = [
            jax.sharding.NamedSharding(
                mesh, jax.sharding.PartitionSpec(*array.sharding.spec[1:])
            )
            for array in stacked
        ]
        summed = jax.jit(_sum_bits, out_shardings=tuple(out))(stacked)
        jax.block_until_ready(summed)
        for i in run:
            if isinstance(arrays[i], jax.Array):
                arrays[i].delete()
        results.extend(summed)
    return tuple(results), len(runs)


def _stack(array: Any, mesh: Any, axis: int, is_source: bool) -> Any:
    """Adds a first dimension to the array, with one index per replica."""
    jax = require_jax("a broadcast")
    sharding = array.sharding
    if not isinstance(sharding, jax.sharding.NamedSharding):
        raise ValueError(
            "Must provide input arrays with NamedSharding. Got"
            f" {type(sharding)} instead."
        )
    shape = (mesh.devices.shape[axis], *array.shape)
    spec = jax.sharding.PartitionSpec(mesh.axis_names[axis], *sharding.spec)
    stacked = jax.sharding.NamedSharding(mesh, spec)
    own = {}
    if is_source:
        own = {shard.device: shard.data for shard in array.addressable_shards}
    shard_shape = stacked.shard_shape(shape)
    parts = []
    for device in stacked.addressable_devices_indices_map(shape):
        part = own.get(device)
        if part is None:
            zeros = np.zeros(shard_shape, array.dtype)
            parts.append(jax.device_put(zeros, device))
        else:
            parts.append(_with_leading_axis(part, device))
    return jax.make_array_from_single_device_arrays(shape, stacked, parts)


def _with_leading_axis(part: Any, device: Any) -> Any:
    jax = require_jax("a broadcast")
    mesh = jax.sharding.Mesh(np.array([device]), ("device",))
    with jax.sharding.set_mesh(mesh):
        return part.reshape(1, *part.shape)


def _sum_bits(stacked: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sums over the first dimension, along which only one index is not zero."""
    return tuple(_sum_bits_of(array) for array in stacked)


def _sum_bits_of(array: Any) -> Any:
    jax = require_jax("a broadcast")
    jnp = jax.numpy
    dtype = array.dtype
    if dtype == jnp.bool_:
        return jnp.any(array, axis=0)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return jax.lax.complex(
            _sum_bits_of(jnp.real(array)), _sum_bits_of(jnp.imag(array))
        )
    if jnp.issubdtype(dtype, jnp.integer):
        wide = jnp.int8 if dtype.name in ("int2", "int4") else dtype
        wide = jnp.uint8 if dtype.name in ("uint2", "uint4") else wide
        summed = jnp.sum(array.astype(wide), axis=0, dtype=wide)
        return summed.astype(dtype)
    bits = f"uint{8 * dtype.itemsize}"
    if dtype.name.startswith("float4"):
        bits = "uint4"
        as_bits = jax.lax.bitcast_convert_type(array, bits).astype("uint8")
        summed = jnp.sum(as_bits, axis=0, dtype="uint8").astype(bits)
    else:
        as_bits = jax.lax.bitcast_convert_type(array, bits)
        summed = jnp.sum(as_bits, axis=0, dtype=bits)
    return jax.lax.bitcast_convert_type(summed, dtype)
