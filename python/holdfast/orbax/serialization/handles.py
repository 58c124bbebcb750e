"""The objects that specs open: arrays, JSON members and key-value stores.

TensorStore's JSON specs (from `tensorstore_utils`, Orbax or TensorStore) are
opened by the engine. Writes to an OCDBT database exist after `commit()`.
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
    """A spec as a value."""

    def __init__(self, value: JsonSpec) -> None:
        self._value = value

    def to_json(self) -> JsonSpec:
        """The spec's members."""
        return self._value

    def __repr__(self) -> str:
        return f"Spec({self._value!r})"


class Context:
    """Limits that everything opened with it shares.

    `file_io_concurrency` and `data_copy_concurrency` bound the threads that
    read, write, encode and decode; `cache_pool#ocdbt` bounds the bytes of
    decoded B+tree nodes a database keeps.
    """

    def __init__(self, engine_context: _engine.TsContext) -> None:
        self._engine_context = engine_context

    @property
    def spec(self) -> _Spec:
        """The resources, in TensorStore's words."""
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
    """An opened array; boxes are given by origin and shape, in elements."""

    def __init__(self, handle: _engine.SpecHandle) -> None:
        self._handle = handle

    @property
    def shape(self) -> tuple[int, ...]:
        """In elements."""
        return self._handle.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype as read and written: of a cast, the one it casts to."""
        return numpy_dtype(self._handle.dtype)

    @property
    def chunk_layout(self) -> _ChunkLayout:
        """Shapes of the units of reading and of writing, in elements."""
        return _ChunkLayout(self._handle)

    def spec(self) -> _Spec:
        """The spec with all of the stored metadata."""
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
        """The box; without arguments the whole array.

        Raises:
            ValueError: a box outside the array, or damaged chunks.
            FileNotFoundError: a missing chunk, where the spec refuses it.
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
        """Stores `value` (converted to an array) at `origin`.

        Its elements are cast to the array's dtype.
        """
        array = np.asarray(value)
        start = [0] * len(self.shape) if origin is None else origin
        self._handle.write(start, array)

    def commit(self) -> None:
        """Makes what was written exist."""
        self._handle.commit()


class _Base:
    """The spec below a cast."""

    def __init__(self, spec: JsonSpec) -> None:
        self._spec = spec

    def spec(self) -> _Spec:
        return _Spec(self._spec)


class JsonHandle:
    """A member of a JSON document."""

    def __init__(self, handle: _engine.SpecHandle) -> None:
        self._handle = handle

    def read(self) -> Any:
        """The member.

        Raises:
            FileNotFoundError: no such document or member.
        """
        return json.loads(self._handle.read_json())

    def write(self, value: Any) -> None:
        """Replaces or adds the member."""
        self._handle.write_json(json.dumps(value))

    def commit(self) -> None:
        """Makes what was written exist."""
        self._handle.commit()


class _ReadResult:
    """`state` is "value" or "missing"; `value` is b"" for what is missing."""

    def __init__(self, value: bytes | None) -> None:
        self.state = "missing" if value is None else "value"
        self.value = value or b""


class KvStore:
    """An opened key-value store. Keys are str or bytes."""

    def __init__(self, handle: _engine.KvStoreHandle) -> None:
        self._handle = handle

    def spec(self) -> _Spec:
        """Where it is."""
        return _Spec(json.loads(self._handle.spec_json()))

    async def read(self, key: str | bytes) -> _ReadResult:
        """The value, or a result whose `state` is "missing"."""
        return _ReadResult(await asyncio.to_thread(self._handle.read, key))

    async def write(self, key: str | bytes, value: str | bytes | None) -> None:
        """Stores the value; None deletes the key."""
        await asyncio.to_thread(self._handle.write, key, value)

    async def list(self, prefix: str | bytes = b"") -> list[bytes]:
        """The keys that start with `prefix`, in byte order."""
        return await asyncio.to_thread(self._handle.list, prefix)

    async def commit(self) -> None:
        """Makes what was written exist: one generation of a database."""
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
        spec: drivers zarr, zarr3, cast and json.
        context: limits; None: the defaults.
        open: an existing array will do; wins over the spec, as do the others.
        create: make it where it is absent.
        delete_existing: first remove what is there.
        assume_metadata: believe the spec without reading metadata.

    Raises:
        ValueError: a spec that makes no sense, or an array that is not as it
            says.
        FileNotFoundError: no array.
        FileExistsError: an array where a new one should go.
        NotImplementedError: a feature that is not part of this release yet.
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
    """Opens a key-value store: drivers file, memory, ocdbt, or a URL."""
    return KvStore(
        _engine.open_kv_store(json.dumps(spec), _engine_context(context))
    )


def _engine_context(context: Context | None) -> _engine.TsContext:
    if isinstance(context, Context):
        return context._engine_context
    return _engine.TsContext(True, None, None)
