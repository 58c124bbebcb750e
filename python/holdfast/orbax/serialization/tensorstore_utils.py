"""TensorStore's specs for the arrays of a checkpoint.

The functions and their results are those of Orbax 0.12.8, plus older public
names. The engine implements the rules (`holdfast/orbax/spec.h`); nothing here
needs TensorStore. An `info` argument is read like a ParamInfo.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from holdfast import _engine
from holdfast.orbax._devices.optional_jax import is_prng_key_dtype
from holdfast.orbax.metadata import value as value_metadata
from holdfast.orbax.serialization import handles
from holdfast.orbax.serialization._array_specs import (
    ArrayMetadata,
    ArrayReadSpec,
    ArrayWriteSpec,
)
from holdfast.orbax.serialization._ocdbt import (
    PROCESS_SUBDIR_PREFIX,
    REPLICA_SUBDIR_SUFFIX,
    OcdbtKvStoreWriteOptions,
    OcdbtProcessSpec,
    OcdbtTemporaryMetadataContext,
    OcdbtWriteMode,
)
from holdfast.orbax.serialization._specs import (
    dump,
    name_of,
    parse,
    text_of,
)

__all__ = [
    "DEFAULT_DRIVER",
    "FILE_DRIVER",
    "PROCESS_SUBDIR_PREFIX",
    "REPLICA_SUBDIR_SUFFIX",
    "STORE_ARRAY_DATA_EQUAL_TO_FILL_VALUE",
    "ZARR_VER2",
    "ZARR_VER3",
    "ArrayMetadata",
    "ArrayReadSpec",
    "ArrayWriteSpec",
    "OcdbtKvStoreWriteOptions",
    "OcdbtProcessSpec",
    "OcdbtTemporaryMetadataContext",
    "OcdbtWriteMode",
    "add_ocdbt_write_options",
    "array_metadata_from_tensorstore",
    "assert_parameter_files_exist",
    "build_array_read_spec",
    "build_array_write_spec",
    "build_kvstore_tspec",
    "build_kvstore_tspec_for_merge",
    "build_zarr_shard_and_chunk_metadata",
    "calculate_chunk_byte_size",
    "get_cast_tspec_deserialize",
    "get_cast_tspec_serialize",
    "get_json_tspec_read",
    "get_json_tspec_write",
    "get_sharding_tensorstore_spec",
    "get_ts_context",
    "is_remote_storage",
    "open_kv_store",
    "print_ts_debug_data",
    "resolve_compression_settings",
]

JsonSpec: TypeAlias = dict[str, Any]
Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = Any
ExtMetadata: TypeAlias = dict[str, Any]

FILE_DRIVER = "file"
DEFAULT_DRIVER = FILE_DRIVER
ZARR_VER2 = "zarr"
ZARR_VER3 = "zarr3"
# Chunks of zeros are stored as well, so a missing chunk is known to be lost.
STORE_ARRAY_DATA_EQUAL_TO_FILL_VALUE = True


def get_ts_context(
    *,
    use_ocdbt: bool = True,
    file_io_concurrency_limit: int | None = None,
    data_copy_concurrency_limit: int | None = None,
) -> handles.Context:
    """Makes a context with limits for opening specs.

    Args:
        use_ocdbt: adds a cache of 100 MB for B+tree nodes.
        file_io_concurrency_limit: number of files read or written concurrently;
            None means 128.
        data_copy_concurrency_limit: number of threads that encode and decode;
            None means one per CPU.

    Raises:
        ValueError: a limit is below 1.
    """
    return handles.Context(
        _engine.TsContext(
            use_ocdbt, file_io_concurrency_limit, data_copy_concurrency_limit
        )
    )


def build_kvstore_tspec(
    directory: str,
    name: str | None = None,
    *,
    use_ocdbt: bool = True,
    ocdbt_process_spec: OcdbtProcessSpec | None = None,
    ocdbt_write_options: OcdbtKvStoreWriteOptions | None = None,
    ocdbt_temporary_metadata_context: (
        OcdbtTemporaryMetadataContext | None
    ) = None,
    process_id: int | str | None = None,
    replica_separate_folder: bool = False,
) -> JsonSpec:
    """Builds the key-value store spec of an item or of one of its parameters.

    Args:
        directory: the item's absolute path, or gs://bucket/path.
        name: the parameter's name.
        use_ocdbt: whether the store is an OCDBT database or plain files.
        ocdbt_process_spec: the subdirectory of a process.
        ocdbt_write_options: options for a store that will be written.
        ocdbt_temporary_metadata_context: where nodes are stored until they are
            committed.
        process_id: the older way to name a process's subdirectory; letters and
            digits only.
        replica_separate_folder: with `process_id`, names the subdirectory for
            replicated arrays.

    Raises:
        ValueError: the directory is relative, or arguments contradict each
            other.
    """
    write = ocdbt_write_options
    temporary = ocdbt_temporary_metadata_context
    return parse(
        _engine.build_kvstore_tspec(
            str(directory),
            name,
            use_ocdbt,
            text_of(process_id),
            replica_separate_folder,
            text_of(ocdbt_process_spec),
            None if write is None else write.mode.value,
            None if write is None else write.target_data_file_size,
            write is not None
            and write.store_ocdbt_metadata_and_values_separately,
            None if temporary is None else str(temporary.path),
        )
    )


def build_kvstore_tspec_for_merge(directory: str, subdir: str) -> JsonSpec:
    """Builds the spec of the database in a process's subdirectory."""
    return parse(_engine.build_kvstore_tspec_for_merge(str(directory), subdir))


