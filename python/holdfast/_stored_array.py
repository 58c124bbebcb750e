"""One array of an opened checkpoint, which is read when it is indexed.

Only the chunks that the index needs are read.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from holdfast import _dtypes, _engine, errors

__all__ = ["Opened", "StoredArray", "cannot_map"]

# If a strided selection needs more reads than this, its box is read instead.
_READS_MAX = 4096


class Opened(Protocol):
    """The interface that an array needs from its checkpoint."""

    @property
    def leaves(self) -> list[_engine.LeafInfo]:
        """Descriptions of all leaves."""

    @property
    def _live(self) -> _engine.Checkpoint:
        """The engine's checkpoint. Raises ValueError after it was closed."""

    def __getitem__(self, name: str, /) -> Any:
        """Returns the array called `name`, for a process that unpickles it."""


class StoredArray:
    """One array of a checkpoint, read when it is indexed.

    Supports numpy's basic indexing: ints, slices (any step), one Ellipsis. The
    result is a numpy array (0-d for a single element). `array[...]` reads the
    complete array.
    """

    _is_holdfast_stored_array = True

    def __init__(self, checkpoint: Opened, leaf: int) -> None:
        self._checkpoint = checkpoint
        self._leaf = leaf

    @property
    def _info(self) -> _engine.LeafInfo:
        return self._checkpoint.leaves[self._leaf]

    @property
    def name(self) -> str:
        """The name: the keys that lead to the array, joined with dots."""
        return self._info.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self._info.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return _dtypes.numpy_dtype(self._info.dtype or "", self.name)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the elements in memory, in bytes."""
        return self._info.decoded_bytes

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk, the unit that is read and decoded."""
        return self._info.chunk_shape

    def mmap(self, *, verify_mapped: bool = False) -> npt.NDArray[Any]:
        """Maps the array from its file, read-only, without reading it.

        A page is read from disk when it is first touched. The file must not
        change: if it is truncated, the next access ends the process (SIGBUS).

        Args:
          verify_mapped: read the array once and compare its checksums, if the
            checkpoint has them and was opened to verify. False checks nothing.

        Raises:
          errors.InvalidArgumentError: the array cannot be mapped; the error
            says why.
          errors.DataLossError: the array extends beyond the end of its file, or
            `verify_mapped` found damage.
        """
        [array] = self._checkpoint._live.map([self._leaf], verify=verify_mapped)
        if isinstance(array, str):
            raise cannot_map(self.name, array)
        return array

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """Returns the selected elements in new memory that the caller owns.

        Raises IndexError for an index out of range, and for kinds of indexing
        that a stored array does not support; the error says what to do instead.
        """
        engine = self._checkpoint._live
        return _read(engine, self._leaf, self._info, key)

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError(
                f"{self.name}: a stored array must be read to be an array;"
                " copy=False is not possible"
            )
        array = self[...]
        return array if dtype is None else array.astype(dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, (self._checkpoint, self.name)

    def __repr__(self) -> str:
        return (
            f"<holdfast.StoredArray {self.name!r} {self._info.dtype}"
            f" {self.shape} in chunks of {self.chunks}>"
        )


def cannot_map(name: str, why: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(f"leaf {name} cannot be mapped: {why}")


def _read(
    checkpoint: _engine.Checkpoint,
    leaf: int,
    info: _engine.LeafInfo,
    key: Any,
) -> npt.NDArray[Any]:
    ranges, drops = _normalise(info.name, info.shape, key)
    kept = tuple(axis for axis in range(len(ranges)) if axis not in drops)
    shape = tuple(len(ranges[axis]) for axis in kept)
    if math.prod(shape) == 0:
        dtype = _dtypes.numpy_dtype(info.dtype or "", info.name)
        return _engine.empty(shape, dtype)
    strided = [axis for axis, r in enumerate(ranges) if abs(r.step) > 1]
    read_count = math.prod(len(ranges[axis]) for axis in strided)
    if strided and read_count <= _READS_MAX:
        full = _read_apart(checkpoint, leaf, info, ranges, strided)
        backwards = [
            r.step < 0 and a not in strided for a, r in enumerate(ranges)
        ]
        cut = [slice(None, None, -1 if back else 1) for back in backwards]
    else:
        origin = tuple(min(r[0], r[-1]) for r in ranges)
        extents = tuple(abs(r[-1] - r[0]) + 1 for r in ranges)
        full = checkpoint.read_box(leaf, origin, extents)
        cut = [slice(None, None, r.step) for r in ranges]
    # With "...", an array without axes stays an array.
    whole: Any = (*cut, ...)
    part: npt.NDArray[Any] = full[whole]
    return part.reshape(shape)


def _read_apart(
    checkpoint: _engine.Checkpoint,
    leaf: int,
    info: _engine.LeafInfo,
    ranges: list[range],
    strided: list[int],
) -> npt.NDArray[Any]:
    """Reads each index of the strided axes separately, so gaps are not read."""
    full = _engine.empty(
        tuple(len(r) for r in ranges),
        _dtypes.numpy_dtype(info.dtype or "", info.name),
    )
    requests = []
    for places in itertools.product(
        *(range(len(ranges[axis])) for axis in strided)
    ):
        origin = [min(r[0], r[-1]) for r in ranges]
        into: list[slice] = [slice(None)] * len(ranges)
        for axis, place in zip(strided, places, strict=True):
            origin[axis] = ranges[axis][place]
            into[axis] = slice(place, place + 1)
        requests.append((leaf, origin, full[tuple(into)]))
    checkpoint.read_into(requests)
    return full


def _normalise(
    name: str, shape: tuple[int, ...], key: Any
) -> tuple[list[range], set[int]]:
    """Returns the indices that each axis keeps, and the axes that an int
    drops."""
    parts = list(key) if isinstance(key, tuple) else [key]
    parts = _without_ellipsis(name, parts, len(shape))
    ranges = []
    drops = set()
    for axis, (part, extent) in enumerate(zip(parts, shape, strict=True)):
        if isinstance(part, slice):
            ranges.append(range(*part.indices(extent)))
            continue
        index = operator.index(part)
        if not -extent <= index < extent:
            raise IndexError(
                f"{name}: index {index} is out of bounds for axis {axis} with"
                f" size {extent}"
            )
        index %= extent
        ranges.append(range(index, index + 1))
        drops.add(axis)
    return ranges, drops


def _without_ellipsis(name: str, parts: list[Any], rank: int) -> list[Any]:
    """Returns the index with one part for each axis; refuses anything except
    basic indices."""
    for part in parts:
        _check_basic(name, part)
    dots = [i for i, part in enumerate(parts) if part is ...]
    if len(dots) > 1:
        raise IndexError(
            f"{name}: an index can only have a single ellipsis ('...')"
        )
    given = len(parts) - len(dots)
    if given > rank:
        raise IndexError(
            f"{name}: too many indices: the array is {rank}-dimensional, but"
            f" {given} were indexed"
        )
    place = dots[0] if dots else len(parts)
    fill = [slice(None)] * (rank - given)
    return parts[:place] + fill + parts[place + len(dots) :]


def _check_basic(name: str, part: Any) -> None:
    if part is ... or isinstance(part, slice):
        return
    if part is None:
        raise IndexError(
            f"{name}: a stored array takes no np.newaxis; read first, then add"
            " the axis: array[...][None]"
        )
    if isinstance(part, (bool, np.bool_)) or not hasattr(part, "__index__"):
        advice = "read the part that holds it, then index that: array[a:b][key]"
        raise IndexError(
            f"{name}: a stored array takes ints, slices and ... only, not a"
            f" {type(part).__qualname__} (boolean and fancy indexing): {advice}"
        )
    if isinstance(part, np.ndarray) and part.ndim > 0:
        raise IndexError(
            f"{name}: a stored array takes no index arrays; read the part that"
            " holds them, then index that: array[a:b][key]"
        )
