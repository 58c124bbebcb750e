"""Converts jax.Arrays to and from host memory, without a copy if JAX allows it.

For saves, it returns the shards of a fully addressable array, Orbax's record of
its sharding (`sharding_json`) and the shape that each device writes
(`write_shape`). For loads, it returns the boxes that a sharding's devices need,
each read once, and builds the array from them.

This module imports jax. It is imported only if the program has imported jax.
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

from holdfast import _device_arrays, _engine, errors
from holdfast._buffers import Buffer, DeviceBuffer, Request
from holdfast._pytree import joined

__all__ = [
    "Placement",
    "array_leaf",
    "check_keeps",
    "checked_placement",
    "data_of",
    "is_array",
    "is_key_dtype",
    "own_parts",
    "placement",
    "placement_on",
    "put_all",
    "replicas_leaf",
    "sharding_json",
    "shares_replicas_by_default",
    "split_of",
    "whole_leaf",
    "write_shape",
]

Index = tuple[slice, ...]
Box = tuple[tuple[int, ...], tuple[int, ...]]  # origin, shape


def is_array(value: Any) -> bool:
    """Returns whether `value` is a jax.Array with values, and not a tracer."""
    return isinstance(value, jax.Array) and not isinstance(
        value, jax.core.Tracer
    )


def is_key_dtype(dtype: Any) -> bool:
    """Returns whether `dtype` is a dtype of typed PRNG keys."""
    return not isinstance(dtype, np.dtype) and bool(
        jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    )


def array_leaf(
    array: jax.Array,
    name: str | tuple[Any, ...] = "",
    *,
    use_replica_parallel: bool | None = None,
    min_slice_bytes: int | None = None,
    max_replicas: int | None = None,
    write_sharding: bool = True,
    own_part_only: bool = False,
    replica_id: int | None = 0,
    immutable: bool = True,
    takes_devices: bool = True,
) -> _engine.ArrayLeaf:
    """Returns the leaf that the engine saves for `array`, borrowing its memory.

    `name` is the leaf's name, or the path of its keys, for errors. The other
    arguments correspond to Orbax's options; with None, `use_replica_parallel`
    is true unless JAX_PLATFORMS names a GPU. With `own_part_only`, returns only
    the part that this process writes when all processes that hold the array
    write together. Without `immutable`, a background save copies the elements
    before it returns. Without `takes_devices`, elements on devices are copied
    to the host at once. Typed PRNG keys become their key data.

    Raises DeletedArrayError for an array that was deleted or donated. Without
    `own_part_only`, raises InvalidArgumentError for an array that is partly on
    devices of other processes.
    """
    if array.is_deleted():
        extents = ",".join(map(str, array.shape))
        raise errors.DeletedArrayError(
            f"Array has been deleted with shape={array.dtype}[{extents}]."
            f' (leaf "{_text_of(name)}")'
        )
    array, prng_impl = data_of(array)
    is_all_here = array.is_fully_addressable
    if not is_all_here and not own_part_only:
        raise errors.InvalidArgumentError(
            f"leaf {_text_of(name)!r}: the jax.Array of shape {array.shape} is"
            " partly on devices of other processes, which would have to save"
            " with this one; holdfast.orbax does that"
        )
    sharding = array.sharding
    json_text = sharding_json(sharding) if write_sharding else None
    shape = array.shape
    if is_all_here and len(sharding.device_set) == 1:
        return _engine.ArrayLeaf(
            shape,
            [((0,) * len(shape), _elements(array, takes_devices))],
            immutable=immutable,
            sharding_json=json_text,
            prng_impl=prng_impl,
        )
    if use_replica_parallel is None:
        use_replica_parallel = shares_replicas_by_default()
    split = Split(None, shape, 1)
    if math.prod(shape) > 0:
        split = split_of(
            sharding,
            shape,
            array.dtype.itemsize,
            use_replica_parallel=use_replica_parallel,
            min_slice_bytes=min_slice_bytes,
            max_replicas=max_replicas,
        )
    if own_part_only:
        parts = own_parts(
            array, split, replica_id, takes_devices=takes_devices
        )
    else:
        # All replicas are local, so writing one complete shard is less work.
        parts = _whole_shards(array, 0, takes_devices)
    return _engine.ArrayLeaf(
        shape,
        parts,
        immutable=immutable,
        sharding_json=json_text,
        prng_impl=prng_impl,
        write_shape=split.shape,
        dtype=np.dtype(array.dtype) if own_part_only else None,
    )


def data_of(array: jax.Array) -> tuple[jax.Array, str | None]:
    """Returns the array and None, or a typed PRNG key's data and
    implementation."""
    if not is_key_dtype(array.dtype):
        return array, None
    return jax.random.key_data(array), str(jax.random.key_impl(array))


def _text_of(name: str | tuple[Any, ...]) -> str:
    return name if isinstance(name, str) else joined(name)


def whole_leaf(
    array: jax.Array,
    name: str | tuple[Any, ...] = "",
    *,
    immutable: bool = True,
    takes_devices: bool = True,
) -> _engine.ArrayLeaf:
    """Returns the leaf for an array on this process's devices, as one part.

    `immutable`, `takes_devices` and errors are as in `array_leaf`.
    """
    if array.is_deleted() or len(array.sharding.device_set) == 1:
        return array_leaf(
            array, name, immutable=immutable, takes_devices=takes_devices
        )
    array, prng_impl = data_of(array)
    return _engine.ArrayLeaf(
        array.shape,
        [((0,) * array.ndim, _on_host(array))],
        immutable=immutable,
        sharding_json=sharding_json(array.sharding),
        prng_impl=prng_impl,
    )


def replicas_leaf(
    array: jax.Array, name: str | tuple[Any, ...] = ""
) -> _engine.ArrayLeaf:
    """Returns the leaf for all copies that this process's devices hold of an
    array.

    Raises DeletedArrayError like `array_leaf`.
    """
    if array.is_deleted():
        return array_leaf(array, name)
    array, _ = data_of(array)
    shards = _whole_shards(array, None, takes_devices=False)
    return _engine.ArrayLeaf(array.shape, shards, dtype=np.dtype(array.dtype))


@dataclasses.dataclass(frozen=True)
class Split:
    """How replicas of a shard share it.

    Attributes:
        axis: the axis to cut; None if one replica writes the complete shard.
        shape: the shape that each device writes, in elements.
        replica_count: the number of replicas that share the shard.
    """

    axis: int | None
    shape: tuple[int, ...]
    replica_count: int


NumpyArray = np.ndarray[Any, np.dtype[Any]]
Elements = NumpyArray | _engine.DeviceArray
Part = tuple[tuple[int, ...], Elements]


def _on_host(array: jax.Array) -> NumpyArray:
    """Returns the elements in host memory, without leaving a copy of them in
    the program's array."""
    # jax keeps a host copy in the object that it converts, so give it another
    # object with the same buffers.
    shards = [shard.data for shard in array.addressable_shards]
    other = jax.make_array_from_single_device_arrays(
        array.shape, array.sharding, shards
    )
    return np.asarray(other)


