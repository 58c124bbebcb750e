"""Writes arrays of parameters into a directory, without a tree.

Type handlers use this module. Their arrays go to `ocdbt.process_0` or to
separate files, where a merge or the item's save finds them.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from holdfast import _engine
from holdfast.orbax._leaves.args import SaveArgs
from holdfast.orbax._leaves.files import data_file_bytes, engine_args, has_any
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax.multihost import is_primary_host, process_index


class _DirectoryLocks:
    """One lock per directory, because a database has one writer at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: weakref.WeakValueDictionary[str, threading.Lock] = (
            weakref.WeakValueDictionary()
        )

    def of(self, path: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(path, threading.Lock())


_DIRECTORY_LOCKS = _DirectoryLocks()


@dataclasses.dataclass(frozen=True)
class HostArrays:
    """Arrays that the engine has captured.

    Attributes:
        names: the names of the parameters.
        tree: the engine's dict of the arrays.
        is_replica: whether the arrays go to the database of replicas.
    """

    names: frozenset[str]
    tree: Any
    is_replica: bool = False

    @classmethod
    def of(
        cls,
        arrays: dict[str, Any],
        adapt: Any,
        *,
        snapshot: bool = False,
        is_replica: bool = False,
    ) -> HostArrays:
        """Captures arrays, given by parameter name."""
        tree = _engine.build_tree(arrays, adapt=adapt, snapshot=snapshot)
        return cls(frozenset(arrays), tree, is_replica)


@dataclasses.dataclass(frozen=True)
class SerializedArrayMetadata:
    """How an array was stored; shapes in elements.

    Attributes:
        param_name: the parameter's name.
        write_shape: the shape that one device wrote.
        chunk_shape: the shape of the stored chunks.
        ext_metadata: more metadata, e.g. {"random_key_impl": "threefry2x32"}.
    """

    param_name: str
    write_shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    ext_metadata: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class LeafWriter:
    """Writes the arrays of one handler.

    Attributes:
        metadata_key: name of array metadata files; None means the format's
            default.
        process_id: the id of the process's database; None means the process's
            index.
        primary_host: the process that describes arrays; None means every
            process.
        is_partial: whether other processes write the rest of the arrays.
    """

    metadata_key: str | None = None
    process_id: str | None = None
    primary_host: int | None = 0
    is_partial: bool = False

    def write(
        self,
        arrays: Sequence[HostArrays],
        infos: Sequence[ParamInfo],
        args: Sequence[SaveArgs],
    ) -> list[SerializedArrayMetadata]:
        """Writes arrays; in a database they form one generation.

        Args:
            arrays: the arrays of all parameters.
            infos: the infos of all parameters, in one directory.
            args: the arguments of all parameters.

        Returns:
            How each array was stored.

        Raises:
            ValueError: arguments do not match an array.
            OSError: files cannot be written.
        """
        info = infos[0]
        directory = os.fspath(info.parent_dir)
        save_args = {
            info.name: engine_args(arg)
            for info, arg in zip(infos, args, strict=True)
            if has_any(arg)
        }
        rows = []
        held = _DIRECTORY_LOCKS.of(directory)
        with held:
            for part in arrays:
                own_args = part.names & save_args.keys()
                rows += _engine.write_params(
                    directory,
                    part.tree,
                    use_ocdbt=bool(info.is_ocdbt_checkpoint),
                    use_zarr3=bool(info.use_zarr3),
                    use_compression=bool(info.use_compression),
                    ocdbt_target_data_file_size=data_file_bytes(
                        info.ocdbt_target_data_file_size,
                        bool(info.is_ocdbt_checkpoint),
                    ),
                    save_args={name: save_args[name] for name in own_args},
                    metadata_key=self.metadata_key,
                    process_id=self.process_id or str(process_index()),
                    is_replica=part.is_replica,
                    is_partial=self.is_partial,
                    is_primary=is_primary_host(self.primary_host),
                )
        by_name = {row[0]: row for row in rows}
        return [
            SerializedArrayMetadata(*by_name[info.name]) for info in infos
        ]
