"""torch's DTensors: which part each process holds, and which process writes it.

The tensor's shape, mesh and placements determine everything, so each process
computes it by itself. Only called after torch.distributed.tensor was imported.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from holdfast import _dtypes, _engine, _torch_arrays, errors
from holdfast._buffers import Buffer
from holdfast._engine import DeviceArray
from holdfast._lazy import importing

__all__ = [
    "Part",
    "array_leaf",
    "is_dtensor",
    "layout_of",
    "local_buffers",
    "mesh_ranks",
    "tensor_like",
]

NumpyArray = np.ndarray[Any, np.dtype[Any]]
# Elements [start, stop) along one axis.
Run = tuple[int, int]
# How one mesh axis cuts a tensor's axis: the number of shards, and the split
# factor (1 for a Shard; that of a _StridedShard otherwise).
Cut = tuple[int, int]


def is_dtensor(value: Any) -> bool:
    """Returns whether `value` is a DTensor; never imports torch."""
    module = sys.modules.get("torch.distributed.tensor")
    cls = getattr(module, "DTensor", None)
    return cls is not None and isinstance(value, cls)


def mesh_ranks(tensor: Any) -> list[int]:
    """Returns the ranks that hold `tensor`, as numbered in torch.distributed's
    default group."""
    ranks: list[int] = tensor.device_mesh.mesh.flatten().tolist()
    return ranks


@dataclasses.dataclass(frozen=True)
class Part:
    """A box of a tensor, and the position of its elements in the local
    tensor."""

    origin: tuple[int, ...]
    shape: tuple[int, ...]
    local_origin: tuple[int, ...]

    def of(self, local: Any) -> Any:
        """Returns a view of the box's elements in `local`, a numpy array or a
        DeviceArray."""
        if isinstance(local, DeviceArray):
            return local.part(self.local_origin, self.shape)
        return local[
            tuple(
                slice(start, start + extent)
                for start, extent in zip(
                    self.local_origin, self.shape, strict=True
                )
            )
        ]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The part of a tensor that one process holds.

    Attributes:
        local_shape: the shape of the process's local tensor.
        parts: the non-empty boxes that make up the local tensor.
        is_writer: whether this process is the lowest rank that holds the boxes.
        write_shape: the shape of boxes in a grid from the origin; no border
            between processes cuts a box.
    """

    local_shape: tuple[int, ...]
    parts: tuple[Part, ...]
    is_writer: bool
    write_shape: tuple[int, ...]


def layout_of(tensor: Any, name: str = "") -> Layout:
    """Returns which elements of a DTensor this process holds, and where.

    Raises InvalidArgumentError, naming the leaf, for placements that do not
    determine where the elements are: Partial, and unknown classes.
    """
    try:
        return _layout(
            tuple(tensor.shape), tensor.device_mesh, tuple(tensor.placements)
        )
    except errors.InvalidArgumentError as error:
        raise errors.InvalidArgumentError(f"leaf {name!r}: {error}") from None


def _layout(
    shape: tuple[int, ...], mesh: Any, placements: tuple[Any, ...]
) -> Layout:
    mesh_axes_of: list[list[int]] = [[] for _ in shape]
    cuts: list[tuple[Cut, ...]] = [()] * len(shape)
    for mesh_axis, placement in enumerate(placements):
        if placement.is_replicate():
            continue
        axis, split_factor = _sharded_axis(placement)
        mesh_axes_of[axis].append(mesh_axis)
        cuts[axis] += ((int(mesh.size(mesh_axis)), split_factor),)
    write_shape = tuple(map(_write_extent, shape, cuts))
    where = mesh.get_coordinate()
    if where is None:
        return Layout((0,), (), False, write_shape)
    runs = [
        _runs(extent, axis_cuts)[tuple(where[i] for i in mesh_axes)]
        for extent, axis_cuts, mesh_axes in zip(
            shape, cuts, mesh_axes_of, strict=True
        )
    ]
    return Layout(
        tuple(sum(stop - start for start, stop in axis) for axis in runs),
        tuple(_parts(runs)),
        _is_lowest(mesh, where, {i for axes in mesh_axes_of for i in axes}),
        write_shape,
    )


