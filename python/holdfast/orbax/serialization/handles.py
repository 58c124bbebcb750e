"""Objects opened from specs: arrays, JSON members and key-value stores.

The engine opens TensorStore's JSON specs (from `tensorstore_utils`, Orbax or
TensorStore). Writes to an OCDBT database become visible after `commit()`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import _engine
from holdfast._dtypes import numpy_dtype

JsonSpec = dict[str, Any]


class _Spec:
    """A JSON spec."""

    def __init__(self, value: JsonSpec) -> None:
        self._value = value

    def to_json(self) -> JsonSpec:
        """Returns the spec's members."""
        return self._value

    def __repr__(self) -> str:
        return f"Spec({self._value!r})"


class Context:
    """Limits shared by all objects that are opened with this context.

    `file_io_concurrency` and `data_copy_concurrency` limit the threads that
    read, write, encode and decode; `cache_pool#ocdbt` limits the bytes of
    decoded B+tree nodes that a database caches.
    """

    def __init__(self, engine_context: _engine.TsContext) -> None:
        self._engine_context = engine_context

    @property
    def spec(self) -> _Spec:
        """The resources, in TensorStore's terms."""
        return _Spec(json.loads(self._engine_context.json()))

    def __repr__(self) -> str:
        return f"Context({self.spec.to_json()!r})"


class _ChunkTemplate:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class _ChunkLayout:
    def __init__(self, handle: _engine.SpecHandle) -> None:
        self.read_chunk_template = _ChunkTemplate(handle.read_chunk_shape)
        self.write_chunk_template = _ChunkTemplate(handle.write_chunk_shape)


class ArrayHandle:
    """An opened array; a box is given by its origin and shape, in elements."""

    def __init__(self, handle: _engine.SpecHandle) -> None:
        self._handle = handle

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, in elements."""
        return self._handle.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of reads and writes; for a cast, the target dtype."""
        return numpy_dtype(self._handle.dtype)

    @property
    def chunk_layout(self) -> _ChunkLayout:
        """The shapes of the units of reading and of writing, in elements."""
        return _ChunkLayout(self._handle)

    def spec(self) -> _Spec:
        """Returns the spec with all stored metadata."""
        return _Spec(json.loads(self._handle.spec_json()))

    @property
    def base(self) -> _Base | None:
        """The array under a cast; None for other arrays."""
        base = self.spec().to_json().get("base")
        return None if base is None else _Base(base)

    def read(
        self,
        origin: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> npt.NDArray[Any]:
        """Reads a box, or the complete array without arguments.

        Raises:
            ValueError: the box is outside the array, or chunks are damaged.
            FileNotFoundError: a chunk is missing, and the spec makes that an
                error.
        """
        origin = [0] * len(self.shape) if origin is None else origin
        if shape is None:
            shape = [
                extent - start
                for extent, start in zip(self.shape, origin, strict=True)
            ]
        array: npt.NDArray[Any] = self._handle.read(origin, shape)
        return array

    def write(self, value: Any, origin: Sequence[int] | None = None) -> None:
        """Converts `value` to an array and stores that array at `origin`.

        The elements are cast to the dtype of the opened array.
        """
        array = np.asarray(value)
        start = [0] * len(self.shape) if origin is None else origin
        self._handle.write(start, array)

    def commit(self) -> None:
        """Commits all writes."""
        self._handle.commit()


class _Base:
    """Holds the spec under a cast."""

    def __init__(self, spec: JsonSpec) -> None:
        self._spec = spec

    def spec(self) -> _Spec:
        return _Spec(self._spec)


class JsonHandle:
    """A member of a JSON document."""

    def __init__(self, handle: _engine.SpecHandle) -> None:
        self._handle = handle

    def read(self) -> Any:
        """Returns the member.

        Raises:
            FileNotFoundError: the document or member does not exist.
        """
        return json.loads(self._handle.read_json())

    def write(self, value: Any) -> None:
        """Replaces or adds the member."""
        self._handle.write_json(json.dumps(value))

    def commit(self) -> None:
        """Commits all writes."""
        self._handle.commit()


class _ReadResult:
    """`state` is "value" or "missing"; `value` is b"" if missing."""

    def __init__(self, value: bytes | None) -> None:
        self.state = "missing" if value is None else "value"
        self.value = value or b""


class KvStore:
    """An opened key-value store. Keys are str or bytes."""

    def __init__(self, handle: _engine.KvStoreHandle) -> None:
        self._handle = handle

    def spec(self) -> _Spec:
        """Returns the spec of the store's location."""
        return _Spec(json.loads(self._handle.spec_json()))

    async def read(self, key: str | bytes) -> _ReadResult:
        """Returns the value, or a result whose `state` is "missing"."""
        return _ReadResult(await asyncio.to_thread(self._handle.read, key))

    async def write(self, key: str | bytes, value: str | bytes | None) -> None:
        """Stores the value; None deletes the key."""
        await asyncio.to_thread(self._handle.write, key, value)

    async def list(self, prefix: str | bytes = b"") -> list[bytes]:
        """Returns the keys that start with `prefix`, in byte order."""
        return await asyncio.to_thread(self._handle.list, prefix)

    async def commit(self) -> None:
        """Commits all writes, as one generation of a database."""
        await asyncio.to_thread(self._handle.commit)


def open_spec(
    spec: JsonSpec,
    context: Context | None = None,
    *,
    open: bool | None = None,
    create: bool | None = None,
    delete_existing: bool | None = None,
    assume_metadata: bool | None = None,
) -> ArrayHandle | JsonHandle:
    """Opens an array or a JSON member.

    Args:
        spec: a spec with driver zarr, zarr3, cast or json.
        context: the limits; None means the defaults.
        open: accepts an existing array. This argument and those below override
            the spec.
        create: creates a missing array.
        delete_existing: first deletes an existing array.
        assume_metadata: trusts the spec instead of reading stored metadata.

    Raises:
        ValueError: the spec is invalid, or the stored array does not match it.
        FileNotFoundError: the array does not exist.
        FileExistsError: the array to create already exists.
        NotImplementedError: the spec uses an unsupported feature.
    """
    handle = _engine.open_spec(
        json.dumps(spec),
        _engine_context(context),
        open=open,
        create=create,
        delete_existing=delete_existing,
        assume_metadata=assume_metadata,
    )
    return (
        JsonHandle(handle) if handle.driver == "json" else ArrayHandle(handle)
    )


def open_kv_store(spec: JsonSpec | str, context: Context | None) -> KvStore:
    """Opens a key-value store with driver file, memory or ocdbt, or a URL."""
    return KvStore(
        _engine.open_kv_store(json.dumps(spec), _engine_context(context))
    )


def _engine_context(context: Context | None) -> _engine.TsContext:
    if isinstance(context, Context):
        return context._engine_context
    return _engine.TsContext(True, None, None)
