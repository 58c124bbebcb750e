"""A checkpoint as a store for zarr-python 3, and so for xarray and dask.

    import zarr
    from holdfast.zarr import CheckpointStore
    group = zarr.open_group(CheckpointStore("/ckpt/7"), mode="r")
    group["params.w"][:10]

Any checkpoint that `holdfast.open` accepts becomes one uncompressed zarr 2
group with consolidated metadata and axis names, which `xarray.open_zarr`
accepts. A chunk's bytes are read and checked when zarr requests them; nothing
is written. Arrays of dtypes that numpy lacks (bfloat16) are not in the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype

from holdfast import _engine

__all__ = ["CheckpointStore"]

_ROOT = "as/zarr"


class CheckpointStore(Store):  # type: ignore[misc]
    """A read-only store.

    Args:
      path: a checkpoint, a step, or a root, which means its newest step.
      step: a step of a root.
      item: only this item of a composite checkpoint.
      kept_bytes_max: the most bytes of decoded chunks to keep.

    Raises:
      FileNotFoundError: there is no checkpoint.
      holdfast.errors.DataLossError: a read found damaged bytes.
    """

    supports_writes: bool = False
    supports_deletes: bool = False
    supports_listing: bool = True

    def __init__(
        self,
        path: str,
        *,
        step: int | None = None,
        item: str = "",
        kept_bytes_max: int = 256 << 20,
    ) -> None:
        super().__init__(read_only=True)
        self._files = _engine.VirtualFiles.open(
            path, step=step, item=item, kept_bytes_max=kept_bytes_max
        )
        self._arguments = (path, step, item, kept_bytes_max)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CheckpointStore)
            and self._files.path() == other._files.path()
            and self._arguments[2] == other._arguments[2]
        )

    def __hash__(self) -> int:
        return hash((self._files.path(), self._arguments[2]))

    def __repr__(self) -> str:
        return f"CheckpointStore({self._files.path()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # dask's workers open the same step again.
        _, _, item, kept_bytes_max = self._arguments
        return _reopened, (self._files.path(), item, kept_bytes_max)

    def with_read_only(self, read_only: bool = False) -> Store:
        if not read_only:
            raise ValueError("a checkpoint's store is read-only")
        return self

    def _read(self, key: str, byte_range: ByteRequest | None) -> bytes | None:
        name = f"{_ROOT}/{key}"
        try:
            _, is_directory, byte_count = self._files.stat(name)
        except FileNotFoundError:
            return None
        if is_directory:
            return None
        first, last = 0, byte_count
        if isinstance(byte_range, RangeByteRequest):
            first, last = byte_range.start, byte_range.end
        elif isinstance(byte_range, OffsetByteRequest):
            first = byte_range.offset
        elif isinstance(byte_range, SuffixByteRequest):
            first = max(0, byte_count - byte_range.suffix)
        last = min(last, byte_count)
        first = min(first, last)
        return self._files.read(name, first, last - first)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        data = await asyncio.to_thread(self._read, key, byte_range)
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        return list(
            await asyncio.gather(
                *(self.get(key, prototype, one) for key, one in key_ranges)
            )
        )

    async def exists(self, key: str) -> bool:
        try:
            return not self._files.stat(f"{_ROOT}/{key}")[1]
        except FileNotFoundError:
            return False

    async def set(self, key: str, value: Buffer) -> None:
        raise NotImplementedError("a checkpoint's store is read-only")

    async def delete(self, key: str) -> None:
        raise NotImplementedError("a checkpoint's store is read-only")

    def _below(self, directory: str) -> list[str]:
        names = []
        for last, is_directory, _ in self._files.list(
            f"{_ROOT}/{directory}".rstrip("/")
        ):
            name = f"{directory}/{last}".lstrip("/")
            names.extend(self._below(name) if is_directory else [name])
        return names

    async def list(self) -> AsyncIterator[str]:
        for name in await asyncio.to_thread(self._below, ""):
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for name in await asyncio.to_thread(self._below, ""):
            if name.startswith(prefix):
                yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        try:
            entries = self._files.list(
                f"{_ROOT}/{prefix.strip('/')}".rstrip("/")
            )
        except FileNotFoundError:
            return
        for last, _, _ in entries:
            yield last


def _reopened(path: str, item: str, kept_bytes_max: int) -> CheckpointStore:
    return CheckpointStore(path, item=item, kept_bytes_max=kept_bytes_max)