def _sharded_axis(placement: Any) -> tuple[int, int]:
    """Returns the tensor axis that a placement cuts, and its split factor."""
    kind = type(placement).__name__
    if kind == "Shard":
        return placement.dim, 1
    if kind == "_StridedShard":
        return placement.dim, int(placement.split_factor)
    if placement.is_partial():
        raise errors.InvalidArgumentError(
            f"the DTensor's placement {placement} holds partial sums;"
            " redistribute it to Replicate or Shard first"
        )
    raise errors.InvalidArgumentError(
        f"the DTensor's placement is {placement}, want Replicate, Shard or"
        " _StridedShard"
    )


def _is_lowest(mesh: Any, where: Sequence[int], sharded: set[int]) -> bool:
    """Returns whether this rank is the lowest of the replicas of its part."""
    if len(sharded) == len(where):
        return True
    replicas = mesh.mesh[
        tuple(
            where[i] if i in sharded else slice(None) for i in range(len(where))
        )
    ]
    return bool(replicas.min() == mesh.mesh[tuple(where)])


@functools.lru_cache(maxsize=4096)
def _runs(
    extent: int, cuts: tuple[Cut, ...]
) -> dict[tuple[int, ...], tuple[Run, ...]]:
    """Returns the runs held along one axis, by position on the mesh axes that
    cut it."""
    held: dict[tuple[int, ...], list[Run]] = {
        (): [(0, extent)] if extent > 0 else []
    }
    for count, split_factor in cuts:
        held = {
            (*place, i): piece
            for place, runs in held.items()
            for i, piece in enumerate(_shards(runs, count, split_factor))
        }
    return {place: tuple(runs) for place, runs in held.items()}


def _shards(runs: list[Run], count: int, split_factor: int) -> list[list[Run]]:
    """Cuts runs like torch: a strided shard takes the same shard of each
    piece."""
    pieces = [_chunked(piece, count) for piece in _chunked(runs, split_factor)]
    return [
        list(_joined(run for piece in pieces for run in piece[i]))
        for i in range(count)
    ]


