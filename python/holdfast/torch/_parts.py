"""The part of a state dict that one rank writes, and the sum of all parts."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    Metadata,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import WriteResult

from holdfast import _dtypes, _engine, _torch_arrays, errors
from holdfast._lazy import importing
from holdfast.torch._names import Path, nested, path_of
from holdfast.torch._objects import (
    file_of,
    is_plain,
    is_torch_file,
    plain_of,
    tuples_in,
)

__all__ = ["Part", "RankPlan", "Summary"]

# The origin in elements, and the elements.
Shard = tuple[tuple[int, ...], np.ndarray[Any, Any]]


@dataclasses.dataclass(frozen=True)
class RankPlan:
    """The coordinator's message to a rank.

    A planner that caches plans may pass the plan of an earlier save, so a plan
    must not contain anything that differs between saves.
    """

    rank: int
    write_shapes: dict[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class _StoredTensor:
    """A tensor of which a rank has written parts."""

    rank: int
    shape: tuple[int, ...]
    dtype: str
    write_shape: tuple[int, ...] | None


@dataclasses.dataclass(frozen=True)
class _StoredObject:
    """A Python object that a rank has written as an array of bytes.

    `kind` is "object" for a torch.save file, and otherwise "bytes".
    """

    rank: int
    byte_count: int
    kind: str


@dataclasses.dataclass(frozen=True)
class _PlainValue:
    """A value that the coordinator must write."""

    value: Any


class _Leaf:
    """An array of the written tree; the engine's `adapt` unwraps it."""

    def __init__(self, array: _engine.ArrayLeaf) -> None:
        self.array = array


class Part:
    """The part of a state dict that one rank writes."""

    def __init__(self, note: RankPlan) -> None:
        self._note = note
        self._tensors: dict[str, _StoredTensor] = {}
        self._shards: dict[str, list[Shard]] = {}

    @property
    def has_arrays(self) -> bool:
        return bool(self._shards)

    def add(self, item: WriteItem, planner: SavePlanner) -> WriteResult:
        """Captures the value of an item; returns the result to report."""
        if item.type != WriteItemType.BYTE_IO:
            return self._add_tensor(item, planner.resolve_data(item))
        if _only_pickles(planner):
            value = planner.lookup_object(item.index)
            if is_plain(value):
                return WriteResult(item.index, 0, _PlainValue(value))
        data = planner.resolve_data(item)
        return self._add_value(item, bytes(data.getbuffer()))

    def tree(self) -> _engine.Tree:
        """Returns each array under its full name, because only the coordinator
        has the tree."""
        leaves = {
            name: _Leaf(_array_leaf(self._tensors[name], shards, name))
            for name, shards in self._shards.items()
        }
        return _engine.build_tree(leaves, adapt=lambda leaf, path: leaf.array)

    def _add_value(self, item: WriteItem, data: bytes) -> WriteResult:
        name = item.index.fqn
        is_plain, value = plain_of(data)
        stored: Any = _PlainValue(value)
        if not data:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: the planner has made no bytes from it"
            )
        if not is_plain:
            array = np.frombuffer(data, np.uint8)
            self._tensors[name] = _object_tensor(self._note.rank, len(data))
            self._shards[name] = [((0,), array)]
            kind = "object" if is_torch_file(data) else "bytes"
            stored = _StoredObject(self._note.rank, len(data), kind)
        return WriteResult(item.index, len(data), stored)

    def _add_tensor(self, item: WriteItem, data: Any) -> WriteResult:
        name = item.index.fqn
        described = item.tensor_data
        tensor = data.detach()
        if tensor.device.type not in ("cpu", "meta"):
            tensor = tensor.cpu()
        array = _torch_arrays.as_numpy(tensor, name)
        shape = tuple(described.size)
        sizes = tuple(described.chunk.sizes)
        if array.shape != sizes:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: rank {self._note.rank} has a tensor of shape"
                f" {array.shape} for a part of {sizes}"
            )
        stored = _StoredTensor(
            self._note.rank,
            shape,
            _torch_arrays.dtype_name(tensor),
            self._note.write_shapes.get(name),
        )
        known = self._tensors.setdefault(name, stored)
        if known != stored:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: rank {self._note.rank} has parts of"
                f" {known.dtype} {known.shape} and of {stored.dtype} {shape}"
            )
        if math.prod(sizes) > 0:
            self._shards.setdefault(name, []).append(
                (tuple(described.chunk.offsets), array)
            )
        return WriteResult(item.index, array.nbytes, stored)


