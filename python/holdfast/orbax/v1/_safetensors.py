"""Reads safetensors checkpoints: a file, or a directory of files.

The engine reads headers and elements, and checks both. This module decides
which files are read, checks the caller's request, and raises Orbax's error
messages.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast import _dtypes, _engine, _files
from holdfast._buffers import Buffer, read
from holdfast._lazy import importing
from holdfast._log import say_ignored
from holdfast._target_leaves import Slot, put_all
from holdfast.errors import FailedPreconditionError, NotFoundError
from holdfast.orbax import multihost
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax.tree_paths import tree_leaves
from holdfast.orbax.v1._metadata_types import CheckpointMetadata, NumpyMetadata
from holdfast.orbax.v1.context import Context
from holdfast.orbax.v1.errors import InvalidLayoutError

SUFFIX = ".safetensors"

_METADATA_KEY = "__metadata__"
_LENGTH_BYTES = 8
# The limit of the format's own reader.
_HEADER_BYTES_MAX = 100_000_000
# The dtypes that Orbax reads; the engine reads more.
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
_OPENED_AT_ONCE = 16


def is_safetensors(path: Any) -> bool:
    """Returns whether a path is a `.safetensors` file or contains one.

    Only names are checked; no file is read.
    """
    if not _files.exists(path):
        return False
    return os.fspath(path).endswith(SUFFIX) or bool(_files_in(path))


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """A tensor, and the checkpoint of the file that contains it."""

    file: _engine.Checkpoint
    leaf: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class SafetensorsCheckpoint:
    """Tensors by name, in one file or several.

    Thread-safety: any number of threads may read.
    """

    def __init__(self, path: Any) -> None:
        """Finds the files; reads nothing yet.

        Raises:
            InvalidLayoutError: there are no such files; the message is Orbax's.
        """
        self.path = path
        self._directory: str | None = None
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
            self._directory = text
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
        """Returns abstract arrays by name, and the merged metadata of the
        files.

        The commit time is the newest file's time in whole seconds, as in Orbax.
        Abstract arrays are `jax.ShapeDtypeStruct`s if jax is installed, and
        otherwise NumpyMetadata.

        Raises:
            ValueError: a file is damaged or truncated, a dtype is unknown, or
                two files contain the same name.
        """
        opened = self._open()
        custom_metadata: dict[str, Any] = {}
        for file in opened:
            custom_metadata.update(
                json.loads(file.item_custom_metadata or "{}")
            )
        abstract = _abstract_array()
        tensors = {
            name: abstract(tensor.shape, tensor.dtype)
            for name, tensor in _tensors(opened).items()
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
        """Checks the request; the returned function reads the tensors.

        Args:
            abstract: maps names to abstract arrays, whose shardings determine
                which parts this process's devices hold (without a sharding,
                each device holds the complete array). None reads every tensor
                as a numpy array.
            context: supplies the limit of bytes in flight.

        Raises:
            ValueError: `abstract` is not a flat dict, a file is damaged or
                truncated or has a dtype that Orbax lacks, or two files contain
                the same name. The returned function also raises ValueError if a
                shape differs from the stored shape.
            KeyError: raised by the returned function for a missing name.
        """
        if abstract is not None and not _is_flat_dict(abstract):
            raise ValueError("The PyTree is not a flat dictionary.")
        tensors = _tensors(self._open())

        def run() -> dict[str, Any]:
            return _read(tensors, abstract, context)

        return run

    def _open(self) -> list[_engine.Checkpoint]:
        """Returns the checkpoints that contain the tensors.

        Raises:
            ValueError: as for the function `_open`; or the files' names or
                index say that files are missing.
        """
        if self._directory is None or not _is_set(self._files):
            return _open_all(self._files)
        try:
            opened = _open_all(self._files)
        except FailedPreconditionError:
            # The files contain parts of tensors, which the engine joins.
            return [_open(self._directory)]
        _engine.Checkpoint(self._directory, use_sidecar=False)
        return opened


def _is_set(files: Sequence[str]) -> bool:
    """Returns whether the files' names suggest that they are parts of a set."""
    return any("of" in os.path.basename(file) for file in files)


def _files_in(path: Any) -> list[str]:
    if not _files.isdir(path):
        return []
    names = sorted(entry.name for entry in _files.own_entries(path))
    return [os.path.join(path, name) for name in names if name.endswith(SUFFIX)]


def _open_all(files: Sequence[str]) -> list[_engine.Checkpoint]:
    """Opens all files concurrently, because each waits for a few small reads;
    see `_open`."""
    with concurrent.futures.ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
        return list(pool.map(_open, files))


def _open(file: str) -> _engine.Checkpoint:
    """Returns one file as a checkpoint, after checking its header.

    Raises:
        ValueError: the file is damaged or truncated, or has a dtype that Orbax
            lacks.
    """
    try:
        checkpoint = _engine.Checkpoint(file, use_sidecar=False)
    except FailedPreconditionError:
        raise
    except ValueError:
        _check_as_orbax(file)
        raise
    except NotFoundError as error:
        # The path exists, but is not a safetensors file.
        raise ValueError(str(error)) from error
    if any(
        leaf.value_type or leaf.dtype not in _DTYPES.values()
        for leaf in checkpoint.leaves
    ):
        _check_as_orbax(file)
    return checkpoint


