"""Buffer: memory for a box of a stored leaf that is being read.

A process that reads by itself fills the buffer's own memory. Processes that
read together get memory from the engine, shared by the processes of a host. A
DeviceBuffer is memory of a device, which only a process that reads by itself
can fill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast import _engine

__all__ = ["Buffer", "DeviceBuffer", "Request", "read"]

NumpyArray = np.ndarray[Any, np.dtype[Any]]

# Below this size numpy's own allocation is faster, and the memory is not
# adopted.
_SMALL_BYTES = 1 << 12


class Buffer:
    """A box of a leaf, from `origin`, with `shape` in elements, cast to
    `dtype`."""

    __slots__ = ("_array", "dtype", "origin", "shape")

    def __init__(
        self,
        origin: Sequence[int],
        shape: Sequence[int],
        dtype: np.dtype[Any],
        array: NumpyArray | None = None,
    ) -> None:
        """Uses `array` as the memory to fill; None means new memory."""
        self.origin = origin
        self.shape = shape
        self.dtype = dtype
        self._array = array

    @property
    def array(self) -> NumpyArray:
        """The memory, allocated on first use with undefined content."""
        if self._array is None:
            byte_count = math.prod(self.shape) * self.dtype.itemsize
            is_small = byte_count < _SMALL_BYTES
            empty: Any = np.empty if is_small else _engine.empty
            self._array = empty(self.shape, self.dtype)
        return self._array

    def take(self, array: NumpyArray) -> None:
        """Takes over `array` as the content; nothing else may use `array`."""
        if self._array is None:
            self._array = array
        else:
            self._array[...] = array


class DeviceBuffer:
    """A box of a leaf, from `origin`, that is read into memory of a device."""

    __slots__ = ("_array", "_make", "origin")

    def __init__(
        self, origin: Sequence[int], make: Callable[[], _engine.DeviceArray]
    ) -> None:
        """`make` allocates the memory, whose address must be known."""
        self.origin = origin
        self._make = make
        self._array: _engine.DeviceArray | None = None

    @property
    def array(self) -> _engine.DeviceArray:
        """The memory, allocated on first use with undefined content."""
        if self._array is None:
            self._array = self._make()
        return self._array


# A leaf's index in the checkpoint, and the buffer for its box.
Request = tuple[int, "Buffer | DeviceBuffer"]


def read(
    checkpoint: _engine.Checkpoint,
    requests: Sequence[Request],
    group: _engine.ProcessGroup | None,
    **options: Any,
) -> _engine.Stats:
    """Fills all buffers; with `group`, for all its ranks together, and then
    there are no DeviceBuffers.

    `options` are the engine's `read_into` options threads,
    memory_bytes and progress. Raises the errors of `read_into`.
    """
    if group is None:
        return checkpoint.read_into(
            [(leaf, buffer.origin, buffer.array) for leaf, buffer in requests],
            **options,
        )
    buffers = [
        (leaf, buffer)
        for leaf, buffer in requests
        if isinstance(buffer, Buffer)
    ]
    arrays, stats = checkpoint.read_together(
        [
            (leaf, buffer.origin, buffer.shape, buffer.dtype)
            for leaf, buffer in buffers
        ],
        group,
        **options,
    )
    for (_, buffer), array in zip(buffers, arrays, strict=True):
        buffer.take(array)
    return stats