def _elements(array: jax.Array, takes_devices: bool) -> Elements:
    """Returns the elements of an array on a single device, where they are if
    the engine can read them there."""
    (device,) = array.sharding.device_set
    if device.platform == "cpu":
        return np.asarray(array)  # shares the memory
    described = _device_arrays.of_jax(array) if takes_devices else None
    return _on_host(array) if described is None else described


def own_parts(
    array: jax.Array,
    split: Split,
    replica_id: int | None = 0,
    *,
    takes_devices: bool = False,
) -> list[Part]:
    """Returns the parts of an array that this process writes: (origin, values)
    pairs.

    Args:
        array: an array over devices of any processes; not typed PRNG keys.
        split: how replicas share a shard.
        replica_id: the replica to write if replicas do not share. None means
            the replica of the first local shard, so each process writes
            everything that it has.
        takes_devices: values may be in the memory of devices.
    """
    if split.axis is None:
        if replica_id is None:
            first = next(iter(array.addressable_shards), None)
            replica_id = 0 if first is None else first.replica_id
        return _whole_shards(array, replica_id, takes_devices)
    return [
        _slice_of(shard, array.shape, split, takes_devices)
        for shard in array.addressable_shards
        if shard.replica_id < split.replica_count
    ]


def _whole_shards(
    array: jax.Array, replica_id: int | None, takes_devices: bool
) -> list[Part]:
    """Returns a replica's shards on this process; None means all replicas."""
    return [
        (
            _box(shard.index, array.shape)[0],
            _elements(shard.data, takes_devices),
        )
        for shard in array.addressable_shards
        if replica_id in (None, shard.replica_id)
    ]


