"""Converts between names of element types and numpy dtypes.

numpy itself lacks bfloat16, float8 and int4. ml_dtypes provides them, and is
imported only when a checkpoint or a target needs one of them.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from holdfast._lazy import importing

# The dtypes that numpy itself has.
NUMPYS = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32"
    " float64 complex64 complex128".split()
)


def numpy_dtype(name: str, leaf: str = "") -> np.dtype[Any]:
    """Returns the dtype called `name` ("float32", "bfloat16", "int4", ...).

    Errors name the leaf `leaf`. Raises ImportError if the dtype needs ml_dtypes
    and ml_dtypes is not installed, and TypeError if no dtype has that name.
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
    """Returns the dtype's name in checkpoints. numpy computes names slowly."""
    return str(dtype.name)
