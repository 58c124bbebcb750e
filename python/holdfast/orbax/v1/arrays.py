"""Arrays and abstract arrays: `orbax.checkpoint.v1.arrays`."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from holdfast.orbax.tree_paths import to_shape_dtype_struct

__all__ = [
    "AbstractArray",
    "AbstractScalar",
    "AbstractShardedArray",
    "ArrayLike",
    "DType",
    "Scalar",
    "Shape",
    "to_shape_dtype_struct",
]

Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = Any
Scalar: TypeAlias = int | float | np.number | bytes | bool
AbstractScalar: TypeAlias = Scalar


class AbstractArray(Protocol):
    """Describes a numpy array by its `shape`, in elements, and its `dtype`."""

    shape: Shape | None
    dtype: DType | None


class AbstractShardedArray(Protocol):
    """Describes a jax.Array: an `AbstractArray` with a sharding."""

    shape: Shape | None
    dtype: DType | None
    sharding: Any | None = None


ArrayLike: TypeAlias = AbstractArray | AbstractShardedArray