def add_ocdbt_write_options(
    kvstore_tspec: JsonSpec, target_data_file_size: int | None = None
) -> None:
    """Adds the write options of a database to a spec in place.

    Args:
        kvstore_tspec: a spec with driver ocdbt.
        target_data_file_size: size in bytes; 0 means no limit, and None means
            the store's default.

    Raises:
        ValueError: the size is negative.
    """
    written = parse(
        _engine.add_ocdbt_write_options(
            dump(kvstore_tspec), target_data_file_size
        )
    )
    for member in ("target_data_file_size", "config", "assume_config"):
        kvstore_tspec[member] = written[member]


async def open_kv_store(
    kvstore_tspec: JsonSpec, ts_context: handles.Context | None
) -> handles.KvStore:
    """Opens a key-value store."""
    return await asyncio.to_thread(
        handles.open_kv_store, kvstore_tspec, ts_context
    )


def build_zarr_shard_and_chunk_metadata(
    *,
    global_shape: Shape,
    shard_shape: Shape,
    use_compression: bool = True,
    use_zarr3: bool,
    chunk_shape: Shape,
) -> JsonSpec:
    """Builds the metadata member of a write spec; shapes are in elements."""
    return parse(
        _engine.build_zarr_shard_and_chunk_metadata(
            global_shape, shard_shape, use_compression, use_zarr3, chunk_shape
        )
    )


def _build_ts_zarr_shard_and_chunk_metadata(
    global_shape: Shape,
    shard_shape: Shape,
    use_zarr3: bool,
    dtype: DType,
    write_chunk_shape: Shape | None = None,
    read_chunk_shape: Shape | None = None,
    chunk_byte_size: int | None = None,
) -> JsonSpec:
    """Builds the metadata as Orbax's older builder does.

    This builder has separate shapes for written objects and their chunks.

    Raises:
        ValueError: the shapes do not divide each other, or zarr 2 is selected.
    """
    return parse(
        _engine.build_ts_zarr_shard_and_chunk_metadata(
            global_shape,
            shard_shape,
            use_zarr3,
            name_of(dtype),
            write_chunk_shape,
            read_chunk_shape,
            chunk_byte_size,
        )
    )