def _only_pickles(planner: SavePlanner) -> bool:
    """Returns whether the planner pickles values without changing them."""
    kind = type(planner)
    return (
        isinstance(planner, DefaultSavePlanner)
        and kind.resolve_data is DefaultSavePlanner.resolve_data
        and kind.transform_object is DefaultSavePlanner.transform_object
    )


def _object_tensor(rank: int, byte_count: int) -> _StoredTensor:
    return _StoredTensor(rank, (byte_count,), "uint8", None)


def _array_leaf(
    tensor: _StoredTensor,
    shards: list[Shard],
    name: str,
) -> _engine.ArrayLeaf:
    return _engine.ArrayLeaf(
        tensor.shape,
        shards,
        kind="numpy",
        immutable=False,
        write_shape=tensor.write_shape,
        dtype=_dtypes.numpy_dtype(tensor.dtype, name),
    )


class Summary:
    """Everything that all ranks have written, and what is still to be
    written."""

    def __init__(
        self, metadata: Metadata, results: list[list[WriteResult]]
    ) -> None:
        self._planner_data = metadata.planner_data
        self._values: dict[str, Any] = {}
        self._tensors: dict[str, _StoredTensor] = {}
        self._objects: dict[str, str] = {}  # kinds by name
        # The objects that the coordinator writes.
        self._contents: dict[str, bytes] = {}
        # The ranks that have written a part, ascending.
        self.ranks: list[int] = []
        for rank, of_rank in enumerate(results):
            has_part = False
            for result in of_rank:
                has_part |= self._add(result)
            if has_part:
                self.ranks.append(rank)
        self._add_unwritten(metadata)
        for name, tensor in list(self._tensors.items()):
            if math.prod(tensor.shape) == 0:
                self._keep_as_object(name, tensor)

    def tree(self) -> _engine.Tree:
        """Returns the complete tree, with values and without array elements.

        Raises:
          InvalidArgumentError: no tree can have these names.
        """
        leaves = {
            **self._values,
            **{
                name: _Leaf(_array_leaf(tensor, self._shards_of(name), name))
                for name, tensor in self._tensors.items()
            },
        }
        return _engine.build_tree(
            nested(
                (path_of(name, self._planner_data), leaf)
                for name, leaf in leaves.items()
            ),
            adapt=lambda leaf, path: leaf.array,
        )

    def tuples(self) -> list[Path]:
        """Returns the paths of the lists that were tuples."""
        return [
            path
            for name, value in self._values.items()
            for path in tuples_in(value, path_of(name, self._planner_data))
        ]

    def objects(self) -> list[tuple[Path, str]]:
        """Returns (path, kind) of the arrays that hold Python objects."""
        return [
            (path_of(name, self._planner_data), kind)
            for name, kind in self._objects.items()
        ]

    def _add(self, result: WriteResult) -> bool:
        """Adds a record; returns whether its array has elements."""
        name, stored = result.index.fqn, result.storage_data
        if isinstance(stored, _PlainValue):
            self._values[name] = stored.value
            return False
        if isinstance(stored, _StoredObject):
            self._objects[name] = stored.kind
            stored = _object_tensor(stored.rank, stored.byte_count)
        known = self._tensors.setdefault(name, stored)
        if dataclasses.replace(known, rank=stored.rank) != stored:
            raise errors.FailedPreconditionError(
                f"leaf {name!r}: rank {known.rank} has written parts of"
                f" {_described(known)}, rank {stored.rank} of"
                f" {_described(stored)}"
            )
        return bool(result.size_in_bytes > 0)

    def _shards_of(self, name: str) -> list[Shard]:
        content = self._contents.get(name)
        if content is None:
            return []
        return [((0,), np.frombuffer(content, np.uint8))]

    def _keep_as_object(self, name: str, tensor: _StoredTensor) -> None:
        """Stores a tensor without elements as an object, because Orbax cannot
        store its array."""
        with importing:
            import torch

        empty = torch.empty(tensor.shape, dtype=getattr(torch, tensor.dtype))
        content = file_of(empty).getvalue()
        self._contents[name] = content
        self._objects[name] = "object"
        self._tensors[name] = _object_tensor(tensor.rank, len(content))

    def _add_unwritten(self, metadata: Metadata) -> None:
        """Adds the tensors of which no rank had a part."""
        for name, described in metadata.state_dict_metadata.items():
            if name in self._tensors or name in self._values:
                continue
            if isinstance(described, TensorStorageMetadata):
                self._tensors[name] = _StoredTensor(
                    0,
                    tuple(described.size),
                    str(described.properties.dtype).removeprefix("torch."),
                    None,
                )


def _described(tensor: _StoredTensor) -> str:
    cut = tensor.write_shape or tensor.shape
    return f"{tensor.dtype} {tensor.shape}, cut into {cut}"
