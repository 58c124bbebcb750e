"""Trees and their leaves: `orbax.checkpoint.v1.tree`.

| leaf | abstract leaf | attributes |
|---|---|---|
| jax.Array | jax.ShapeDtypeStruct | shape, dtype, sharding |
| np.ndarray | np.ndarray | shape, dtype |
| int, float | int, float | |
| str | str | |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from holdfast.orbax.tree_paths import (
    JsonType,
    PyTreeKey,
)
from holdfast.orbax.tree_paths import PyTreePath as PyTreeKeyPath
from holdfast.orbax.tree_structure import merge_trees as merge
from holdfast.orbax.v1.arrays import (
    AbstractArray,
    AbstractShardedArray,
    Scalar,
)

__all__ = [
    "AbstractLeaf",
    "JsonType",
    "Leaf",
    "PyTree",
    "PyTreeKey",
    "PyTreeKeyPath",
    "PyTreeOf",
    "merge",
]

T = TypeVar("T")

if TYPE_CHECKING:
    # Any value is a tree.
    PyTree: TypeAlias = Any
    PyTreeOf: TypeAlias = Any | T
else:

    class PyTree:
        """A tree with any leaves; for annotations."""

    class PyTreeOf(Generic[T]):
        """A tree whose leaves have one type; for annotations."""


# If jax is installed, a jax.Array is a leaf too.
Leaf: TypeAlias = np.ndarray | Scalar | str
AbstractLeaf: TypeAlias = AbstractArray | AbstractShardedArray | Scalar | str
