"""Writes arrays of parameters into a directory, without a tree around them.

What handlers of single types do: their arrays go to `ocdbt.process_0` (or to
files), where a merge or the save of the item finds them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast import _engine
from holdfast.orbax._leaf_args import SaveArgs
from holdfast.orbax._leaf_files import data_file_bytes, engine_args
from holdfast.orbax._param_info import ParamInfo
from holdfast.orbax.multihost import is_primary_host, process_index


class _DirectoryLocks:
    """A lock a directory: a database has one writer at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: weakref.WeakValueDictionary[str, _HeldLock] = (
            weakref.WeakValueDictionary()
        )

    def of(self, path: str) -> _HeldLock:
        with self._lock:
            return self._locks.setdefault(path, _HeldLock())


class _HeldLock:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_DIRECTORY_LOCKS = _DirectoryLocks()


@dataclasses.dataclass(frozen=True)
class HostArray:
    """An array to be written, in host memory; shapes in elements.

    Attributes:
        shape: the whole array's.
        write_shape: what one device writes.
        parts: (origin, values) that cover what this process writes of it.
        dtype: of the values.
        is_replicated: replicas of it are written, where those have a database
            of their own.
    """

    shape: tuple[int, ...]
    write_shape: tuple[int, ...]
    parts: tuple[tuple[tuple[int, ...], Any], ...]
    dtype: np.dtype[Any]
    is_replicated: bool = False

    @classmethod
    def of(cls, array: Any) -> HostArray:
        """A numpy array as a whole."""
        origin = (0,) * array.ndim
        parts = ((origin, array),)
        return cls(array.shape, array.shape, parts, array.dtype)


@dataclasses.dataclass(frozen=True)
class WrittenArray:
    """How an array was stored; shapes in elements."""

    param_name: str
    write_shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    ext_metadata: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class LeafWriter:
    """Writes arrays of one handler.

    Attributes:
        metadata_key: name of array metadata files; None: the format's.
        process_id: of the process's database; None: the process's index.
        primary_host: the process that describes arrays; None: each.
    """

    metadata_key: str | None = None
    process_id: str | None = None
    primary_host: int | None = 0

    def write(
        self,
        arrays: Sequence[HostArray],
        infos: Sequence[ParamInfo],
        args: Sequence[SaveArgs],
    ) -> list[WrittenArray]:
        """Writes arrays; those of a database become one generation of it.

        Args:
            arrays: n arrays.
            infos: n parameters of one directory.
            args: n arguments.

        Returns:
            How each array was stored.

        Raises:
            ValueError: arguments that do not fit an array.
            OSError: files cannot be written.
        """
        use_ocdbt = bool(infos[0].is_ocdbt_checkpoint)
        context = _engine.TsContext(use_ocdbt, None, None)
        written = []
        describes = is_primary_host(self.primary_host)
        held = _DIRECTORY_LOCKS.of(os.fspath(infos[0].parent_dir))
        with held.lock:
            for array, info, arg in zip(arrays, infos, args, strict=True):
                spec, chunk_shape = self._spec(array, info, arg)
                if use_ocdbt:
                    spec = _in_memory(spec, array.is_replicated, info.name)
                handle = _engine.open_spec(
                    json.dumps(spec),
                    context,
                    open=True,
                    create=describes or None,
                    assume_metadata=None if describes else True,
                )
                for origin, values in array.parts:
                    handle.write(origin, values)
                handle.commit()
                written.append(
                    WrittenArray(info.name, array.write_shape, chunk_shape)
                )
            if use_ocdbt:
                for is_replicated in (False, True):
                    self._move(context, infos[0], is_replicated)
        return written

    def _spec(
        self, array: HostArray, info: ParamInfo, arg: SaveArgs
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        """The spec to open for writing, and the shape of its chunks."""
        dtype = array.dtype.name
        directory = os.fspath(info.parent_dir)
        process_id = self._process_id() if info.is_ocdbt_checkpoint else None
        common: dict[str, Any] = {
            "use_compression": bool(info.use_compression),
            "use_zarr3": bool(info.use_zarr3),
            "use_ocdbt": bool(info.is_ocdbt_checkpoint),
            "ocdbt_target_data_file_size": info.ocdbt_target_data_file_size,
            "metadata_key": self.metadata_key,
        }
        save_args = engine_args(arg)
        if save_args[3] is None and save_args[4] is None:
            text, chunk_shape, _, _ = _engine.array_write_spec(
                directory=directory,
                name=info.name,
                global_shape=array.shape,
                write_shape=array.write_shape,
                dtype=dtype,
                target_dtype=save_args[0],
                chunk_byte_size=save_args[1],
                shard_axes=save_args[2],
                process_id=process_id,
                replica_separate_folder=array.is_replicated,
                store_separately=False,
                temporary_path=None,
                **common,
            )
            return json.loads(text), tuple(chunk_shape)
        text = _engine.get_json_tspec_write(
            name=info.name,
            parent_dir=directory,
            global_shape=array.shape,
            local_shape=array.write_shape,
            dtype=dtype,
            process_index=process_id,
            args=save_args,
            **common,
        )
        text = _engine.get_cast_tspec_serialize(text, dtype, save_args[0])
        chunk_shape = save_args[4] or save_args[3] or array.write_shape
        return json.loads(text), chunk_shape

    def _process_id(self) -> str:
        return self.process_id or str(process_index())

    def _move(self, context: Any, info: ParamInfo, is_replicated: bool) -> None:
        """Moves values that were written in memory to the process's database.
        """
        source = _engine.open_kv_store(
            json.dumps(_memory_store(is_replicated)), context
        )
        keys = source.list(b"")
        if not keys:
            return
        target = _engine.open_kv_store(
            _engine.build_kvstore_tspec(
                directory=os.fspath(info.parent_dir),
                name=None,
                use_ocdbt=True,
                process_id=self._process_id(),
                replica_separate_folder=is_replicated,
                process_spec=None,
                write_mode="write",
                target_data_file_size=data_file_bytes(
                    info.ocdbt_target_data_file_size
                ),
                store_separately=False,
                temporary_path=None,
            ),
            context,
        )
        for key in keys:
            target.write(key, source.read(key))
        target.commit()


def _memory_store(is_replicated: bool) -> dict[str, Any]:
    return {"driver": "memory", "path": "1/" if is_replicated else "0/"}


def _in_memory(
    spec: dict[str, Any], is_replicated: bool, name: str
) -> dict[str, Any]:
    """The spec with its array in memory: a commit for all is much cheaper."""
    if spec["driver"] == "cast":
        return {**spec, "base": _in_memory(spec["base"], is_replicated, name)}
    store = _memory_store(is_replicated)
    store["path"] += f"{name}/" if name else ""
    return {**spec, "kvstore": store}
