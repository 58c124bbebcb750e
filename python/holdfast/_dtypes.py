"""Names of element types and numpy dtypes, both ways.

numpy has no bfloat16, float8 or int4 of its own; ml_dtypes brings them, and is
imported only when a checkpoint or a target asks for one of them.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from holdfast._lazy import importing

# Those that numpy has itself.
NUMPYS = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32"
    " float64 complex64 complex128".split()
)


def numpy_dtype(name: str, leaf: str = "") -> np.dtype[Any]:
    """The dtype called `name` ("float32", "bfloat16", "int4", ...).

    `leaf` is the name of the leaf for errors. Raises ImportError when the dtype
    needs ml_dtypes and that is absent, TypeError when no dtype has that name.
    """
    if name in NUMPYS:
        return np.dtype(name)
    whose = f"leaf {leaf!r}: " if leaf else ""
    try:
        with importing:
            import ml_dtypes
    except ImportError as error:
        raise ImportError(
            f"{whose}dtype {name} needs the package ml_dtypes, which is not"
            " installed (pip install ml_dtypes)"
        ) from error
    scalar_type = getattr(ml_dtypes, name, None)
    if scalar_type is None:
        raise TypeError(
            f"{whose}dtype {name}: this version of ml_dtypes does not have it"
        )
    dtype: np.dtype[Any] = np.dtype(scalar_type)
    return dtype


@functools.lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name that checkpoints have for it; numpy is slow to make it up."""
    return str(dtype.name)
