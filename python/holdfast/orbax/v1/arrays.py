"""Arrays and what stands for them: `orbax.checkpoint.v1.arrays`."""

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
    """Stands for a numpy array: `shape` in elements, `dtype`."""

    shape: Shape | None
    dtype: DType | None


class AbstractShardedArray(Protocol):
    """Stands for a jax.Array: as `AbstractArray`, and where it lies."""

    shape: Shape | None
    dtype: DType | None
    sharding: Any | None = None


ArrayLike: TypeAlias = AbstractArray | AbstractShardedArray
