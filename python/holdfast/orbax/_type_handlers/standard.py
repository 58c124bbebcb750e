"""Handlers of numpy arrays, numbers, strings and placeholders.

The engine writes and reads a tree's leaves of these types in one pass. The
methods here are for callers that have parameters without a tree, and for
handlers that derive from these classes.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast import _engine
from holdfast._adapt import adapt
from holdfast.orbax._compat.errors import reading
from holdfast.orbax._leaves.args import (
    PLACEHOLDER,
    PLACEHOLDER_TYPESTR,
    RestoreArgs,
    SaveArgs,
)
from holdfast.orbax._leaves.files import (
    args_or_defaults,
    await_paths,
    check_storable,
    commit,
)
from holdfast.orbax._leaves.param_info import ParamInfo
from holdfast.orbax._leaves.plan import Kind
from holdfast.orbax._leaves.writer import HostArrays, LeafWriter
from holdfast.orbax._restore.source import STRINGS_FILE
from holdfast.orbax._type_handlers.base import (
    CommitFuture,
    TypeHandler,
    check_array_values,
    check_input_arguments,
)
from holdfast.orbax._type_handlers.parameters import Parameters
from holdfast.orbax.metadata.value import (
    ArrayMetadata,
    ScalarMetadata,
    StringMetadata,
)
from holdfast.orbax.multihost import process_index


class NumpyHandler(TypeHandler):
    """Stores numpy arrays; the first process writes them."""

    # The kind of value that a leaf becomes when the engine reads it for this
    # handler.
    KIND = Kind.NUMPY

    def __init__(
        self,
        metadata_key: str | None = None,
        ocdbt_process_id: str | None = None,
        deepcopy_host_arrays: bool = True,
    ) -> None:
        """Makes a handler.

        Args:
            metadata_key: name of array metadata files; None means the format's
                default.
            ocdbt_process_id: letters and digits that name the process's
                database.
            deepcopy_host_arrays: copy arrays before `serialize` returns. If
                False, the arrays must not change until the save has ended.
        """
        self._metadata_key = metadata_key
        self._override_ocdbt_process_id = ocdbt_process_id
        self._deepcopy_host_arrays = deepcopy_host_arrays

    def typestr(self) -> str:
        return "np.ndarray"

    def is_served_by_engine(self) -> bool:
        """Returns whether the engine can do this handler's work for a complete
        tree."""
        return (
            type(self) in (NumpyHandler, ScalarHandler)
            and self._metadata_key is None
            and self._override_ocdbt_process_id is None
        )

    async def metadata(
        self, infos: Sequence[ParamInfo]
    ) -> Sequence[ArrayMetadata]:
        await await_paths(infos)
        return Parameters(infos, self._metadata_key).array_metadata()

    async def serialize(
        self,
        values: Sequence[Any],
        infos: Sequence[ParamInfo],
        args: Sequence[SaveArgs] | None = None,
    ) -> Sequence[CommitFuture]:
        args = args_or_defaults(args, SaveArgs, len(values))
        check_input_arguments(values, infos, args)
        check_array_values(values, infos)
        arrays = [np.asarray(value) for value in values]
        if process_index() != 0:
            return []  # the first process writes what all processes have
        for array in arrays:
            check_storable(array)
        named = {i.name: a for i, a in zip(infos, arrays, strict=True)}
        held = HostArrays.of(named, adapt, snapshot=self._deepcopy_host_arrays)
        work = functools.partial(
            LeafWriter(
                self._metadata_key, self._override_ocdbt_process_id
            ).write,
            [held],
            infos,
            args,
        )
        return [commit(work, infos, "np_type_handler")]

    async def deserialize(
        self,
        infos: Sequence[ParamInfo],
        args: Sequence[RestoreArgs] | None = None,
    ) -> Sequence[Any]:
        """Returns arrays. ScalarHandler returns numbers, or converts them to
        the arguments' `restore_type`.

        Raises:
            ValueError: an array with dimensions is requested as a number.
        """
        args = args_or_defaults(args, RestoreArgs, len(infos))
        check_input_arguments(infos, args)
        await await_paths(infos)
        return Parameters(infos, self._metadata_key).read(self.KIND, args)

    def memory_size(self, values: Sequence[Any]) -> Sequence[tuple[int, int]]:
        return [(value.nbytes, value.nbytes) for value in values]


class ScalarHandler(NumpyHandler):
    """Stores numbers, as arrays without dimensions."""

    KIND = Kind.SCALAR

    def __init__(
        self,
        metadata_key: str | None = None,
        ocdbt_process_id: str | None = None,
    ) -> None:
        """Makes a handler; see NumpyHandler."""
        super().__init__(
            metadata_key=metadata_key,
            ocdbt_process_id=ocdbt_process_id,
            deepcopy_host_arrays=False,
        )

    def typestr(self) -> str:
        return "scalar"

    async def metadata(
        self, infos: Sequence[ParamInfo]
    ) -> Sequence[ScalarMetadata]:
        return [
            ScalarMetadata(array.name, array.directory, dtype=array.dtype)
            for array in await super().metadata(infos)
        ]

    async def serialize(
        self,
        values: Sequence[Any],
        infos: Sequence[ParamInfo],
        args: Sequence[SaveArgs] | None = None,
    ) -> Sequence[CommitFuture]:
        arrays = [np.asarray(value) for value in values]
        return await super().serialize(arrays, infos, args)

    def memory_size(self, values: Sequence[Any]) -> Sequence[tuple[int, int]]:
        return [(sys.getsizeof(value),) * 2 for value in values]


class StringHandler(TypeHandler):
    """Stores all strings in one JSON file."""

    KIND = Kind.STRING

    def __init__(self, filename: str | None = None) -> None:
        """Makes a handler.

        Args:
            filename: the file's name in the item's directory.
        """
        self._filename = filename or STRINGS_FILE
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        # A copy or unpickled object has its own lock.
        return {k: v for k, v in vars(self).items() if k != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def typestr(self) -> str:
        return "string"

    def is_served_by_engine(self) -> bool:
        """Returns whether the engine can do this handler's work for a complete
        tree."""
        return type(self) is StringHandler and self._filename == STRINGS_FILE

    async def metadata(
        self, infos: Sequence[ParamInfo]
    ) -> Sequence[StringMetadata]:
        await await_paths(infos)
        return [StringMetadata(info.name, info.parent_dir) for info in infos]

    async def serialize(
        self,
        values: Sequence[str],
        infos: Sequence[ParamInfo],
        args: Sequence[SaveArgs] | None = None,
    ) -> Sequence[CommitFuture]:
        del args
        check_input_arguments(values, infos)
        texts = [str(value) for value in values]
        if process_index() != 0:
            return []  # the first process writes what all processes have

        def work() -> None:
            with self._lock:
                _engine.serialize_strings(
                    self._filename, _places_of(infos), texts
                )

        return [commit(work, infos, "string_type_handler")]

    async def deserialize(
        self,
        infos: Sequence[ParamInfo],
        args: Sequence[RestoreArgs] | None = None,
    ) -> Sequence[str | None]:
        """Returns the strings.

        Raises:
            ValueError: the file or a string is missing.
        """
        del args
        check_input_arguments(infos)
        await await_paths(infos)
        with reading():
            return _engine.deserialize_strings(
                self._filename, _places_of(infos)
            )

    def memory_size(self, values: Sequence[str]) -> Sequence[tuple[int, int]]:
        return [(len(value.encode()),) * 2 for value in values]


def _places_of(infos: Sequence[ParamInfo]) -> list[tuple[str, str]]:
    """Returns (directory, name) of each parameter."""
    return [(os.fspath(info.parent_dir), info.name) for info in infos]


class PlaceholderHandler(TypeHandler):
    """The handler for leaves that are neither saved nor restored."""

    KIND = Kind.VALUE

    def typestr(self) -> str:
        return PLACEHOLDER_TYPESTR

    def is_served_by_engine(self) -> bool:
        """Returns whether the engine can do this handler's work for a complete
        tree."""
        return type(self) is PlaceholderHandler

    async def metadata(self, infos: Sequence[ParamInfo]) -> Sequence[Any]:
        """Always raises, because placeholders have no metadata.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Placeholders do not have metadata.")

    async def serialize(
        self,
        values: Sequence[Any],
        infos: Sequence[ParamInfo],
        args: Sequence[SaveArgs] | None = None,
    ) -> Sequence[CommitFuture]:
        """Always raises, because placeholders are not stored.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Placeholders cannot be serialized.")

    async def deserialize(
        self,
        infos: Sequence[ParamInfo],
        args: Sequence[RestoreArgs] | None = None,
    ) -> Sequence[Any]:
        del args
        return [PLACEHOLDER] * len(infos)
