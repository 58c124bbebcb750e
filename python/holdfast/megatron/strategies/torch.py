"""Loads `torch_dist` checkpoints, written by torch.distributed.checkpoint and
Megatron Core.

`.metadata` is a pickle that records where each key's data is in the `.distcp`
files; each record there is a torch.save file. No code from these files is run.
Only torch itself and `holdfast convert` save in this format.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from holdfast import _engine, _files, errors
from holdfast.megatron import _tensors, _torch_file
from holdfast.megatron._errors import coded
from holdfast.megatron.core import CheckpointingException
from holdfast.megatron.dict_utils import dict_list_map_inplace
from holdfast.megatron.mapping import (
    ShardedObject,
    ShardedStateDict,
    ShardedTensor,
    StateDict,
    adopt_megatron_core,
)
from holdfast.megatron.strategies.base import (
    CheckpointDir,
    LoadShardedStrategy,
    StrategyAction,
    register_default_strategy,
)

__all__ = [
    "TorchDistLoadShardedStrategy",
    "load_object",
    "register_default_torch_strategies",
]

Shape = tuple[int, ...]
_METADATA = ".metadata"


def register_default_torch_strategies() -> None:
    """Makes the loader the default for torch_dist version 1."""
    register_default_strategy(
        StrategyAction.LOAD_SHARDED,
        "torch_dist",
        1,
        TorchDistLoadShardedStrategy(),
    )


class TorchDistLoadShardedStrategy(LoadShardedStrategy):
    """Loads objects, and tensors converted to the requested dtypes."""

    @property
    def can_handle_sharded_objects(self) -> bool:
        return True

    def load(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> StateDict:
        """Replaces ShardedTensors and ShardedObjects, in place.

        Raises CheckpointingException for a key that does not exist and for a
        different global shape, DataLossError for damage.
        """
        adopt_megatron_core()
        records = Records(checkpoint_dir)

        def loaded(x: Any) -> Any:
            if isinstance(x, ShardedObject):
                return records.object(x.unique_key)
            assert isinstance(x, ShardedTensor), type(x)
            return _load_tensor(records, x)

        dict_list_map_inplace(loaded, sharded_state_dict)
        return sharded_state_dict

    def load_tensors_metadata(
        self, checkpoint_dir: CheckpointDir
    ) -> ShardedStateDict:
        """Returns a complete ShardedTensor without data for each tensor."""
        return _tensors_in(Records(checkpoint_dir))

    def load_sharded_metadata(
        self, checkpoint_dir: CheckpointDir
    ) -> ShardedStateDict:
        """Returns `load_tensors_metadata`, plus the ShardedObjects by unique
        key."""
        records = Records(checkpoint_dir)
        objects = {
            key: ShardedObject.empty_from_unique_key(key)
            for key in records.object_keys
        }
        return {**_tensors_in(records), **objects}

    def check_backend_compatibility(self, loaded_backend: Any) -> None:
        """Raises CheckpointingException for a different back end."""
        if loaded_backend != "torch_dist":
            raise CheckpointingException(
                f"{type(self).__name__} reads torch_dist checkpoints; this one"
                f" says it is {loaded_backend!r}",
                code="BACKEND_MISMATCH",
            )

    def check_version_compatibility(self, loaded_version: Any) -> None:
        """Accepts every version."""


def load_object(checkpoint_dir: CheckpointDir, unique_key: str) -> Any:
    """Loads one object. Raises FileNotFoundError if it does not exist."""
    if not _files.exists(os.path.join(checkpoint_dir, _METADATA)):
        raise FileNotFoundError(_METADATA)
    records = Records(checkpoint_dir)
    if unique_key not in records.object_keys:
        raise FileNotFoundError(unique_key)
    return records.object(unique_key)


def _tensors_in(records: Records) -> ShardedStateDict:
    made: ShardedStateDict = {}
    for key, stored in sorted(records.tensors.items()):
        shape = stored.true_shape
        whole = slice(0, math.prod(shape)) if stored.is_flat else None
        made[key] = ShardedTensor(
            key,
            None,
            _tensors.default_dtype(stored.dtype),
            shape,
            shape,
            (0,) * len(shape),
            (1,) * len(shape),
            flattened_range=whole,
        )
    return made


class StoredTensor:
    """A tensor of the checkpoint: its dtype, and where its chunks are.

    `grid` is set for a tensor that was saved flattened. The grid cuts the
    tensor of `true_shape` into cells. The axes of `shape` are the axes of the
    grid, followed by one axis for the elements of a cell.
    """

    def __init__(self, key: str, state: dict[str, Any], extra: Any) -> None:
        self.key = key
        self.dtype = _dtype_in(state["properties"])
        self.shape = _ints(state["size"])
        self.chunks = [
            (_ints(each.state["offsets"]), _ints(each.state["sizes"]))
            for each in state["chunks"]
        ]
        true_shape = (extra or {}).get("nd_reformulated_orig_global_shape")
        self.is_flat = true_shape is not None
        self.true_shape = _ints(true_shape) if self.is_flat else self.shape
        self._check()

    def _check(self) -> None:
        if any(
            len(offset) != len(self.shape)
            or len(size) != len(self.shape)
            or any(
                o < 0 or n < 0 or o + n > s
                for o, n, s in zip(offset, size, self.shape, strict=True)
            )
            for offset, size in self.chunks
        ):
            raise errors.DataLossError(
                f"{_METADATA}: {self.key}: a chunk lies outside {self.shape}"
            )
        grid = self.shape[:-1]
        if self.is_flat and (
            len(grid) != len(self.true_shape)
            or any(
                n < 1 or s % n
                for s, n in zip(self.true_shape, grid, strict=True)
            )
            or math.prod(self.cell_shape) != self.shape[-1]
        ):
            raise errors.DataLossError(
                f"{_METADATA}: {self.key}: {self.shape} is not a flattened"
                f" form of {self.true_shape}"
            )

    @property
    def cell_shape(self) -> Shape:
        """The shape of a cell, stored as one row of the flattened tensor."""
        return tuple(
            s // n
            for s, n in zip(self.true_shape, self.shape[:-1], strict=True)
        )


def _ints(value: Any) -> Shape:
    if not isinstance(value, (tuple, list)) or not all(
        isinstance(each, int) and each >= 0 for each in value
    ):
        raise errors.DataLossError(f"{_METADATA}: {value!r} is not a shape")
    return tuple(int(each) for each in value)


def _dtype_in(properties: Any) -> str:
    state = getattr(properties, "state", None)
    first = state[0] if isinstance(state, tuple) and state else None
    if isinstance(state, dict):
        first = state.get("dtype")
    return _tensors.dtype_name(first)


class Records:
    """The contents of `.metadata`, and the records that it points to.

    Raises CheckpointingException if the file does not exist, and DataLossError
    if it contradicts itself or points outside its directory.
    """

    def __init__(self, checkpoint_dir: CheckpointDir) -> None:
        self._directory = os.fspath(checkpoint_dir)
        path = os.path.join(self._directory, _METADATA)
        try:
            with _files.open(path, "rb") as file:
                metadata = _engine.read_pickle(file.read())
        except FileNotFoundError as error:
            raise CheckpointingException(
                f"{path} does not exist", code="METADATA_NOT_FOUND"
            ) from error
        try:
            self._take(metadata.state)
        except (AttributeError, KeyError, TypeError) as error:
            raise errors.DataLossError(
                f"{path}: not the metadata of torch.distributed.checkpoint:"
                f" {error}"
            ) from error

    def _take(self, state: dict[str, Any]) -> None:
        extras = state.get("mcore_data") or {}
        self.tensors: dict[str, StoredTensor] = {}
        self.object_keys: list[str] = []
        for key, each in state["state_dict_metadata"].items():
            if each.name == "TensorStorageMetadata":
                self.tensors[key] = StoredTensor(
                    key, each.state, extras.get(key)
                )
            else:
                self.object_keys.append(key)
        self._places: dict[Any, tuple[str, int, int]] = {}
        for index, place in state["storage_data"].items():
            offset = index.state.get("offset")
            where = (
                str(place.state["relative_path"]),
                int(place.state["offset"]),
                int(place.state["length"]),
            )
            at = None if offset is None else _ints(offset)
            self._places[index.state["fqn"], at] = where

    def object(self, unique_key: str) -> Any:
        """Returns an object, which is stored as a list of one element."""
        value = self._record(unique_key, None)
        if not isinstance(value, list) or len(value) != 1:
            raise errors.DataLossError(
                f"{self._directory}: {unique_key}: the record is not a list of"
                " one object"
            )
        return value[0]

    def read(self, stored: StoredTensor, low: Shape, high: Shape) -> Any:
        """Returns the box [low, high) of a tensor as a carrier's array."""
        out = _tensors.empty(_extents(low, high), stored.dtype)
        covered = 0
        for offset, size in stored.chunks:
            begin = tuple(map(max, offset, low))
            end = tuple(
                min(o + n, h)
                for o, n, h in zip(offset, size, high, strict=True)
            )
            if any(b >= e for b, e in zip(begin, end, strict=True)):
                continue
            chunk = self._chunk(stored, offset, size)
            out[_box(begin, end, low)] = chunk[_box(begin, end, offset)]
            covered += math.prod(e - b for b, e in zip(begin, end, strict=True))
        if covered < out.size:
            raise errors.DataLossError(
                f"{self._directory}: {stored.key}: {out.size - covered} of"
                f" {out.size} elements are in no record"
            )
        return out

    def _chunk(self, stored: StoredTensor, offset: Shape, size: Shape) -> Any:
        value = self._record(stored.key, offset)
        name = _tensors.dtype_name(getattr(value, "dtype", None))
        if name != stored.dtype or tuple(value.shape) != size:
            raise errors.DataLossError(
                f"{self._directory}: {stored.key} at {offset}: the record has"
                f" {name} {tuple(getattr(value, 'shape', ()))}, want"
                f" {stored.dtype} {size}"
            )
        return _tensors.array_of(value)

    def _record(self, key: str, offset: Shape | None) -> Any:
        place = self._places.get((key, offset))
        if place is None:
            raise CheckpointingException(
                f"Missing key in checkpoint state_dict: {key}.",
                code="KEY_NOT_FOUND",
            )
        path, begin, length = place
        parts = path.split("/")
        if _files.isabs(path) or ".." in parts or "\0" in path:
            raise errors.DataLossError(
                f"{self._directory}: {key}: its record is in {path!r}, outside"
                " of the checkpoint"
            )
        whole = os.path.join(self._directory, path)
        with _files.open(whole, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if begin < 0 or length < 0 or begin + length > size:
                raise errors.DataLossError(
                    f"{whole}: {key}: its record of {length} bytes at {begin}"
                    f" ends after the {size} bytes of the file"
                )
            file.seek(begin)
            data = file.read(length)
        return _torch_file.decode(data)


def _extents(low: Shape, high: Shape) -> Shape:
    return tuple(e - b for b, e in zip(low, high, strict=True))


def _box(begin: Shape, end: Shape, origin: Shape) -> tuple[slice, ...]:
    return tuple(
        slice(b - o, e - o) for b, e, o in zip(begin, end, origin, strict=True)
    )


def _load_tensor(records: Records, ten: ShardedTensor) -> Any:
    stored = records.tensors.get(ten.key)
    if stored is None:
        raise CheckpointingException(
            f"Missing key in checkpoint state_dict: {ten.key}.",
            code="KEY_NOT_FOUND",
        )
    is_same = stored.true_shape == tuple(ten.global_shape)
    if stored.is_flat != (ten.flattened_range is not None) or (
        not is_same and not ten.allow_shape_mismatch
    ):
        raise CheckpointingException(
            f"Global shape mismatch for loaded (torch.Size("
            f"{list(stored.shape)})) and expected"
            f" ({tuple(ten.global_shape)}) tensor for key {ten.key}",
            code="GLOBAL_SHAPE_MISMATCH",
        )
    if len(stored.true_shape) != len(ten.global_shape):
        raise coded(
            "RANK_MISMATCH",
            f"{(ten.global_slice(), stored.true_shape, ten.key)}",
            AssertionError,
        )
    part = _local_box(records, stored, ten)
    if ten.flattened_range is not None:
        part = part.reshape(-1)[ten.flattened_range]
    like = ten.dtype if ten.data is None else ten.data
    made = _tensors.wrap(part, stored.dtype, like)
    if stored.dtype == _tensors.dtype_name(ten.dtype):
        return made
    if _tensors.is_torch(made):
        return made.to(ten.dtype)
    return made.astype(ten.dtype)


def _local_box(
    records: Records, stored: StoredTensor, ten: ShardedTensor
) -> Any:
    """Returns the box in the local shape; missing elements are zeros."""
    lead = ten.prepend_axis_num
    sizes = (1,) * lead + tuple(ten.local_shape)
    low = tuple(ten.global_offset)
    high = tuple(
        min(o + n, s)
        for o, n, s in zip(low, sizes, stored.true_shape, strict=True)
    )
    low = tuple(map(min, low, high))
    if stored.is_flat:
        found = _read_flat(records, stored, low, high)
    else:
        found = records.read(stored, low, high)
    if found.shape != sizes:
        widths = [(0, n - f) for n, f in zip(sizes, found.shape, strict=True)]
        found = np.pad(found, widths)
    return found.reshape(ten.local_shape)


def _read_flat(
    records: Records, stored: StoredTensor, low: Shape, high: Shape
) -> Any:
    """Reads a box of a tensor that was saved flattened, cell by cell."""
    out = _tensors.empty(_extents(low, high), stored.dtype)
    cell = stored.cell_shape
    for place in _cells(low, high, cell):
        row = records.read(
            stored,
            (*place, 0),
            (*(p + 1 for p in place), stored.shape[-1]),
        ).reshape(cell)
        origin = tuple(p * n for p, n in zip(place, cell, strict=True))
        begin = tuple(map(max, origin, low))
        end = tuple(
            min(o + n, h) for o, n, h in zip(origin, cell, high, strict=True)
        )
        out[_box(begin, end, low)] = row[_box(begin, end, origin)]
    return out


def _cells(low: Shape, high: Shape, cell: Shape) -> Iterator[Shape]:
    return itertools.product(
        *(
            range(begin // n, -(-end // n)) if n else range(0)
            for begin, end, n in zip(low, high, cell, strict=True)
        )
    )
