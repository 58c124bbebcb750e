"""The results of `metadata()` for a leaf: `orbax.checkpoint.metadata.value`."""

from __future__ import annotations

import dataclasses
from typing import Any

from holdfast.orbax.metadata.sharding import ShardingMetadata

Shape = tuple[int, ...]


@dataclasses.dataclass
class Metadata:
    """A leaf about which nothing else is known.

    Attributes:
        name: the parameter's name: its keys joined with dots.
        directory: the item's directory.
    """

    name: str = dataclasses.field(compare=False)
    directory: Any | None = dataclasses.field(compare=False)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} :  name={self.name},"
            f"  directory={self.directory},"
        )


@dataclasses.dataclass(frozen=True)
class Compression:
    """A codec, written as `algorithm[:level]`, such as `zstd:1`."""

    algorithm: str
    level: int | None = None

    def __repr__(self) -> str:
        level = "" if self.level is None else f":{self.level}"
        return f"{self.algorithm}{level}"


def _compression(algorithm: Any, config: Any) -> Compression:
    level = config.get("level") if isinstance(config, dict) else None
    return Compression(str(algorithm), level)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZarrMetadata:
    """The stored array's own metadata, in zarr format 2 or 3.

    Attributes:
        zarr_format: 2 or 3.
        shape: the array's shape, in elements.
        dtype: the stored dtype ("<f4", "float32").
        chunk_shape: shape of one stored object (zarr 3: of the outer shard).
        compression: None if chunks are not compressed.
    """

    zarr_format: int = dataclasses.field(default=0, init=False)
    shape: Shape
    dtype: str
    chunk_shape: Shape
    compression: Compression | None

    @classmethod
    def from_json(cls, meta: dict[str, Any] | None) -> ZarrMetadata | None:
        """Converts a parsed `.zarray` or `zarr.json`.

        Returns None for anything else.
        """
        kinds: dict[Any, Any] = {2: Zarr2Metadata, 3: Zarr3Metadata}
        kind = kinds.get((meta or {}).get("zarr_format"))
        return None if kind is None else kind.from_json(meta)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Zarr2Metadata(ZarrMetadata):
    """A `.zarray`.

    Attributes:
        order: the order of the elements in a chunk, "C" or "F".
        dimension_separator: separates indices in chunk names, "." or "/".
    """

    zarr_format: int = dataclasses.field(default=2, init=False)
    order: str
    dimension_separator: str

    @classmethod
    def from_json(cls, meta: dict[str, Any] | None) -> Zarr2Metadata:
        """Converts a parsed `.zarray`."""
        meta = meta or {}
        compressor = meta.get("compressor")
        return cls(
            shape=tuple(meta.get("shape", ())),
            dtype=str(meta.get("dtype", "")),
            chunk_shape=tuple(meta.get("chunks", ())),
            compression=(
                _compression(compressor.get("id", "unknown"), compressor)
                if isinstance(compressor, dict)
                else None
            ),
            order=meta.get("order", "C"),
            dimension_separator=meta.get("dimension_separator", "."),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Zarr3Metadata(ZarrMetadata):
    """A `zarr.json`.

    Attributes:
        inner_chunk_shape: the shape of the chunks inside a shard; None if the
            array is not sharded.
    """

    zarr_format: int = dataclasses.field(default=3, init=False)
    inner_chunk_shape: Shape | None

    @classmethod
    def from_json(cls, meta: dict[str, Any] | None) -> Zarr3Metadata:
        """Converts a parsed `zarr.json`."""
        meta = meta or {}
        codecs = [c for c in meta.get("codecs") or [] if isinstance(c, dict)]
        inner = None
        for codec in codecs:
            if codec.get("name") == "sharding_indexed":
                config = codec.get("configuration") or {}
                inner = tuple(config.get("chunk_shape") or ()) or None
                codecs = config.get("codecs") or []
                break
        compressors = [
            _compression(codec.get("name", ""), codec.get("configuration"))
            for codec in codecs
            if isinstance(codec, dict)
            and codec.get("name") not in ("bytes", "crc32c", "transpose")
        ]
        grid = (meta.get("chunk_grid") or {}).get("configuration") or {}
        return cls(
            shape=tuple(meta.get("shape", ())),
            dtype=str(meta.get("data_type", "")),
            chunk_shape=tuple(grid.get("chunk_shape", ())),
            compression=compressors[0] if compressors else None,
            inner_chunk_shape=inner,
        )


@dataclasses.dataclass(frozen=True)
class StorageMetadata:
    """The layout of an array in the checkpoint; shapes in elements.

    Attributes:
        chunk_shape: the smallest unit of reading.
        write_shape: the shape that one device wrote, as recorded.
        zarr_metadata: the stored array's own metadata.
    """

    chunk_shape: Shape | None
    write_shape: Shape | None = None
    zarr_metadata: ZarrMetadata | None = dataclasses.field(
        default=None, compare=False, repr=False
    )


@dataclasses.dataclass
class ArrayMetadata(Metadata):
    """An array.

    Attributes:
        shape: the array's shape, in elements.
        sharding: the recorded sharding, without devices; None for numpy arrays.
        dtype: a numpy dtype.
        storage: how the array is stored.
    """

    shape: Shape
    sharding: ShardingMetadata | None
    dtype: Any | None
    storage: StorageMetadata | None = None

    @classmethod
    def from_shape_dtype_struct(
        cls, s: Any, name: str | None = None, directory: Any | None = None
    ) -> ArrayMetadata:
        """Makes the object from a jax.ShapeDtypeStruct; keeps its sharding."""
        return cls(
            name=name,  # type: ignore[arg-type]
            directory=directory,
            shape=s.shape,
            sharding=s.sharding,
            dtype=s.dtype,
        )

    def __repr__(self) -> str:
        return super().__repr__() + (
            f"  shape={self.shape},  sharding={self.sharding},"
            f"  dtype={self.dtype},  storage={self.storage},"
        )


@dataclasses.dataclass
class ScalarMetadata(ArrayMetadata):
    """A Python scalar; `dtype` is the stored dtype."""

    shape: Shape = dataclasses.field(default=(), compare=False)
    sharding: ShardingMetadata | None = dataclasses.field(
        default=None, compare=False
    )
    dtype: Any | None = None
    storage: StorageMetadata | None = dataclasses.field(
        default=None, compare=False
    )


@dataclasses.dataclass
class StringMetadata(Metadata):
    """A string."""
