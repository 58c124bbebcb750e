"""Checkpoints of safetensors: a file, or a directory of files, to be read.

What a file says of itself is its header, read here; the elements are read by
the engine, which checks them against each other and the file's size first.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from holdfast import _dtypes, _engine, _files
from holdfast._lazy import importing
from holdfast.orbax import multihost
from holdfast.orbax._jax import require_jax
from holdfast.orbax.tree_paths import tree_leaves
from holdfast.orbax.v1._metadata_types import CheckpointMetadata, NumpyMetadata
from holdfast.orbax.v1.context import Context
from holdfast.orbax.v1.errors import InvalidLayoutError

SUFFIX = ".safetensors"

_METADATA_KEY = "__metadata__"
_LENGTH_BYTES = 8
# As the format's own reader allows.
_HEADER_BYTES_MAX = 100_000_000
_DTYPES = {
    "BOOL": "bool",
    "I8": "int8",
    "U8": "uint8",
    "I16": "int16",
    "U16": "uint16",
    "I32": "int32",
    "U32": "uint32",
    "I64": "int64",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "BF16": "bfloat16",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
}
_READ_BYTES_MAX = 2 << 30

NumpyArray = np.ndarray[Any, np.dtype[Any]]


def is_safetensors(path: Any) -> bool:
    """By names alone: such a file, or a directory that holds one."""
    if not _files.exists(path):
        return False
    return os.fspath(path).endswith(SUFFIX) or bool(_files_in(path))


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """The facts in a header about one tensor."""

    name: str
    file: str
    start: int  # where the file's elements begin, in bytes
    entry: dict[str, Any]

    def shape(self) -> tuple[int, ...]:
        shape = self.entry.get("shape")
        if not isinstance(shape, list) or not all(
            type(extent) is int and extent >= 0 for extent in shape
        ):
            raise ValueError(
                f"{self.file}: tensor {self.name!r} has no shape: {shape!r}"
            )
        return tuple(shape)

    def check_size(self) -> None:
        """Raises ValueError when its elements need other than its bytes."""
        begin, end = self.entry["data_offsets"]
        wanted_bytes = math.prod(self.shape()) * self.dtype().itemsize
        if begin < 0 or end - begin != wanted_bytes:
            raise ValueError(
                f"{self.file}: tensor {self.name!r} needs {wanted_bytes} bytes,"
                f" and its data_offsets are [{begin}, {end}]"
            )

    def dtype(self) -> np.dtype[Any]:
        """Raises ValueError, in Orbax's words."""
        try:
            name = _DTYPES[self.entry["dtype"]]
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"Unsupported dtype in SafeTensors header: {error}"
            ) from error
        return _dtypes.numpy_dtype(name, self.name)

    def end(self) -> int:
        """The end of its bytes in the file."""
        offsets = self.entry.get("data_offsets")
        if (
            not isinstance(offsets, list)
            or len(offsets) != 2
            or not all(type(offset) is int for offset in offsets)
        ):
            raise ValueError(
                f"{self.file}: tensor {self.name!r} has no data_offsets:"
                f" {offsets!r}"
            )
        return self.start + int(offsets[1])


