"""ShardedTensor: records which box of a global tensor a local tensor is.

Shapes and offsets are in elements. `local_shape` leaves out the prepended axes;
`global_shape`, `global_offset` and `axis_fragmentations` include them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from holdfast.megatron import _tensors
from holdfast.megatron._errors import coded
from holdfast.megatron.core import CheckpointingException

__all__ = ["ReplicaId", "ShardedBase", "ShardedTensor"]

ReplicaId = int | tuple[int, ...]
Coordinates = tuple[Any, ...]


class ShardedBase(ABC):
    """The base class for parts of a global tensor or object."""

    key: str
    data: Any
    replica_id: ReplicaId

    @abstractmethod
    def validate_metadata_integrity(self) -> None:
        """Raises CheckpointingException if attributes contradict each other."""

    @abstractmethod
    def without_data(self) -> ShardedBase:
        """Returns a copy whose `data` is None."""


@dataclass(repr=False)
class ShardedTensor(ShardedBase):
    """A box of a global tensor.

    Args:
      key: the name of the global tensor and of its directory.
      data: the elements, of shape `local_shape`, or 1-D for a flattened range;
        None for metadata only.
      dtype: a torch.dtype, a numpy dtype or a name.
      axis_fragmentations: the number of parts along each axis of the global
        tensor; each part is one chunk of the array. None means an irregular
        grid, which zarr checkpoints do not support.
      replica_id: the replica with id 0 (or all zeros) is saved.
      prepend_axis_num: the number of axes of the global tensor before the axes
        of the local tensor.
      allow_shape_mismatch: a load accepts a different stored global shape:
        elements outside are cut off, and missing elements are zero.
      flattened_range: `data` is this slice of the flattened box.

    Raises CheckpointingException if these arguments contradict each other.
    """

    key: str
    data: Any = field(repr=False)
    dtype: Any
    local_shape: tuple[int, ...]
    global_shape: tuple[int, ...]
    global_offset: tuple[int, ...]
    axis_fragmentations: tuple[int, ...] | None
    replica_id: ReplicaId = 0
    prepend_axis_num: int = 0
    allow_shape_mismatch: bool = False
    flattened_range: slice | None = None

    def __post_init__(self) -> None:
        self.validate_metadata_integrity()

    def __repr__(self) -> str:
        return (
            f"ShardedTensor(key={self.key!r},"
            f" dtype={_tensors.dtype_text(self.dtype)},"
            f" local_shape={self.local_shape},"
            f" global_shape={self.global_shape},"
            f" global_offset={self.global_offset},"
            f" axis_fragmentations={self.axis_fragmentations},"
            f" replica_id={self.replica_id},"
            f" prepend_axis_num={self.prepend_axis_num},"
            f" allow_shape_mismatch={self.allow_shape_mismatch},"
            f" flattened_range={self.flattened_range})"
        )

    def validate_metadata_integrity(self) -> None:
        """Raises CheckpointingException if attributes contradict each other."""
        if self.data is not None:
            self._validate_data()
        if len(self.global_shape) != len(self.global_offset):
            raise CheckpointingException(
                "Global offset dimensions should be equal to global shape"
                f" dimensions for {self}",
                code="INVALID_DIMS",
            )
        if len(self.local_shape) + self.prepend_axis_num != len(
            self.global_shape
        ):
            raise CheckpointingException(
                "Local shape together with `prepend_axis_num` dimensions"
                f" should be equal to global shape dimensions for {self}",
                code="INVALID_DIMS",
            )
        if self.axis_fragmentations is not None:
            self._validate_offsets()
        if self.flattened_range is not None and (
            self.flattened_range.step is not None
        ):
            raise CheckpointingException(
                "`step` argument in the flattened range of a ShardedTensor is"
                " not supported.",
                code="INVALID_FLAT",
            )

    def _validate_data(self) -> None:
        if _tensors.dtype_name(self.data.dtype) != _tensors.dtype_name(
            self.dtype
        ):
            raise CheckpointingException(
                f"Data dtype should match `dtype` attribute for {self}",
                code="INVALID_DIMS",
            )
        shape = tuple(self.data.shape)
        if self.flattened_range is None:
            if shape != tuple(self.local_shape):
                raise CheckpointingException(
                    "Data shape should match `local_shape` attribute for"
                    f" {self}",
                    code="INVALID_DIMS",
                )
            return
        if len(shape) != 1:
            raise CheckpointingException(
                f"Data should be 1D for a flattened {self}",
                code="INVALID_FLAT",
            )
        count = len(
            range(math.prod(self.local_shape))[
                self.flattened_range.start : self.flattened_range.stop
            ]
        )
        if shape != (count,):
            raise CheckpointingException(
                f"Data shape torch.Size([{shape[0]}]) doesnt match expected"
                f" torch.Size([{count}]) for {self}",
                code="INVALID_FLAT",
            )

    def _validate_offsets(self) -> None:
        offsets = self.global_offset[self.prepend_axis_num :]
        for offset, size in zip(offsets, self.local_shape, strict=True):
            if size != 0 and offset % size != 0:
                raise CheckpointingException(
                    f"Global offset ({offset}) must be divisible by local"
                    f" shape ({size}) for {self}.",
                    code="INVALID_OFFSETS",
                )

    @property
    def has_regular_grid(self) -> bool:
        """Whether the parts form a regular grid."""
        return self.axis_fragmentations is not None

    def global_slice(self) -> tuple[int | slice, ...]:
        """Returns the box's index: ints for the prepended axes, then slices."""
        lead = self.global_offset[: self.prepend_axis_num]
        rest = self.global_offset[self.prepend_axis_num :]
        return (
            *lead,
            *(
                slice(offset, offset + size)
                for offset, size in zip(rest, self.local_shape, strict=True)
            ),
        )

    def local_coordinates(self) -> Coordinates:
        """Returns the indices, along each local axis, of the elements in the
        flattened range."""
        flat = self._flat("local_coordinates")
        count = math.prod(self.local_shape)
        return np.unravel_index(np.arange(count)[flat], self.local_shape)

    def global_coordinates(self) -> Coordinates:
        """Returns `local_coordinates` in the global tensor; ints for prepended
        axes."""
        self._flat("global_coordinates")
        local = (0,) * self.prepend_axis_num + self.local_coordinates()
        return tuple(
            index + offset
            for index, offset in zip(local, self.global_offset, strict=True)
        )

    def _flat(self, what: str) -> slice:
        if self.flattened_range is None:
            raise CheckpointingException(
                f"`{what}` is undefined for {type(self).__name__} without"
                " `flattened_range`",
                code="INVALID_FLAT",
            )
        return self.flattened_range

    def local_chunk_offset_in_global(self) -> tuple[int, ...]:
        """Returns this part's position in the grid."""
        lead = self.global_offset[: self.prepend_axis_num]
        rest = self.global_offset[self.prepend_axis_num :]
        if 0 in self.local_shape:
            raise coded(
                "EMPTY_AXIS", "integer modulo by zero", ZeroDivisionError
            )
        for offset, size in zip(rest, self.local_shape, strict=True):
            if offset % size:
                raise coded("INVALID_OFFSETS", str(self), AssertionError)
        return (
            *lead,
            *(
                offset // size
                for offset, size in zip(rest, self.local_shape, strict=True)
            ),
        )

    def max_allowed_chunks(self) -> tuple[int, ...]:
        """Returns the chunk shape of the array: one part of the grid.

        Raises CheckpointingException if an axis does not divide evenly and
        `allow_shape_mismatch` is False.
        """
        if self.axis_fragmentations is None:
            raise CheckpointingException(
                f"{self} has no regular grid, which zarr needs",
                code="NOT_DIVISIBLE",
            )
        chunks = []
        for size, count in zip(
            self.global_shape, self.axis_fragmentations, strict=False
        ):
            if count < 1:
                raise coded(
                    "EMPTY_AXIS", "integer modulo by zero", ZeroDivisionError
                )
            if not self.allow_shape_mismatch and size % count != 0:
                raise CheckpointingException(
                    f"Axis shape ({size}) not divisible by axis fragmentation"
                    f" ({count}",
                    code="NOT_DIVISIBLE",
                )
            chunks.append(size // count)
        return tuple(chunks)

    def without_data(self) -> ShardedTensor:
        """Returns a copy whose `data` is None."""
        return replace(self, data=None)

    @classmethod
    def from_rank_offsets(
        cls,
        key: str,
        data: Any,
        *rank_offsets: tuple[int, int, int],
        replica_id: ReplicaId = 0,
        prepend_axis_num: int = 0,
        flattened_range: None = None,
        **init_kwargs: Any,
    ) -> ShardedTensor:
        """Makes a rank's part of an evenly divided tensor.

        Each of `rank_offsets` is (axis, rank, count): the axis is cut into
        `count` parts, and `data` is part `rank`. Other axes are not cut.
        """
        if flattened_range is not None:
            raise ValueError(
                "Cannot instantiate a flat ShardedTensor with"
                " `from_rank_offsets` method. Use `from_rank_offsets_flat`"
                " instead"
            )
        local_shape = tuple(data.shape)
        global_shape = [1] * prepend_axis_num + list(local_shape)
        offset = [0] * len(global_shape)
        fragmentations = [1] * len(global_shape)
        for axis, rank, count in rank_offsets:
            if axis < 0 or rank < 0 or count < 1 or rank >= count:
                raise CheckpointingException(
                    f"Invalid rank offsets: {rank_offsets} for key {key}.",
                    code="INVALID_OFFSETS",
                )
            if axis >= len(global_shape):
                raise coded(
                    "INVALID_OFFSETS", "tuple index out of range", IndexError
                )
            is_prepended = axis < prepend_axis_num
            size = 1 if is_prepended else local_shape[axis - prepend_axis_num]
            global_shape[axis] = count * size
            offset[axis] = rank * size
            fragmentations[axis] = count
        return cls(
            key,
            data,
            data.dtype,
            local_shape,
            tuple(global_shape),
            tuple(offset),
            tuple(fragmentations),
            replica_id,
            prepend_axis_num,
            **init_kwargs,
        )

    @classmethod
    def from_rank_offsets_flat(
        cls,
        key: str,
        data: Any,
        non_flat_local_shape: tuple[int, ...],
        *args: tuple[int, int, int],
        flattened_range: slice | None = None,
        **kwargs: Any,
    ) -> ShardedTensor:
        """Does what `from_rank_offsets` does, for 1-D data: a slice of the
        flattened part."""
        if flattened_range is None:
            raise CheckpointingException(
                "Cannot instantiate a non-flat ShardedTensor with"
                " `from_rank_offsets_flat` method. Use `from_rank_offsets`"
                " instead",
                code="INVALID_FLAT",
            )
        if data.ndim != 1:
            raise CheckpointingException(
                "Flattened ShardedTensor requires 1D data, got shape:"
                f" {data.shape}",
                code="INVALID_FLAT",
            )
        length = flattened_range.stop - flattened_range.start
        if length != data.shape[0]:
            raise CheckpointingException(
                f"Flattened ShardedTensor data length ({data.shape[0]}) must"
                f" meet the slice length: {length}",
                code="INVALID_FLAT",
            )
        whole = cls.from_rank_offsets(
            key,
            _tensors.no_data_tensor(tuple(non_flat_local_shape), data.dtype),
            *args,
            **kwargs,
        )
        return replace(whole, data=data, flattened_range=flattened_range)

    def init_data(
        self, device: Any = "cpu", init_fn: Callable[..., Any] | None = None
    ) -> None:
        """Allocates the tensor's data if it is None.

        `init_fn(shape, dtype=, device=)` makes the data; None leaves it
        uninitialised.
        """
        if self.data is not None:
            return
        torch = _tensors.torch()
        if init_fn is not None:
            data = init_fn(self.local_shape, dtype=self.dtype, device=device)
        elif _tensors.is_torch(self.dtype) and torch is not None:
            data = torch.empty(
                self.local_shape, dtype=self.dtype, device=device
            )
        else:
            name = _tensors.dtype_name(self.dtype)
            array = _tensors.empty(tuple(self.local_shape), name)
            data = _tensors.wrap(array, name, self.dtype)
        if self.flattened_range is not None:
            data = data.reshape(-1)[self.flattened_range]
        self.data = data

    def narrow(self, dim: int, start: int, length: int) -> list[ShardedTensor]:
        """Cuts every rank's part to `length` from `start` along a local axis.

        The global tensor shrinks in proportion. A flattened range can only be
        narrowed along axis 0; the list is empty if nothing of it remains.
        """
        axis = dim + self.prepend_axis_num
        local = self.local_shape[dim]
        if self.global_shape[axis] % local or self.global_offset[axis] % local:
            raise coded(
                "NARROW_UNSUPPORTED",
                "Only regular grid of local tensors is supported for"
                f" narrowing, got: {self}",
                AssertionError,
            )
        place: dict[str, Any] = {
            "local_shape": _with(self.local_shape, dim, length),
            "global_shape": _with(
                self.global_shape,
                axis,
                self.global_shape[axis] // local * length,
            ),
            "global_offset": _with(
                self.global_offset,
                axis,
                self.global_offset[axis] // local * length,
            ),
        }
        if self.flattened_range is None:
            box = (slice(None),) * dim + (slice(start, start + length),)
            return [replace(self, data=self.data[box], **place)]
        if dim != 0:
            raise CheckpointingException(
                "Narrowing along the first axis is supported for now only,"
                f" got dim={dim}",
                code="NARROW_UNSUPPORTED",
            )
        row = math.prod(self.local_shape[1:])
        first = self.flattened_range.start - start * row
        begin = max(first, 0)
        end = min(self.flattened_range.stop - start * row, length * row)
        if begin >= end:
            return []
        return [
            replace(
                self,
                data=self.data[begin - first : end - first],
                flattened_range=slice(begin, end),
                **place,
            )
        ]


def _with(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])