def calculate_chunk_byte_size(
    write_shape: Shape,
    dtype: DType,
    *,
    chunk_byte_size: int | None,
    ocdbt_target_data_file_size: int | None = None,
    kvstore_spec: JsonSpec | None = None,
) -> int | None:
    """Returns the maximum chunk size, in bytes, that fits in a data file.

    Args:
        write_shape: the shape written as one unit, in elements.
        dtype: the dtype of the elements.
        chunk_byte_size: the requested size.
        ocdbt_target_data_file_size: size in bytes; 0 means no limit, and None
            means the value in `kvstore_spec`.
        kvstore_spec: a spec with driver ocdbt.

    Returns:
        The size, or None if there is no limit.
    """
    return _engine.calculate_chunk_byte_size(
        write_shape,
        name_of(dtype),
        chunk_byte_size,
        ocdbt_target_data_file_size,
        None if kvstore_spec is None else dump(kvstore_spec),
    )


def is_remote_storage(tspec: JsonSpec | str) -> bool:
    """Returns whether the spec or URL refers to gs:// or s3://."""
    return _engine.is_remote_storage(dump(tspec))


def get_sharding_tensorstore_spec(directory: str, param_name: str) -> JsonSpec:
    """Returns the spec of a parameter's entry in `_sharding`."""
    return parse(
        _engine.get_sharding_tensorstore_spec(str(directory), param_name)
    )


async def assert_parameter_files_exist(
    param_dir: Any, metadata_key: str | None, use_zarr3: bool = False
) -> None:
    """Checks the directory of a parameter that is stored in files.

    Raises:
        FileNotFoundError: the directory or the metadata in it is missing.
    """
    await asyncio.to_thread(
        _engine.assert_parameter_files_exist,
        os.fspath(param_dir),
        metadata_key,
        use_zarr3,
    )


def get_json_tspec_read(
    info: Any,
    use_ocdbt: bool,
    metadata_key: str | None = None,
    raise_array_data_missing_error: bool = True,
) -> JsonSpec:
    """Returns the spec for reading a parameter. See build_array_read_spec."""
    return build_array_read_spec(
        info,
        use_ocdbt=use_ocdbt,
        metadata_key=metadata_key,
        raise_array_data_missing_error=raise_array_data_missing_error,
    ).json


def get_json_tspec_write(
    info: Any,
    use_ocdbt: bool,
    global_shape: Shape,
    local_shape: Shape,
    dtype: DType,
    process_index: int | str | None = None,
    metadata_key: str | None = None,
    arg: Any | None = None,
) -> JsonSpec:
    """Returns the spec for writing a parameter. See build_array_write_spec.

    Unlike that function, uses `arg.write_chunk_shape` and
    `arg.read_chunk_shape` too.
    """
    shapes = (
        getattr(arg, "write_chunk_shape", None),
        getattr(arg, "read_chunk_shape", None),
    )
    if arg is None or shapes == (None, None):
        return build_array_write_spec(
            info,
            arg,
            global_shape=global_shape,
            local_shape=local_shape,
            dtype=dtype,
            use_ocdbt=use_ocdbt,
            process_index=process_index,
            metadata_key=metadata_key,
        ).json
    stored = None if arg.dtype is None else name_of(arg.dtype)
    return parse(
        _engine.get_json_tspec_write(
            info.name,
            _directory(info),
            bool(info.use_compression),
            bool(info.use_zarr3),
            info.ocdbt_target_data_file_size,
            use_ocdbt,
            global_shape,
            local_shape,
            name_of(dtype),
            text_of(process_index),
            metadata_key,
            (stored, arg.chunk_byte_size, arg.shard_axes, *shapes),
        )
    )


def _directory(info: Any) -> str:
    if info.name is None or info.parent_dir is None:
        raise ValueError("Must provide info.name and info.parent_dir.")
    directory: str = info.parent_dir.as_posix()
    return directory


def build_array_read_spec(
    info: Any,
    *,
    use_ocdbt: bool,
    metadata_key: str | None = None,
    raise_array_data_missing_error: bool = True,
    target_dtype: DType | None = None,
) -> ArrayReadSpec:
    """Returns the ArrayReadSpec of a parameter.

    Raises:
        ValueError: `info` has no name or no directory.
    """
    return ArrayReadSpec(
        directory=_directory(info),
        relative_array_filename=info.name,
        use_zarr3=info.use_zarr3,
        use_ocdbt=use_ocdbt,
        metadata_key=metadata_key,
        raise_array_data_missing_error=raise_array_data_missing_error,
        target_dtype=target_dtype,
    )


