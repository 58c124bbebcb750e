"""jax.Array to and from host memory, without a copy where JAX allows it.

Saving: the shards of a fully addressable array, how Orbax records its sharding
(`sharding_json`) and what one process would write as a unit (`write_shape`).
Loading: the boxes that a sharding's devices need, each read once, and the
array made of them.

Only imported when jax is: everything here may import it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from holdfast import _engine, errors

__all__ = [
    "Placement",
    "array_leaf",
    "is_array",
    "is_key_dtype",
    "placement",
    "put_all",
    "sharding_json",
    "write_shape",
]

Index = tuple[slice, ...]
Box = tuple[tuple[int, ...], tuple[int, ...]]  # origin, shape


def is_array(value: Any) -> bool:
    """A jax.Array that holds values: no tracer."""
    return isinstance(value, jax.Array) and not isinstance(
        value, jax.core.Tracer
    )


def is_key_dtype(dtype: Any) -> bool:
    """The dtype of typed PRNG keys."""
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def array_leaf(
    array: jax.Array,
    name: str = "",
    *,
    use_replica_parallel: bool | None = None,
    min_slice_bytes: int | None = None,
    max_replicas: int | None = None,
    write_sharding: bool = True,
) -> _engine.ArrayLeaf:
    """What the engine saves of `array`, borrowing its memory.

    Arguments after `name` (the leaf's, for errors) are Orbax's options of the
    same meaning; `use_replica_parallel` None: yes unless JAX_PLATFORMS names a
    GPU. Typed PRNG keys become their key data.

    Raises DeletedArrayError for an array that was deleted or donated, and
    InvalidArgumentError for one that is partly on other processes' devices.
    """
    if array.is_deleted():
        extents = ",".join(map(str, array.shape))
        raise errors.DeletedArrayError(
            f"Array has been deleted with shape={array.dtype}[{extents}]."
            f' (leaf "{name}")'
        )
    prng_impl = None
    if is_key_dtype(array.dtype):
        prng_impl = str(jax.random.key_impl(array))
        array = jax.random.key_data(array)
    if not array.is_fully_addressable:
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: the jax.Array of shape {array.shape} is partly on"
            " devices of other processes; saves from several processes are not"
            " part of this release"
        )
    sharding = array.sharding
    json_text = sharding_json(sharding) if write_sharding else None
    shape = array.shape
    if len(sharding.device_set) == 1:
        return _engine.ArrayLeaf(
            shape,
            [((0,) * len(shape), np.asarray(array))],
            sharding_json=json_text,
            prng_impl=prng_impl,
        )
    written = shape
    if use_replica_parallel is None:
        use_replica_parallel = _replica_parallel_default()
    if math.prod(shape) > 0:
        written = write_shape(
            sharding,
            shape,
            array.dtype.itemsize,
            use_replica_parallel=use_replica_parallel,
            min_slice_bytes=min_slice_bytes,
            max_replicas=max_replicas,
        )
    return _engine.ArrayLeaf(
        shape,
        [
            (_box(shard.index, shape)[0], np.asarray(shard.data))
            for shard in array.addressable_shards
            if shard.replica_id == 0
        ],
        sharding_json=json_text,
        prng_impl=prng_impl,
        write_shape=written,
    )


@functools.lru_cache(maxsize=1024)
def sharding_json(sharding: jax.sharding.Sharding) -> str | None:
    """The entry of `_sharding` that Orbax writes; None where it writes none."""
    if isinstance(sharding, jax.sharding.SingleDeviceSharding):
        (device,) = sharding.device_set
        return json.dumps(
            {
                "sharding_type": "SingleDeviceSharding",
                "device_str": str(device).replace("TFRT_CPU_", "cpu:"),
            }
        )
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return None
    mesh = sharding.mesh
    record: dict[str, Any] = {
        "sharding_type": "NamedSharding",
        "shape": list(mesh.devices.shape),
        "axis_names": list(mesh.axis_names),
    }
    axis_types = getattr(mesh, "axis_types", None)
    if axis_types is not None:
        record["axis_types"] = [str(axis_type) for axis_type in axis_types]
    record["partition_spec"] = list(sharding.spec)
    record["device_mesh"] = {"mesh": _device_ids(mesh.devices.tolist())}
    try:
        return json.dumps(record)
    except TypeError:  # axis names or spec entries that JSON does not have
        return None


def _device_ids(devices: Any) -> Any:
    if isinstance(devices, list):
        return [_device_ids(part) for part in devices]
    return {"id": devices.id}


def write_shape(
    sharding: jax.sharding.Sharding,
    shape: Sequence[int],
    itemsize: int,
    *,
    use_replica_parallel: bool = True,
    min_slice_bytes: int | None = None,
    max_replicas: int | None = None,
) -> tuple[int, ...]:
    """The shape of what each device writes, in elements.

    A shard's; with `use_replica_parallel` the replicas of a shard share it
    evenly along its first axis that divides.
    """
    shape = tuple(shape)
    shard_shape = tuple(sharding.shard_shape(shape))
    if not use_replica_parallel or not _may_slice(sharding, shard_shape):
        return shard_shape
    replica_count = _replica_count(sharding, shape)
    if max_replicas is not None:
        replica_count = min(replica_count, max_replicas)
    if replica_count <= 1 or math.prod(shard_shape) == 0:
        return shard_shape
    for axis, extent in enumerate(shard_shape):
        if extent % replica_count == 0:
            part = extent // replica_count
            sliced = shard_shape[:axis] + (part,) + shard_shape[axis + 1 :]
            enough = math.prod(sliced) * itemsize >= (min_slice_bytes or 0)
            return sliced if enough else shard_shape
    return shard_shape


def _replica_parallel_default() -> bool:
    platforms = os.environ.get("JAX_PLATFORMS", "")
    return "gpu" not in platforms and "cuda" not in platforms


def _may_slice(
    sharding: jax.sharding.Sharding, shard_shape: tuple[int, ...]
) -> bool:
    """Small arrays in pinned host memory have layouts that cannot be cut."""
    if sharding.memory_kind != "pinned_host":
        return True
    return (
        len(shard_shape) >= 2
        and math.prod(shard_shape) % 1024 == 0
        and shard_shape[-1] % 128 == 0
    )


@functools.lru_cache(maxsize=4096)
def _replica_count(
    sharding: jax.sharding.Sharding, shape: tuple[int, ...]
) -> int:
    boxes = list(_boxes(sharding, shape).values())
    return boxes.count(boxes[0])


def _box(index: Index, shape: Sequence[int]) -> Box:
    origin = []
    extents = []
    for part, extent in zip(index, shape, strict=True):
        start, stop, _ = part.indices(extent)
        origin.append(start)
        extents.append(stop - start)
    return tuple(origin), tuple(extents)


@dataclasses.dataclass
class Placement:
    """Host buffers for one array that is to be restored, and its sharding.

    Fill each of `buffers` with the box that starts at its key, hand it to
    `put_all` with the others of a tree, then call `finish`.
    """

    shape: tuple[int, ...]
    sharding: jax.sharding.Sharding
    buffers: dict[Box, np.ndarray[Any, np.dtype[Any]]]
    # Which box each device holds.
    boxes: dict[Any, Box]
    prng_impl: str | None = None
    # Set by put_all: the parts on their devices.
    parts: list[jax.Array] = dataclasses.field(default_factory=list)

    def sources(self) -> list[tuple[np.ndarray[Any, np.dtype[Any]], Any]]:
        """What goes where, one a part."""
        if len(self.boxes) == 1:
            (buffer,) = self.buffers.values()
            return [(buffer, self.sharding)]
        return [
            (self.buffers[box], device) for device, box in self.boxes.items()
        ]

    def finish(self) -> jax.Array:
        """The array. REQUIRES: put_all."""
        if len(self.boxes) == 1:
            (array,) = self.parts
        else:
            array = jax.make_array_from_single_device_arrays(
                self.shape, self.sharding, self.parts
            )
        if self.prng_impl is None:
            return array
        return jax.random.wrap_key_data(array, impl=self.prng_impl)


def put_all(placements: Sequence[Placement]) -> None:
    """Puts filled buffers on their devices, all of them in one call, which
    costs a third of a call each.

    CPU devices adopt the buffers, which must not change any more.
    """
    sources = [source for each in placements for source in each.sources()]
    if not sources:
        return
    buffers, devices = zip(*sources, strict=True)
    parts = iter(jax.device_put(list(buffers), list(devices)))
    for each in placements:
        each.parts = list(itertools.islice(parts, len(each.boxes)))


def placement(
    shape: Sequence[int],
    dtype: Any,
    sharding: jax.sharding.Sharding | None,
    *,
    prng_impl: str | None = None,
    name: str = "",
) -> Placement:
    """Buffers for an array of `shape` and `dtype` under `sharding`.

    Devices that hold the same box share a buffer. None: the default device.
    Raises InvalidArgumentError when the sharding does not fit the shape or
    has devices of other processes.
    """
    shape = tuple(shape)
    if sharding is None:
        device = jax.config.jax_default_device
        if device is None or isinstance(device, str):
            device = jax.local_devices(backend=device)[0]
        sharding = jax.sharding.SingleDeviceSharding(device)
    if not sharding.is_fully_addressable:
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: the target's sharding has devices of other"
            " processes; restores to several processes are not part of this"
            " release"
        )
    try:
        boxes = _boxes(sharding, shape)
    except ValueError as error:
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: the target's sharding does not fit its shape"
            f" {shape}: {error}"
        ) from error
    buffers = {
        box: _engine.empty(box[1], np.dtype(dtype))
        for box in dict.fromkeys(boxes.values())
    }
    return Placement(shape, sharding, buffers, boxes, prng_impl)


@functools.lru_cache(maxsize=4096)
def _boxes(
    sharding: jax.sharding.Sharding, shape: tuple[int, ...]
) -> dict[Any, Box]:
    """What each device holds."""
    return {
        device: _box(index, shape)
        for device, index in sharding.devices_indices_map(shape).items()
    }