def _check_as_orbax(file: str) -> None:
    """Raises Orbax's error for a refused file, if Orbax would refuse it too.

    Raises:
        ValueError: Orbax would refuse the file.
    """
    with _files.open(file, "rb") as stream:
        length = stream.read(_LENGTH_BYTES)
        if not length:
            raise ValueError(f"Could not read header size from {file}.")
        header_bytes = int.from_bytes(length, "little")
        text = stream.read(min(header_bytes, _HEADER_BYTES_MAX))
    if len(text) != header_bytes:
        raise ValueError(f"Could not read header content from {file}.")
    with contextlib.suppress(TypeError, LookupError, RecursionError):
        _check_header(json.loads(text), file, _LENGTH_BYTES + header_bytes)


def _check_header(header: Any, file: str, data_offset: int) -> None:
    """Checks a header as Orbax does.

    Raises ValueError with Orbax's message, or any other error if the header is
    malformed.
    """
    entries = [header[name] for name in header if name != _METADATA_KEY]
    for entry in entries:
        try:
            _DTYPES[entry["dtype"]]
        except KeyError as error:
            raise ValueError(
                f"Unsupported dtype in SafeTensors header: {error}"
            ) from error
    ends = (entry["data_offsets"][1] for entry in entries)
    end = data_offset + max(ends, default=0)
    file_bytes = _files.stat(file).st_size
    if file_bytes < end:
        raise ValueError(
            f"SafeTensors file {file} is truncated: its header declares "
            f"tensor data through byte {end}, but the file is only "
            f"{file_bytes} bytes."
        )


def _tensors(opened: Sequence[_engine.Checkpoint]) -> dict[str, _Tensor]:
    """Returns the tensors by name.

    Raises:
        ValueError: two files contain the same name.
    """
    found: dict[str, _Tensor] = {}
    for file in opened:
        for i, leaf in enumerate(file.leaves):
            if leaf.name in found:
                raise ValueError(
                    f"Duplicate tensor {leaf.name} found in multiple files."
                )
            dtype = _dtypes.numpy_dtype(leaf.dtype or "", leaf.name)
            found[leaf.name] = _Tensor(file, i, leaf.shape, dtype)
    return found


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
    chunk_bytes = context.safetensors.read_chunk_bytes
    if chunk_bytes is not None and chunk_bytes <= 0:
        raise ValueError(
            f"read_chunk_bytes must be positive, got {chunk_bytes}."
        )
    say_ignored(
        "SafetensorsOptions.max_over_read_ratio",
        context.safetensors.max_over_read_ratio,
        "only the needed bytes are read",
    )
    if abstract is None:
        if multihost.process_count() > 1:
            raise ValueError(
                "abstract_state must be provided for multi-process loading."
            )
        abstract = dict.fromkeys(tensors)
        names = list(tensors)
    else:
        _check_request(tensors, abstract)
        names = sorted(abstract)
    limit = context.memory.read_concurrent_bytes
    bytes_max = _READ_BYTES_MAX if limit is None else limit
    made: dict[str, Any] = {}
    for file in dict.fromkeys(tensors[name].file for name in names):
        some = [name for name in names if tensors[name].file is file]
        slots = [_slot(tensors[name], abstract[name]) for name in some]
        made.update(zip(some, _filled(file, slots, bytes_max), strict=True))
    return {name: made[name] for name in names}


def _check_request(tensors: dict[str, _Tensor], abstract: Any) -> None:
    """Raises KeyError for a missing name, ValueError for a different shape."""
    for name in abstract:
        if name not in tensors:
            raise KeyError(
                f"Tensor '{name}' not found in Safetensors checkpoint."
            )
    for name, wanted in abstract.items():
        if tuple(wanted.shape) != tensors[name].shape:
            raise ValueError(
                f"Shape mismatch: abstract state has {tuple(wanted.shape)}, "
                f"the checkpoint has {tensors[name].shape}."
            )


def _slot(tensor: _Tensor, abstract: Any | None) -> Slot:
    """Returns a Slot to read a tensor into.

    The slot holds a numpy array or, for a jax.Array, this process's parts.
    """
    if abstract is None:
        origin = (0,) * len(tensor.shape)
        buffer = Buffer(origin, tensor.shape, tensor.dtype)
        return Slot([(tensor.leaf, buffer)], lambda: buffer.array)
    jax = require_jax("loading into jax.Arrays")
    with importing:
        from holdfast import _jax_arrays

    sharding = getattr(abstract, "sharding", None)
    if sharding is None:
        mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ("all",))
        everywhere = jax.sharding.PartitionSpec()
        sharding = jax.sharding.NamedSharding(mesh, everywhere)
    placement = _jax_arrays.placement(tensor.shape, abstract.dtype, sharding)
    requests = placement.requests(tensor.leaf, takes_devices=True)
    return Slot(requests, placement.finish, placement)


def _filled(
    file: _engine.Checkpoint, slots: Sequence[Slot], bytes_max: int
) -> list[Any]:
    """Reads the slots of one file; returns the arrays.

    Raises:
        OSError: the file cannot be read.
    """
    requests = [
        (leaf, buffer)
        for slot in slots
        for leaf, buffer in slot.requests
        if not isinstance(buffer, Buffer) or buffer.array.size > 0
    ]
    read(file, requests, None, memory_bytes=bytes_max)
    put_all([slot.placement for slot in slots if slot.placement])
    return [slot.finish() for slot in slots]