def _slice_of(
    shard: Any, shape: tuple[int, ...], split: Split, takes_devices: bool
) -> Part:
    """Returns the share of a shard that its replica writes."""
    axis = split.axis
    assert axis is not None
    extent = split.shape[axis]
    start = shard.replica_id * extent
    origin = list(_box(shard.index, shape)[0])
    origin[axis] += start
    data = shard.data
    described = _device_arrays.of_jax(data) if takes_devices else None
    if described is not None:
        inner_origin = [0] * len(shape)
        inner_origin[axis] = start
        return tuple(origin), described.part(inner_origin, split.shape)
    if shard.device.platform == "cpu":
        inside = (slice(None),) * axis + (slice(start, start + extent),)
        return tuple(origin), np.asarray(data)[inside]
    # Cut on the device, so the rest is not copied to the host.
    mesh = jax.sharding.Mesh(np.array([shard.device]), ("device",))
    with jax.sharding.set_mesh(mesh):
        data = jax.lax.slice_in_dim(data, start, start + extent, axis=axis)
    return tuple(origin), np.asarray(data)


@functools.lru_cache(maxsize=1024)
def sharding_json(sharding: jax.sharding.Sharding) -> str | None:
    """Returns the entry that Orbax writes to `_sharding`, or None."""
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
    except TypeError:  # axis names or spec entries that are not JSON
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
    """Returns the shape that each device writes, in elements.

    It is a shard's shape. With `use_replica_parallel` the replicas of a shard
    share the shard evenly along its first divisible axis.
    """
    return split_of(
        sharding,
        shape,
        itemsize,
        use_replica_parallel=use_replica_parallel,
        min_slice_bytes=min_slice_bytes,
        max_replicas=max_replicas,
    ).shape


def split_of(
    sharding: jax.sharding.Sharding,
    shape: Sequence[int],
    itemsize: int,
    *,
    use_replica_parallel: bool = True,
    min_slice_bytes: int | None = None,
    max_replicas: int | None = None,
) -> Split:
    """Returns how replicas of a shard share it; see `write_shape`."""
    shape = tuple(shape)
    shard_shape = tuple(sharding.shard_shape(shape))
    whole = Split(None, shard_shape, 1)
    if not use_replica_parallel or not _may_slice(sharding, shard_shape):
        return whole
    replica_count = _replica_count(sharding, shape)
    if max_replicas is not None:
        replica_count = min(replica_count, max_replicas)
    if replica_count <= 1 or math.prod(shard_shape) == 0:
        return whole
    for axis, extent in enumerate(shard_shape):
        if extent % replica_count == 0:
            part = extent // replica_count
            sliced = shard_shape[:axis] + (part,) + shard_shape[axis + 1 :]
            enough = math.prod(sliced) * itemsize >= (min_slice_bytes or 0)
            return Split(axis, sliced, replica_count) if enough else whole
    return whole


def shares_replicas_by_default() -> bool:
    """Returns whether JAX_PLATFORMS names no GPU, ignoring case."""
    platforms = os.environ.get("JAX_PLATFORMS", "").lower()
    return "gpu" not in platforms and "cuda" not in platforms


