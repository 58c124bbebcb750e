"""ZarrArray: an open array."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from holdfast import _dtypes
from holdfast.megatron import _tensors
from holdfast.megatron._errors import coded
from holdfast.megatron._rows import Row
from holdfast.megatron.strategies._zarr_read import load_arrays

__all__ = ["ZarrArray"]


class ZarrArray:
    """An array of a checkpoint; reads its boxes."""

    def __init__(
        self,
        path: str,
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        dtype_name: str,
        mode: str,
    ) -> None:
        self.path = path
        self.shape = shape
        self.chunks = chunks
        self.dtype_name = dtype_name
        self._mode = mode

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype; bfloat16 needs ml_dtypes."""
        return _dtypes.numpy_dtype(self.dtype_name)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def directory_of(self, key: str) -> str:
        """Returns the checkpoint's directory, given this array's key."""
        suffix = os.sep + key
        if self.path.endswith(suffix):
            return self.path[: -len(suffix)]
        raise coded("ARRAY_NOT_FOUND", f"{self} is not {key}", ValueError)

    def __getitem__(self, selection: Any) -> _tensors.Array:
        """Returns a box, indexed by ints and plain slices, as a numpy array."""
        if not isinstance(selection, tuple):
            selection = (selection,)
        offsets, sizes, kept = _box_of(selection, self.shape)
        directory, key = os.path.split(self.path)
        row: Row = (
            "tensor",
            key,
            0,
            self.shape,
            offsets,
            self.dtype_name,
            sizes,
            None,
            0,
            False,
            None,
            None,
        )
        ((name, array),) = load_arrays([row], [None], directory, self._mode)
        return np.asarray(_tensors.wrap(array.reshape(kept), name, None))

    def __repr__(self) -> str:
        return (
            f"<ZarrArray {self.path}: {self.dtype_name} {self.shape}, chunks"
            f" {self.chunks}>"
        )


def _box_of(
    selection: tuple[Any, ...], shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Returns a selection's offsets and sizes, and the sizes without the axes
    that ints select."""
    if Ellipsis in selection:
        at = selection.index(Ellipsis)
        fill = (slice(None),) * (len(shape) - len(selection) + 1)
        selection = selection[:at] + fill + selection[at + 1 :]
    if len(selection) > len(shape):
        raise coded(
            "RANK_MISMATCH",
            f"too many indices for array; expected {len(shape)}, got"
            f" {len(selection)}",
            IndexError,
        )
    selection += (slice(None),) * (len(shape) - len(selection))
    offsets, sizes, kept = [], [], []
    for item, size in zip(selection, shape, strict=True):
        if isinstance(item, slice):
            begin, end, step = item.indices(size)
            if step != 1:
                raise IndexError(f"slices have step 1, got {item}")
            sizes.append(max(0, end - begin))
            kept.append(sizes[-1])
        else:
            begin = range(size)[item]
            sizes.append(1)
        offsets.append(begin)
    return tuple(offsets), tuple(sizes), tuple(kept)