class SafetensorsCheckpoint:
    """Tensors by name, in one file or several.

    Thread-safety: may be read by several threads.
    """

    def __init__(self, path: Any) -> None:
        """Reads nothing yet.

        Raises:
            InvalidLayoutError: no such file or files, in Orbax's words.
        """
        self.path = path
        text = os.fspath(path)
        if _files.isfile(text):
            if not text.endswith(SUFFIX):
                raise InvalidLayoutError(
                    f"Failed to interpret path {path} as a SafeTensors "
                    "checkpoint. A SafeTensors checkpoint must be a file with "
                    f"the '{SUFFIX}' suffix."
                )
            self._files = [text]
        elif _files.isdir(text):
            self._files = _files_in(text)
            if not self._files:
                raise InvalidLayoutError(
                    f"Directory {path} does not contain any '{SUFFIX}' files."
                )
        else:
            raise InvalidLayoutError(
                f"Path {path} is neither a file nor a directory or does not "
                "exist."
            )

    def metadata(self) -> CheckpointMetadata[dict[str, Any]]:
        """name -> abstract array; the files' own metadata, together.

        Its commit time is that of the newest file, in whole seconds, as
        Orbax's is. Abstract arrays are `jax.ShapeDtypeStruct`s where jax is
        installed, else NumpyMetadata.

        Raises:
            ValueError: a damaged header, an unknown dtype, or a name that two
                files have.
        """
        custom_metadata: dict[str, Any] = {}
        abstract = _abstract_array()
        tensors = {
            name: abstract(tensor.shape(), tensor.dtype())
            for name, tensor in self._tensors(custom_metadata).items()
        }
        return CheckpointMetadata(
            self.path,
            metadata=tensors,
            commit_timestamp_nsecs=max(
                int(_files.stat(file).st_mtime) for file in self._files
            ),
            custom_metadata=custom_metadata,
        )

    def load(
        self, abstract: Any | None, context: Context
    ) -> Callable[[], dict[str, Any]]:
        """Checks the request; the result reads the tensors.

        Args:
            abstract: name -> an abstract array, whose sharding says which parts
                this process's devices hold (None: all of it on each device);
                None: every tensor, as a numpy array.
            context: its limit of bytes in flight counts.

        Raises:
            ValueError: no flat dict; a damaged or cut file; a name that two
                files have. The result also: a shape other than the stored one,
                a dtype that Orbax does not have, shapes and offsets that do not
                fit each other.
            KeyError: by the result: a name that is not there.
        """
        if abstract is not None and not _is_flat_dict(abstract):
            raise ValueError("The PyTree is not a flat dictionary.")
        tensors = self._tensors({})
        _check_lengths(tensors.values())

        def run() -> dict[str, Any]:
            return _read(tensors, abstract, context)

        return run

    def _tensors(self, custom_metadata: dict[str, Any]) -> dict[str, _Tensor]:
        """The tensors by name; adds the files' metadata to `custom_metadata`.
        """
        found: dict[str, _Tensor] = {}
        for file in self._files:
            header, start = _read_header(file)
            for name, entry in header.items():
                if name == _METADATA_KEY:
                    if isinstance(entry, dict):
                        custom_metadata.update(entry)
                    continue
                if name in found:
                    raise ValueError(
                        f"Duplicate tensor {name} found in multiple files."
                    )
                if not isinstance(entry, dict):
                    raise ValueError(
                        f"{file}: the header's {name!r} is no object"
                    )
                found[name] = _Tensor(name, file, start, entry)
        return found


def _files_in(path: Any) -> list[str]:
    if not _files.isdir(path):
        return []
    names = sorted(_files.listdir(path))
    return [os.path.join(path, name) for name in names if name.endswith(SUFFIX)]


def _read_header(file: str) -> tuple[dict[str, Any], int]:
    """A file's header, and where the elements begin, in bytes.

    Raises:
        ValueError: it is cut, or no JSON object.
    """
    with _files.open(file, "rb") as stream:
        length = stream.read(_LENGTH_BYTES)
        if not length:
            raise ValueError(f"Could not read header size from {file}.")
        header_bytes = int.from_bytes(length, "little")
        text = stream.read(min(header_bytes, _HEADER_BYTES_MAX))
    if len(text) != header_bytes:
        raise ValueError(f"Could not read header content from {file}.")
    try:
        header = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{file}: the header is nested too deep") from error
    if not isinstance(header, dict):
        raise ValueError(f"{file}: the header is no JSON object")
    return header, _LENGTH_BYTES + header_bytes


def _check_lengths(tensors: Iterable[_Tensor]) -> None:
    """Raises ValueError, in Orbax's words, when elements are cut off."""
    ends: dict[str, int] = {}
    for tensor in tensors:
        ends[tensor.file] = max(ends.get(tensor.file, 0), tensor.end())
    for file, wanted_bytes in ends.items():
        file_bytes = _files.stat(file).st_size
        if file_bytes < wanted_bytes:
            raise ValueError(
                f"SafeTensors file {file} is truncated: its header declares "
                f"tensor data through byte {wanted_bytes}, but the file is "
                f"only {file_bytes} bytes."
            )


def _is_flat_dict(tree: Any) -> bool:
    if not isinstance(tree, dict):
        return False
    for value in tree.values():
        leaves = tree_leaves(value)
        if len(leaves) != 1 or leaves[0] is not value:
            return False
    return True


def _abstract_array() -> Callable[[tuple[int, ...], np.dtype[Any]], Any]:
    try:
        with importing:
            import jax
    except ImportError:
        return lambda shape, dtype: NumpyMetadata(shape, dtype, None)
    struct: Callable[..., Any] = jax.ShapeDtypeStruct
    return lambda shape, dtype: struct(shape=shape, dtype=dtype)