def _may_slice(
    sharding: jax.sharding.Sharding, shard_shape: tuple[int, ...]
) -> bool:
    """Returns False for shards in pinned host memory that cannot be sliced.

    Their layout is in tiles, which a slice must fill.
    """
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
    indices = sharding.devices_indices_map(shape).values()
    boxes = [_box(index, shape) for index in indices]
    return boxes.count(boxes[0])


def _box(index: Index, shape: Sequence[int]) -> Box:
    origin = []
    extents = []
    for part, extent in zip(index, shape, strict=True):
        start, stop, step = part.indices(extent)
        if step != 1:
            raise ValueError(
                f"Non-contiguous domain for index: {index} not supported."
                f" Found: {step}"
            )
        origin.append(start)
        extents.append(stop - start)
    return tuple(origin), tuple(extents)


@dataclasses.dataclass
class Placement:
    """Host buffers for one array to restore, and its sharding.

    Read its `requests`, or fill each of `buffers` with the box that starts at
    its key. Then pass the placement to `put_all` together with the tree's other
    placements, and call `finish`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    # The array's final placement: a Sharding or a Format.
    sharding: Any
    buffers: dict[Box, Buffer]
    # The box that each device of this process holds.
    boxes: dict[Any, Box]
    prng_impl: str | None = None
    # The parts on their devices, set by put_all.
    parts: list[jax.Array] = dataclasses.field(default_factory=list)

    def sources(self) -> list[tuple[np.ndarray[Any, np.dtype[Any]], Any]]:
        """Returns (array, its device or sharding) for each part."""
        if self._is_whole():
            (buffer,) = self.buffers.values()
            return [(buffer.array, self.sharding)]
        return [
            (self.buffers[box].array, device)
            for device, box in self.boxes.items()
        ]

    def goes_with_others(self) -> bool:
        """Returns whether the parts go unchanged to their devices' default
        memory."""
        if not self.boxes or not isinstance(
            self.sharding, jax.sharding.Sharding
        ):
            return False
        kind = self.sharding.memory_kind
        return kind is None or all(
            kind == device.default_memory().kind for device in self.boxes
        )

    def _is_whole(self) -> bool:
        """Returns whether one device of this process holds the complete
        array."""
        return len(self.sharding.device_set) == 1 and len(self.boxes) == 1

    def requests(self, leaf: int, *, takes_devices: bool) -> list[Request]:
        """Returns what to read of a leaf that has the array's shape.

        With `takes_devices`, each device's box is read into the memory of the
        device, if the engine can write there, and no buffer is used.
        """
        if takes_devices and self._is_on_cuda():
            return [
                (
                    leaf,
                    DeviceBuffer(
                        box[0], functools.partial(self._new_part, device, box)
                    ),
                )
                for device, box in self.boxes.items()
            ]
        return [
            (leaf, buffer)
            for box, buffer in self.buffers.items()
            if math.prod(box[1]) > 0
        ]

    def _is_on_cuda(self) -> bool:
        return (
            self.goes_with_others()
            and 0 not in self.shape
            and jax.dtypes.canonicalize_dtype(self.dtype) == self.dtype
            and all(
                _device_arrays.can_fill(device, self.dtype)
                for device in self.boxes
            )
        )

    def _new_part(self, device: Any, box: Box) -> _engine.DeviceArray:
        part = jax.numpy.empty(box[1], self.dtype, device=device)
        self.parts.append(part)
        return _device_arrays.to_fill(part)

    def finish(self) -> jax.Array:
        """Returns the array. REQUIRES: `put_all`, after the read."""
        array = self._data()
        if self.prng_impl is None:
            return array
        return jax.random.wrap_key_data(array, impl=self.prng_impl)

    def _data(self) -> jax.Array:
        if self.boxes and not self.parts:
            return jax.make_array_from_callback(
                self.shape,
                self.sharding,
                lambda index: self.buffers[_box(index, self.shape)].array,
            )
        if self.parts and self._is_whole():
            return self.parts[0]
        # Without parts, jax cannot take the dtype from them.
        of_none = {} if self.parts else {"dtype": self.dtype}
        return jax.make_array_from_single_device_arrays(
            self.shape, self.sharding, self.parts, **of_none
        )


def put_all(placements: Sequence[Placement]) -> None:
    """Puts all filled buffers on their devices in one call.

    One call costs a third of separate calls, and lets the transfers overlap.
    `finish` handles layouts and other memory kinds. CPU devices adopt the
    buffers, which must not change afterwards.
    """
    together = [
        each
        for each in placements
        if each.goes_with_others() and not each.parts
    ]
    sources = [source for each in together for source in each.sources()]
    if not sources:
        return
    buffers, devices = zip(*sources, strict=True)
    parts = iter(jax.device_put(list(buffers), list(devices)))
    for each in together:
        each.parts = list(itertools.islice(parts, len(each.boxes)))


def placement(
    shape: Sequence[int],
    dtype: Any,
    sharding: jax.sharding.Sharding | None,
    *,
    prng_impl: str | None = None,
    name: str = "",
) -> Placement:
    """Returns buffers for an array of `shape` and `dtype` under `sharding`.

    Devices that hold the same box share a buffer. A sharding of None means the
    default device. Raises InvalidArgumentError if the sharding does not fit
    the shape.
    """
    shape = tuple(shape)
    if sharding is None:
        device = jax.config.jax_default_device
        if device is None or isinstance(device, str):
            device = jax.local_devices(backend=device)[0]
        sharding = jax.sharding.SingleDeviceSharding(device)
    try:
        boxes = _boxes(sharding, shape)
    except ValueError as error:
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: the target's sharding does not fit its shape"
            f" {shape}: {error}"
        ) from error
    return _placement_of(shape, dtype, sharding, boxes, prng_impl)


def placement_on(
    shape: tuple[int, ...], dtype: np.dtype[Any], device: jax.Device
) -> Placement:
    """Returns buffers for an array on a single device."""
    sharding = jax.sharding.SingleDeviceSharding(device)
    return placement(shape, dtype, sharding)


def check_keeps(dtype: np.dtype[Any]) -> None:
    """Raises InvalidArgumentError if jax would give arrays of `dtype` another
    dtype."""
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise errors.InvalidArgumentError(
            f"jax would make {dtype} elements narrower; set jax_enable_x64, or"
            ' load with arrays="numpy"'
        )


def checked_placement(
    shape: tuple[int, ...],
    dtype: Any,
    sharding: Any,
    prng_impl: str | None = None,
) -> Placement:
    """Like `placement`, for a sharding or Format, and raises jax's own errors.

    Raises ValueError if the sharding does not fit the shape.
    """
    plain = getattr(sharding, "sharding", sharding)
    plain.shard_shape(shape)  # raises if the shape cannot be divided
    boxes = _boxes(plain, shape)
    return _placement_of(shape, dtype, sharding, boxes, prng_impl)


def _placement_of(
    shape: tuple[int, ...],
    dtype: Any,
    sharding: Any,
    boxes: dict[Any, Box],
    prng_impl: str | None,
) -> Placement:
    dtype = np.dtype(dtype)
    buffers = {
        box: Buffer(box[0], box[1], dtype)
        for box in dict.fromkeys(boxes.values())
    }
    return Placement(shape, dtype, sharding, buffers, boxes, prng_impl)


@functools.lru_cache(maxsize=4096)
def _boxes(
    sharding: jax.sharding.Sharding, shape: tuple[int, ...]
) -> dict[Any, Box]:
    """Returns the box that each device of this process holds."""
    indices = sharding.addressable_devices_indices_map(shape)
    return {
        device: _box(index, shape)
        for device, index in indices.items()
        if index is not None
    }
