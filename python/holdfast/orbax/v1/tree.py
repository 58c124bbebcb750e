"""Trees and their leaves: `orbax.checkpoint.v1.tree`.

| leaf | abstract leaf | it has |
|---|---|---|
| jax.Array | jax.ShapeDtypeStruct | shape, dtype, sharding |
| np.ndarray | np.ndarray | shape, dtype |
| int, float | int, float | |
| str | str | |
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from holdfast.orbax.tree_paths import (
    JsonType,
    PyTree,
    PyTreeKey,
    PyTreeOf,
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

# jax.Array is one too, where there is jax.
Leaf: TypeAlias = np.ndarray | Scalar | str
AbstractLeaf: TypeAlias = AbstractArray | AbstractShardedArray | Scalar | str