def _read(
    tensors: dict[str, _Tensor], abstract: Any | None, context: Context
) -> dict[str, Any]:
    limit = context.memory.read_concurrent_bytes
    chunk_bytes = context.safetensors.read_chunk_bytes
    if chunk_bytes is not None and chunk_bytes <= 0:
        raise ValueError(
            f"read_chunk_bytes must be positive, got {chunk_bytes}."
        )
    if abstract is None:
        if multihost.process_count() > 1:
            raise ValueError(
                "abstract_state must be provided for multi-process loading."
            )
        names = list(tensors)
    else:
        for name in abstract:
            if name not in tensors:
                raise KeyError(
                    f"Tensor '{name}' not found in Safetensors checkpoint."
                )
        names = sorted(abstract)
    # All headers are checked before memory is taken for the bytes they claim.
    for name in names:
        tensors[name].check_size()
    opened = {
        file: _engine.Checkpoint(file, use_sidecar=False)
        for file in dict.fromkeys(tensors[name].file for name in names)
    }
    wanted: list[_Wanted] = [
        _Whole(tensors[name])
        if abstract is None
        else _Sharded(tensors[name], abstract[name])
        for name in names
    ]
    made: dict[str, Any] = {}
    for file, checkpoint in opened.items():
        some = [each for each in wanted if each.tensor.file == file]
        _fill(checkpoint, some, _READ_BYTES_MAX if limit is None else limit)
        for each in some:
            made[each.tensor.name] = each.array()
    return {each.tensor.name: made[each.tensor.name] for each in wanted}


class _Wanted:
    """A tensor, and the boxes of it that are to be filled.

    Attributes:
        boxes: (origin in elements, array to fill) each.
    """

    def __init__(self, tensor: _Tensor) -> None:
        self.tensor = tensor
        self.boxes: list[tuple[tuple[int, ...], NumpyArray]] = []

    def array(self) -> Any:
        """After the boxes were filled; once."""
        raise NotImplementedError


class _Whole(_Wanted):
    """As a numpy array."""

    def __init__(self, tensor: _Tensor) -> None:
        super().__init__(tensor)
        shape = tensor.shape()
        self._array = _engine.empty(shape, tensor.dtype())
        self.boxes = [((0,) * len(shape), self._array)]

    def array(self) -> NumpyArray:
        return self._array


class _Sharded(_Wanted):
    """The tensor as a jax.Array: this process holds its devices' parts."""

    def __init__(self, tensor: _Tensor, abstract: Any) -> None:
        super().__init__(tensor)
        self._jax = require_jax("loading into jax.Arrays")
        self._shape = tuple(abstract.shape)
        self._dtype = np.dtype(abstract.dtype)
        if self._shape != tensor.shape():
            raise ValueError(
                f"Shape mismatch: abstract state has {self._shape}, the "
                f"checkpoint has {tensor.shape()}."
            )
        given = getattr(abstract, "sharding", None)
        self._sharding: Any = given or self._on_every_device()
        self._devices: list[list[Any]] = []
        for bounds, devices in self._parts().items():
            box_shape = tuple(stop - start for start, stop in bounds)
            box = _engine.empty(box_shape, tensor.dtype())
            self.boxes.append((tuple(start for start, _ in bounds), box))
            self._devices.append(devices)

    def _on_every_device(self) -> Any:
        sharding = self._jax.sharding
        mesh = sharding.Mesh(np.asarray(self._jax.devices()), ("all",))
        return sharding.NamedSharding(mesh, sharding.PartitionSpec())

    def _parts(self) -> dict[tuple[tuple[int, int], ...], list[Any]]:
        """(start, stop) along each axis -> this process's devices with it."""
        parts: dict[tuple[tuple[int, int], ...], list[Any]] = {}
        index_of = self._sharding.devices_indices_map(self._shape)
        for device, index in index_of.items():
            if device.process_index != multihost.process_index():
                continue
            bounds = tuple(
                part.indices(extent)[:2]
                for part, extent in zip(index, self._shape, strict=True)
            )
            parts.setdefault(bounds, []).append(device)
        return parts

    def array(self) -> Any:
        put = self._jax.device_put
        one = self._jax.sharding.SingleDeviceSharding
        arrays: list[Any] = []
        for devices in self._devices:
            _, box = self.boxes.pop(0)  # its memory goes when it is placed
            if box.dtype != self._dtype:
                box = box.astype(self._dtype)
            arrays.extend(put(box, one(device)) for device in devices)
        return self._jax.make_array_from_single_device_arrays(
            self._shape, self._sharding, arrays, dtype=self._dtype
        )


def _fill(
    checkpoint: _engine.Checkpoint, wanted: list[_Wanted], bytes_max: int
) -> None:
    """Reads every box of one file.

    Raises:
        ValueError: a leaf that the engine has found to be none.
        OSError: it cannot be read.
    """
    leaf_of = {leaf.name: i for i, leaf in enumerate(checkpoint.leaves)}
    checkpoint.read_into(
        [
            (leaf_of[each.tensor.name], origin, box)
            for each in wanted
            for origin, box in each.boxes
            if box.size > 0
        ],
        in_flight_bytes_max=bytes_max,
    )
