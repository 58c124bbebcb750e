"""The arrays that the tests here save: numpy arrays cut into ranks' parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from holdfast import megatron

Array = np.ndarray[Any, np.dtype[Any]]


def cut(
    key: str, whole: Array, rank: int, count: int, axis: int = 0, **kw: Any
) -> megatron.ShardedTensor:
    """Returns the rank's part of an array that is cut into `count` equal
    parts."""
    part = np.split(whole, count, axis)[rank]
    return megatron.ShardedTensor.from_rank_offsets(
        key, part, (axis, rank, count), **kw
    )


def table(rows: int = 8, columns: int = 6) -> Array:
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)


def saved(path: Path, count: int = 2) -> Array:
    """Saves an array "w" with `count` ranks; returns its elements."""
    path.mkdir()
    whole = table()
    megatron.save_ranks(
        [
            {"w": cut("w", whole, rank, count), "step": 7}
            for rank in range(count)
        ],
        path,
    )
    return whole


def request(
    key: str = "w", shape: tuple[int, ...] = (8, 6), **kw: Any
) -> megatron.ShardedTensor:
    """Returns a request for a complete array, without memory for it."""
    return megatron.ShardedTensor(
        key,
        None,
        np.dtype("float32"),
        shape,
        shape,
        (0,) * len(shape),
        (1,) * len(shape),
        **kw,
    )
