"""Decides the shape and sharding that a stored array is restored with.

No function here reads files. All shapes and origins are in elements.
"""

from __future__ import annotations

from typing import Any

from holdfast import _engine
from holdfast._buffers import Buffer
from holdfast._lazy import importing
from holdfast.orbax._compat.errors import as_builtin
from holdfast.orbax._devices.optional_jax import (
    is_format,
    is_prng_key_dtype,
    require_jax,
)

Shape = tuple[int, ...]


def place(
    sharding: Any, shape: Shape, dtype: Any, prng_impl: str | None = None
) -> Any:
    """Divides an array into buffers on the devices of a sharding.

    Args:
        sharding: a jax Sharding or a Format.
        shape: the shape of the complete array.
        dtype: the dtype of the buffers.
        prng_impl: the implementation, if the array holds typed PRNG keys.

    Returns:
        A Placement of `_jax_arrays`.

    Raises:
        ValueError: `sharding` is neither a Sharding nor a Format, or cannot
            divide the shape.
    """
    jax = require_jax("restoring a jax.Array")
    with importing:
        from holdfast import _jax_arrays

    plain = sharding.sharding if is_format(sharding) else sharding
    if not isinstance(plain, jax.sharding.Sharding):
        raise ValueError(
            "sharding passed to deserialization should be specified, concrete"
            " and an instance of `jax.sharding.Sharding`. Got"
            f" {plain}"
        )
    return _jax_arrays.checked_placement(shape, dtype, sharding, prng_impl)


def requested_sharding(args: Any) -> Any:
    """Returns the Sharding or Format that the arguments request, or None."""
    mesh = getattr(args, "mesh", None)
    mesh_axes = getattr(args, "mesh_axes", None)
    if mesh is not None and mesh_axes is not None:
        jax = require_jax("a mesh")
        return jax.sharding.NamedSharding(mesh, mesh_axes)
    sharding: Any = getattr(args, "sharding", None)
    if hasattr(sharding, "to_jax_sharding"):
        return sharding.to_jax_sharding()
    return sharding


def physical_request(
    shape: Shape | None, dtype: Any, sharding: Any
) -> tuple[Shape | None, Any]:
    """Returns shape and sharding of the stored array for a requested leaf.

    Typed PRNG keys are stored as their key data, which has one more dimension.
    For other arrays the arguments are returned unchanged.

    Args:
        shape: the requested shape, or None.
        dtype: the requested dtype, or None.
        sharding: the requested sharding.
    """
    if shape is None or not is_prng_key_dtype(dtype):
        return shape, sharding
    jax = require_jax("typed PRNG keys")
    key_data = jax.eval_shape(
        jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype)
    )
    if isinstance(sharding, jax.sharding.NamedSharding):
        trailing = [None] * (len(key_data.shape) - len(shape))
        spec = jax.sharding.PartitionSpec(*sharding.spec, *trailing)
        sharding = jax.sharding.NamedSharding(sharding.mesh, spec)
    return tuple(key_data.shape), sharding


def check_shape(placement: Any, stored: Shape, strict: bool) -> None:
    """Checks that the stored array can be restored with the placement's shape.

    Raises:
        ValueError: the rank differs from the stored array's or, with `strict`,
            the shape does.
    """
    if placement.shape == stored:
        return
    if not placement.buffers and not strict:
        return
    origin, extents = next(iter(placement.buffers), ((), ()))
    with as_builtin():
        _engine.check_restore_shape(
            placement.shape, stored, strict, origin, extents
        )


def stored_part(buffer: Buffer, stored: Shape) -> Shape | None:
    """Returns the shape of a buffer's part that lies in the stored array.

    The part begins at the buffer's origin. Returns None if the part is empty.
    """
    part = tuple(
        min(extent, whole - start)
        for start, extent, whole in zip(
            buffer.origin, buffer.shape, stored, strict=True
        )
    )
    return part if all(extent > 0 for extent in part) else None