def build_array_write_spec(
    info: Any,
    arg: Any | None = None,
    *,
    global_shape: Shape,
    local_shape: Shape,
    dtype: DType,
    use_ocdbt: bool,
    process_index: int | str | None = None,
    replica_separate_folder: bool = False,
    metadata_key: str | None = None,
    ext_metadata: ExtMetadata | None = None,
) -> ArrayWriteSpec:
    """Returns the ArrayWriteSpec of a parameter; `arg` is a SaveArgs.

    Raises:
        ValueError: `info` has no name or no directory, or ArrayWriteSpec
            rejects the arguments.
    """
    return ArrayWriteSpec(
        _directory(info),
        relative_array_filename=info.name,
        global_shape=global_shape,
        write_shape=local_shape,
        dtype=dtype,
        target_dtype=None if arg is None else arg.dtype,
        chunk_byte_size=None if arg is None else arg.chunk_byte_size,
        shard_axes=() if arg is None else arg.shard_axes,
        use_compression=info.use_compression,
        use_zarr3=info.use_zarr3,
        use_ocdbt=use_ocdbt,
        process_id=process_index,
        replica_separate_folder=replica_separate_folder,
        ocdbt_target_data_file_size=info.ocdbt_target_data_file_size,
        metadata_key=metadata_key,
        ext_metadata=ext_metadata,
    )


def get_cast_tspec_serialize(
    tspec: JsonSpec, value: Any, args: Any
) -> JsonSpec:
    """Wraps a write spec in a cast, to store values as `args.dtype`."""
    return parse(
        _engine.get_cast_tspec_serialize(
            dump(tspec),
            name_of(value.dtype),
            None if args.dtype is None else name_of(args.dtype),
        )
    )


def get_cast_tspec_deserialize(tspec: JsonSpec, args: Any) -> JsonSpec:
    """Wraps a read spec in a cast to `args.dtype`, if that is not None."""
    if args.dtype is None or is_prng_key_dtype(args.dtype):
        return tspec
    return parse(
        _engine.get_cast_tspec_deserialize(dump(tspec), name_of(args.dtype))
    )


def array_metadata_from_tensorstore(
    t: Any, info: Any, sharding: Any | None = None
) -> value_metadata.ArrayMetadata:
    """Returns the metadata of an opened array.

    Args:
        t: a `handles.ArrayHandle` or a tensorstore.TensorStore.
        info: provides the name, the directory and the write shape.
        sharding: the recorded sharding.
    """
    base = t
    while getattr(base, "base", None) is not None:
        base = base.base
    stored = base.spec().to_json().get("metadata")
    return value_metadata.ArrayMetadata(
        name=info.name,
        directory=info.parent_dir,
        shape=tuple(t.shape),
        dtype=np.dtype(getattr(t.dtype, "numpy_dtype", t.dtype)),
        sharding=sharding,
        storage=value_metadata.StorageMetadata(
            chunk_shape=tuple(t.chunk_layout.read_chunk_template.shape),
            write_shape=info.write_shape,
            zarr_metadata=value_metadata.ZarrMetadata.from_json(stored),
        ),
    )


def resolve_compression_settings(
    metadatas: Sequence[ArrayMetadata],
) -> tuple[str, str]:
    """Returns the common (algorithm, level), or ("mixed", "mixed")."""
    if not metadatas:
        return ("none", "None")
    settings = {
        (m.compression_algorithm, m.compression_level) for m in metadatas
    }
    if len(settings) > 1:
        return ("mixed", "mixed")
    algorithm, level = settings.pop()
    return (str(algorithm), str(level))


def print_ts_debug_data(key: str | None, infos: Sequence[Any]) -> str:
    """Returns JSON text with `key`, the parameters' names, and statistics of
    the process's reads and writes."""
    text = _engine.print_ts_debug_data(key, [str(info.name) for info in infos])
    return json.dumps(json.loads(text))
