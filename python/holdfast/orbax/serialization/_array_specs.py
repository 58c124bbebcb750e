"""ArrayReadSpec and ArrayWriteSpec: specs for reading and writing an array."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from holdfast import _engine
from holdfast.orbax._devices.optional_jax import is_prng_key_dtype
from holdfast.orbax.serialization._ocdbt import OcdbtTemporaryMetadataContext
from holdfast.orbax.serialization._specs import (
    JsonSpec,
    name_of,
    parse,
    text_of,
)

Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = Any
ExtMetadata: TypeAlias = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class ArrayMetadata:
    """A checkpoint's record of an array that a spec writes.

    Attributes:
        param_name: the parameter's keys, joined with dots.
        shape: the shape of the complete array; all shapes are in elements.
        dtype: the stored dtype.
        write_shape: the shape that one device writes.
        chunk_shape: the shape of a stored chunk.
        use_ocdbt: whether the array is stored in a database.
        use_zarr3: whether the array is zarr 3 instead of zarr 2.
        ext_metadata: additional metadata to record.
        compression_algorithm: "zstd" or "none".
        compression_level: None without compression.
    """

    param_name: str
    shape: Shape
    dtype: DType
    write_shape: Shape
    chunk_shape: Shape
    use_ocdbt: bool
    use_zarr3: bool
    ext_metadata: ExtMetadata | None = None
    compression_algorithm: str = "none"
    compression_level: int | None = None


class ArrayReadSpec:
    """A spec for reading an array."""

    def __init__(
        self,
        directory: str,
        relative_array_filename: str,
        use_zarr3: bool,
        *,
        use_ocdbt: bool,
        metadata_key: str | None = None,
        raise_array_data_missing_error: bool = True,
        target_dtype: DType | None = None,
    ) -> None:
        """Builds the spec.

        Args:
            directory: the item's directory.
            relative_array_filename: the parameter's name.
            use_zarr3: whether the array is zarr 3 instead of zarr 2.
            use_ocdbt: whether the array is in a database instead of files.
            metadata_key: name of the array's metadata file; None means the
                format's default.
            raise_array_data_missing_error: treat a missing chunk as an error.
            target_dtype: the dtype to cast elements to.

        Raises:
            ValueError: the directory is relative.
        """
        casts = target_dtype is not None and not is_prng_key_dtype(target_dtype)
        self._json_spec = parse(
            _engine.array_read_spec(
                str(directory),
                relative_array_filename,
                bool(use_zarr3),
                use_ocdbt,
                metadata_key,
                raise_array_data_missing_error,
                name_of(target_dtype) if casts else None,
            )
        )

    @property
    def json(self) -> JsonSpec:
        """The spec."""
        return self._json_spec


class ArrayWriteSpec:
    """A spec for writing an array."""

    def __init__(
        self,
        directory: str,
        relative_array_filename: str,
        *,
        global_shape: Shape,
        write_shape: Shape,
        dtype: DType,
        target_dtype: DType | None = None,
        chunk_byte_size: int | None = None,
        shard_axes: tuple[int, ...] = (),
        use_compression: bool = True,
        use_zarr3: bool = False,
        use_ocdbt: bool,
        ocdbt_target_data_file_size: int | None = None,
        process_id: int | str | None = None,
        metadata_key: str | None = None,
        replica_separate_folder: bool = False,
        ext_metadata: ExtMetadata | None = None,
        store_ocdbt_metadata_and_values_separately: bool = False,
        ocdbt_temporary_metadata_context: (
            OcdbtTemporaryMetadataContext | None
        ) = None,
    ) -> None:
        """Builds the spec; see ArrayReadSpec and SaveArgs for the arguments.

        Raises:
            ValueError: arguments are invalid; the message is Orbax's.
        """
        temporary = ocdbt_temporary_metadata_context
        text, chunk_shape, algorithm, level = _engine.array_write_spec(
            str(directory),
            relative_array_filename,
            global_shape,
            write_shape,
            name_of(dtype),
            None if target_dtype is None else name_of(target_dtype),
            chunk_byte_size,
            shard_axes,
            bool(use_compression),
            bool(use_zarr3),
            use_ocdbt,
            ocdbt_target_data_file_size,
            text_of(process_id),
            metadata_key,
            replica_separate_folder,
            store_ocdbt_metadata_and_values_separately,
            None if temporary is None else str(temporary.path),
        )
        self._json_spec = parse(text)
        self._metadata = ArrayMetadata(
            param_name=relative_array_filename,
            shape=global_shape,
            dtype=dtype if target_dtype is None else target_dtype,
            write_shape=write_shape,
            chunk_shape=chunk_shape,
            use_ocdbt=use_ocdbt,
            use_zarr3=use_zarr3,
            ext_metadata=ext_metadata,
            compression_algorithm=algorithm,
            compression_level=level,
        )

    @property
    def json(self) -> JsonSpec:
        """The spec."""
        return self._json_spec

    @property
    def metadata(self) -> ArrayMetadata:
        """The checkpoint's record of the array."""
        return self._metadata
