"""Reads many boxes of a checkpoint's arrays together.

The engine reads with several threads, directly into the results' memory.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast import _engine
from holdfast.megatron import _tensors
from holdfast.megatron._errors import from_engine
from holdfast.megatron._rows import Row, row_of
from holdfast.megatron.core import CheckpointingException
from holdfast.megatron.mapping import ShardedTensor
from holdfast.megatron.strategies.base import CheckpointDir

__all__ = [
    "AbsentChunksWarning",
    "copied",
    "load_arrays",
    "load_tensors",
    "request_row",
]

# A warning names at most this many missing chunks.
_CHUNKS_NAMED = 20


class AbsentChunksWarning(UserWarning):
    """A chunk file does not exist; its elements are loaded as zeros."""


def load_tensors(
    tensors: Sequence[ShardedTensor],
    checkpoint_dir: CheckpointDir,
    mode: str,
    *,
    into_buffers: bool = False,
    apply_flattened_range: bool = True,
    threads: int = 0,
) -> list[Any]:
    """Reads the values of all ShardedTensors together.

    `mode` selects the error messages: "zarr" or "tensorstore". Without
    `apply_flattened_range`, reads the complete local box.
    """
    rows = [request_row(each, apply_flattened_range) for each in tensors]
    targets = [
        _target(each) if into_buffers else _new_target(row)
        for each, row in zip(tensors, rows, strict=True)
    ]
    try:
        arrays = load_arrays(rows, targets, checkpoint_dir, mode, threads)
    except CheckpointingException as error:
        if error.code != "DTYPE_MISMATCH":
            raise
        # For tensors stored in a different dtype, the engine allocates memory.
        targets = [None] * len(rows)
        arrays = load_arrays(rows, targets, checkpoint_dir, mode, threads)
    results = []
    for each, target, (name, array) in zip(
        tensors, targets, arrays, strict=True
    ):
        like = each.dtype if each.data is None else each.data
        if into_buffers and target is not None and array is target:
            results.append(each.data)
        elif into_buffers and each.data is not None:
            results.append(copied(each.data, _tensors.wrap(array, name, like)))
        else:
            results.append(_tensors.wrap(array, name, like))
    return results


def request_row(ten: ShardedTensor, apply_flattened_range: bool) -> Row:
    row = row_of(ten)
    return row if apply_flattened_range else (*row[:10], None, None)


def _new_target(row: Row) -> _tensors.Array:
    """Allocates memory for a result in the requested dtype."""
    name, local_shape, flat = row[5], row[6], row[10]
    shape = local_shape if flat is None else (flat[1] - flat[0],)
    return _tensors.empty(shape, name)


def _target(ten: ShardedTensor) -> _tensors.Array | None:
    """Returns the memory of the caller's buffer, if the engine can fill it."""
    data = ten.data
    if data is None or (_tensors.is_torch(data) and data.device.type != "cpu"):
        return None
    array = _tensors.array_of(data)
    return array if array.flags.writeable else None


def copied(buffer: Any, loaded: Any) -> Any:
    if _tensors.is_torch(buffer):
        buffer.detach().copy_(loaded)
    else:
        np.copyto(buffer, loaded, casting="unsafe")
    return buffer


def load_arrays(
    rows: Sequence[Row],
    targets: Sequence[_tensors.Array | None],
    checkpoint_dir: CheckpointDir,
    mode: str,
    threads: int = 0,
) -> list[tuple[str, _tensors.Array]]:
    """Returns (dtype name, carrier's array) for each request.

    If an array is its target, the elements were read directly into the target.
    """
    path = os.fspath(checkpoint_dir)
    replicates = bool(int(os.environ.get("DIST_CKPT_PAD_REPLICATE", 0)))
    with from_engine():
        loaded = _engine.megatron_load(
            rows, list(targets), path, mode, replicates, threads
        )
    absent = [chunk for _, _, chunks in loaded for chunk in chunks]
    if absent:
        named = ", ".join(dict.fromkeys(absent[:_CHUNKS_NAMED]))
        more = len(absent) - _CHUNKS_NAMED
        warnings.warn(
            f"{path}: chunks are missing, and read as zeros (or as the"
            f" array's fill value): {named}"
            f"{f' and {more} more' if more > 0 else ''}",
            AbsentChunksWarning,
            stacklevel=3,
        )
    return [(name, array) for name, array, _ in loaded]