def _chunked(runs: list[Run], count: int) -> list[list[Run]]:
    """Cuts runs like torch.chunk: equal chunks, then a shorter chunk and empty
    chunks."""
    total = sum(stop - start for start, stop in runs)
    length = -(-total // count)
    return [
        _between(runs, min(i * length, total), min((i + 1) * length, total))
        for i in range(count)
    ]


def _between(runs: list[Run], begin: int, end: int) -> list[Run]:
    """Returns elements [begin, end) of `runs`, counted along the runs."""
    found = []
    at = 0
    for start, stop in runs:
        first = max(begin - at, 0) + start
        last = min(end - at + start, stop)
        if first < last:
            found.append((first, last))
        at += stop - start
    return found


def _joined(runs: Iterator[Run]) -> Iterator[Run]:
    """Joins adjacent runs."""
    current: Run | None = None
    for start, stop in runs:
        if current is not None and current[1] == start:
            current = (current[0], stop)
            continue
        if current is not None:
            yield current
        current = (start, stop)
    if current is not None:
        yield current


@functools.lru_cache(maxsize=4096)
def _write_extent(extent: int, cuts: tuple[Cut, ...]) -> int:
    """Returns the largest extent that divides every border except the end."""
    borders = {
        border
        for runs in _runs(extent, cuts).values()
        for run in runs
        for border in run
    }
    return math.gcd(*(borders - {extent})) or extent


def _parts(runs: Sequence[Sequence[Run]]) -> Iterator[Part]:
    """Yields a part for each combination of one run per axis."""
    located: list[list[tuple[Run, int]]] = []
    for axis_runs in runs:
        ends = itertools.accumulate(stop - start for start, stop in axis_runs)
        located.append(
            [
                ((start, stop), end - (stop - start))
                for (start, stop), end in zip(axis_runs, ends, strict=True)
            ]
        )
    for choice in itertools.product(*located):
        yield Part(
            tuple(start for (start, _), _ in choice),
            tuple(stop - start for (start, stop), _ in choice),
            tuple(at for _, at in choice),
        )


# Returns a tensor's elements, on the host or on a device, and whether the
# program cannot change them.
ElementsFn = Callable[[Any, str], "tuple[NumpyArray | DeviceArray, bool]"]


def array_leaf(
    tensor: Any,
    name: str = "",
    *,
    every_replica: bool = False,
    elements_of: ElementsFn = _torch_arrays.on_host,
) -> _engine.ArrayLeaf:
    """Returns the part of a DTensor that this process saves.

    The lowest rank that holds a box writes it. With `every_replica`, returns
    everything that this rank holds. `elements_of` returns the elements of the
    local tensor. Raises InvalidArgumentError for tensors that `layout_of` or
    `elements_of` refuses.
    """
    layout = layout_of(tensor, name)
    dtype = _dtypes.numpy_dtype(_torch_arrays.dtype_name(tensor), name)
    shards = []
    immutable = True
    if (layout.is_writer or every_replica) and layout.parts:
        local_tensor = _local(tensor)
        if tuple(local_tensor.shape) != layout.local_shape:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: this rank's local tensor has shape"
                f" {tuple(local_tensor.shape)}; {tuple(tensor.placements)} of"
                f" {tuple(tensor.shape)} on {tensor.device_mesh} asks for"
                f" {layout.local_shape}"
            )
        local, immutable = elements_of(local_tensor, name)
        shards = [(part.origin, part.of(local)) for part in layout.parts]
    return _engine.ArrayLeaf(
        tuple(tensor.shape),
        shards,
        kind="numpy",
        immutable=immutable,
        write_shape=layout.write_shape,
        dtype=dtype,
    )


def _local(tensor: Any) -> Any:
    """Returns this rank's local tensor, without a copy and outside autograd."""
    with importing:
        import torch

    with torch.no_grad():
        local = tensor.to_local()
    wait = getattr(local, "wait", None)  # in case a collective still runs
    return local if wait is None else wait()


def local_buffers(tensor: Any, name: str = "") -> tuple[Buffer, list[Buffer]]:
    """Returns this rank's part of a target, and the buffers to fill for it.

    There are no buffers if the part is empty. Raises InvalidArgumentError like
    `layout_of`.
    """
    layout = layout_of(tensor, name)
    dtype = _dtypes.numpy_dtype(_torch_arrays.dtype_name(tensor), name)
    if len(layout.parts) == 1:
        (part,) = layout.parts
        only = Buffer(part.origin, part.shape, dtype)
        return only, [only]
    local = Buffer((), layout.local_shape, dtype)
    return local, [
        Buffer(part.origin, part.shape, dtype, part.of(local.array))
        for part in layout.parts
    ]


def tensor_like(target: Any, local: NumpyArray) -> Any:
    """Builds a DTensor with the target's mesh and placements from this rank's
    part.

    Returns a Parameter if the target is a Parameter.
    """
    with importing:
        import torch
        from torch.distributed.tensor import DTensor

    mesh = target.device_mesh
    tensor = DTensor.from_local(
        _torch_arrays.tensor_on(local, _torch_arrays.dtype_name(target)).to(
            mesh.device_type
        ),
        mesh,
        target.placements,
        run_check=False,
        shape=target.shape,
        stride=target.stride(),
    )
    if isinstance(target, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad=target.requires_grad)
    return tensor.requires_grad_() if target.requires_grad else tensor
