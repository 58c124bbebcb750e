"""Writes and reads single jax.Arrays by their specs: `async_serialize` and
`async_deserialize`."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np

from holdfast._buffers import Buffer
from holdfast._lazy import importing
from holdfast._target_leaves import put_all
from holdfast.orbax._devices.monitoring import record_event
from holdfast.orbax._devices.placement import check_shape, place, stored_part
from holdfast.orbax._leaves.limits import (
    ByteLimiter,
    get_byte_limiter,
    reserved_bytes,
)
from holdfast.orbax.multihost import is_primary_host
from holdfast.orbax.serialization import handles

__all__ = ["async_deserialize", "async_serialize"]


async def async_serialize(
    arr_inp: Any,
    tensorstore_spec: dict[str, Any],
    context: Any | None = None,
    primary_host: int | None = 0,
    replica_id: int = 0,
    use_replica_parallel: bool = True,
    transaction: Any | None = None,
    byte_limiter: ByteLimiter | None = None,
) -> None:
    """Writes this process's part of a jax.Array.

    Args:
        arr_inp: the array.
        tensorstore_spec: where to write the array, with driver zarr, zarr3 or
            cast. If the spec lacks `metadata` or `dtype`, they are added.
        context: the result of `get_ts_context`; None means the default limits.
        primary_host: the process that creates the array; None means every
            process.
        replica_id: the replica to write, unless replicas share the array.
        use_replica_parallel: replicas of a shard share the writing.
        transaction: must be None.
        byte_limiter: limits the bytes being written.

    Raises:
        NotImplementedError: a transaction was given.
        ValueError: the spec is invalid.
        OSError: the array cannot be written.
    """
    if transaction is not None:
        raise NotImplementedError(
            "async_serialize(transaction=...) is not supported: holdfast does"
            " not support TensorStore's transactions; leave the argument out"
        )
    with importing:
        from holdfast import _jax_arrays

    split = _jax_arrays.split_of(
        arr_inp.sharding,
        arr_inp.shape,
        arr_inp.dtype.itemsize,
        use_replica_parallel=use_replica_parallel,
    )
    parts = _jax_arrays.own_parts(arr_inp, split, replica_id)
    if not _has_metadata(tensorstore_spec):
        tensorstore_spec["metadata"] = {
            "compressor": {"id": "zstd"},
            "shape": list(arr_inp.shape),
            "chunks": [max(1, extent) for extent in split.shape],
        }
    tensorstore_spec.setdefault("dtype", np.dtype(arr_inp.dtype).name)
    limiter = byte_limiter or get_byte_limiter()
    if is_primary_host(primary_host):
        made = await _open(tensorstore_spec, context, create=True, open=True)
        await asyncio.to_thread(made.commit)
    array = await _open(
        tensorstore_spec, context, open=True, assume_metadata=True
    )

    async def write(origin: tuple[int, ...], values: Any) -> None:
        host = np.asarray(values)
        async with reserved_bytes(limiter, host.nbytes):
            await asyncio.to_thread(array.write, host, origin)

    await asyncio.gather(*(write(origin, part) for origin, part in parts))
    await asyncio.to_thread(array.commit)


async def async_deserialize(
    user_sharding: Any,
    tensorstore_spec: Any,
    global_shape: tuple[int, ...] | None = None,
    dtype: Any | None = None,
    *,
    byte_limiter: ByteLimiter | None = None,
    context: Any | None = None,
    assume_metadata: bool = False,
    strict: bool = True,
) -> tuple[Any, int]:
    """Reads a jax.Array.

    Args:
        user_sharding: a jax Sharding, or a Format.
        tensorstore_spec: where to read the array from; a dict, or an object
            with `to_json`.
        global_shape: the shape of the result; None means the stored shape.
        dtype: the dtype of the result; None means the stored dtype.
        byte_limiter: limits the bytes being read.
        context: the result of `get_ts_context`; None means the default limits.
        assume_metadata: trust the spec instead of reading stored metadata.
        strict: refuse a shape that differs from the stored shape. If False,
            elements that are not stored become zeros.

    Returns:
        The array, and the size in bytes of the chunks that were read for it.

    Raises:
        ValueError: there is no sharding, or a shape does not match.
        Exception: the array cannot be read; the error says at which index.
    """
    if hasattr(tensorstore_spec, "to_json"):
        tensorstore_spec = tensorstore_spec.to_json()
    array = await _open(
        tensorstore_spec, context, open=True, assume_metadata=assume_metadata
    )
    shape = tuple(array.shape if global_shape is None else global_shape)
    wanted = np.dtype(array.dtype if dtype is None else dtype)
    placement = place(user_sharding, shape, wanted)
    check_shape(placement, array.shape, strict)
    sharding = getattr(user_sharding, "sharding", user_sharding)
    if sharding.shard_shape(shape) != array.shape:
        record_event("/jax/orbax/checkpoint/deserialize/shard_shape_changed")
    limiter = byte_limiter or get_byte_limiter()

    async def read(buffer: Buffer) -> int:
        stored = stored_part(buffer, array.shape)
        size = 0 if stored is None else _chunk_bytes(array, buffer, stored)
        async with reserved_bytes(limiter, size):
            await asyncio.to_thread(_read, array, buffer, stored)
        return size

    sizes = await asyncio.gather(*map(read, placement.buffers.values()))
    put_all([placement])
    return placement.finish(), sum(sizes)


def _read(array: Any, buffer: Buffer, stored: Any) -> None:
    """Fills the buffer; elements that are not stored become zeros."""
    part = np.zeros(buffer.shape, array.dtype)
    if stored is not None:
        try:
            values = array.read(buffer.origin, stored)
        except Exception as error:
            index = tuple(
                slice(start, start + extent)
                for start, extent in zip(
                    buffer.origin, buffer.shape, strict=True
                )
            )
            raise Exception(
                f"Encountered error while reading array index: {index}. See"
                f" full TensorStore details: {array.spec()}."
            ) from error
        part[tuple(slice(extent) for extent in stored)] = values
    buffer.take(part.astype(buffer.dtype, copy=False))


def _chunk_bytes(array: Any, buffer: Buffer, stored: Any) -> int:
    """Returns the size in bytes of the chunks that overlap the stored part."""
    chunk = array.chunk_layout.read_chunk_template.shape
    extents = (
        -(-(start + extent) // size) * size - start // size * size
        for start, extent, size in zip(
            buffer.origin, stored, chunk, strict=True
        )
    )
    return int(math.prod(extents) * array.dtype.itemsize)


def _has_metadata(spec: Any) -> bool:
    if not isinstance(spec, dict):
        return False
    return "metadata" in spec or any(map(_has_metadata, spec.values()))


async def _open(spec: Any, context: Any, **how: bool) -> Any:
    return await asyncio.to_thread(handles.open_spec, spec, context, **how)
