"""`metadata()` of a pytree item: describes every leaf without reading it."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from typing import Any

from holdfast import _files, _gc
from holdfast._dtypes import numpy_dtype
from holdfast.orbax._compat.errors import reading_error
from holdfast.orbax._devices.sharding_file import ShardingFile
from holdfast.orbax._leaves.plan import Kind
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._restore.by_handlers import HandlerKinds, RestoreOptions
from holdfast.orbax._restore.source import (
    TREE_METADATA_FILE,
    Source,
    open_item,
)
from holdfast.orbax._restore.tree import parameters_of
from holdfast.orbax._trees.empty_values import (
    get_empty_value_from_typestr,
    is_empty_typestr,
)
from holdfast.orbax.metadata import sharding as sharding_metadata
from holdfast.orbax.metadata.tree import (
    TreeMetadata,
    build_default_tree_metadata,
)
from holdfast.orbax.metadata.value import (
    ArrayMetadata,
    Metadata,
    ScalarMetadata,
    StorageMetadata,
    StringMetadata,
    ZarrMetadata,
)
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    PyTreeMetadataOptions,
)


def read_metadata(
    directory: Any, options: RestoreOptions | None = None
) -> TreeMetadata:
    """Returns the metadata of the item in `directory`.

    Args:
        directory: the item's directory.
        options: the handlers that describe leaves, and the containers to use.

    Raises:
        FileNotFoundError: the item has no `_METADATA`.
        DataLossError: `_METADATA` was saved but is missing now.
        ValueError: the metadata of the tree or of a leaf cannot be read.
        Exception: any error from a type handler.
    """
    file = os.path.join(os.fspath(directory), TREE_METADATA_FILE)
    if not _files.isfile(file):
        _files.refuse_lost(file)
        raise FileNotFoundError(
            f"Metadata file (named {TREE_METADATA_FILE}) does not exist at"
            f" {directory}."
        )
    with _gc.paused():
        return _describe(open_item(directory), options or RestoreOptions())


def _describe(source: Source, options: RestoreOptions) -> TreeMetadata:
    described = _describe_leaves(source, options)
    return build_default_tree_metadata(
        source.tree_of(described, options.metadata_options),
        custom_metadata=source.custom_metadata,
        use_zarr3=bool(source.use_zarr3),
    )


def _describe_leaves(source: Source, options: RestoreOptions) -> list[Any]:
    """Returns the description of each leaf of the source."""
    describer = Describer(source, options.metadata_options)
    kinds = HandlerKinds(options.registry)

    @functools.cache
    def has_own_handler(value_type: str) -> bool:
        if is_empty_typestr(value_type):
            return False
        kind, _ = kinds(value_type)
        if kind is None:
            raise _unknown_type(value_type)
        return kind is Kind.OTHER

    described: list[Any] = []
    others: dict[str, list[int]] = {}
    for i, row in enumerate(source.rows):
        value_type, is_skipped = row[2][:2]
        if not is_skipped and has_own_handler(value_type):
            others.setdefault(value_type, []).append(i)
            described.append(None)
        else:
            described.append(describer.describe(i, row))
    if others:
        _describe_others(source, kinds, others, described)
    return described


def _describe_others(
    source: Source,
    kinds: HandlerKinds,
    others: dict[str, list[int]],
    described: list[Any],
) -> None:
    """Fills `described` at the leaves of `others`, by asking their handlers."""
    parameter = parameters_of(source)

    def infos(indices: list[int]) -> list[Any]:
        leaves = [source.leaves[i] for i in indices]
        return [
            parameter(
                name=leaf.name,
                skip_deserialize=leaf.skip_deserialize,
                write_shape=leaf.info.write_shape,
            )
            for leaf in leaves
        ]

    async def ask() -> list[Any]:
        return await asyncio.gather(
            *(
                kinds(value_type)[1].metadata(infos(indices))
                for value_type, indices in others.items()
            )
        )

    for indices, values in zip(others.values(), run_sync(ask()), strict=True):
        for i, value in zip(indices, values, strict=True):
            described[i] = value


def _unknown_type(value_type: str) -> ValueError:
    return ValueError(
        f'Unknown type: "{value_type}". Must register a TypeHandler.'
    )


_ARRAYS = frozenset({"np.ndarray", "jax.Array", "scalar"})


class Describer:
    """Describes leaves; parses equal strings only once.

    A derived class may use other objects to describe leaves.
    """

    def __init__(
        self,
        source: Source,
        options: PyTreeMetadataOptions = PYTREE_METADATA_OPTIONS,
    ) -> None:
        self._source = source
        self._directory = source.directory
        self._options = options
        self._sharding_file = ShardingFile(source.path)
        self._shardings: dict[str, Any] = {}
        self._zarr: dict[str, Any] = {}
        # StorageMetadata is frozen, so leaves with equal storage share objects.
        self._storages: dict[Any, StorageMetadata] = {}
        # The previous leaf's layout, and its dtype and storage.
        self._layout: Any = None
        self._dtype: Any = None
        self._storage: Any = None

    def describe(self, index: int, row: tuple[Any, ...]) -> Any:
        """Describes a leaf; `row` is the leaf's row in `Source.rows`."""
        name, _, layout, sharding_json, has_problem = row
        value_type, is_skipped, _, shape, _, _, _ = layout
        if is_skipped or value_type not in _ARRAYS:
            return self._no_array(name, value_type, is_skipped)
        if has_problem:
            problem = self._source.checkpoint.leaves[index].problem
            raise reading_error(problem) from problem
        if layout is not self._layout:
            self._dtype = numpy_dtype(layout[2] or "", name)
            self._storage = self._storage_of(*layout[4:])
            self._layout = layout
        if value_type == "scalar":
            return self.scalar(name, self._dtype)
        sharding = None
        if value_type == "jax.Array":
            sharding = self._sharding(name, sharding_json)
        return self.array(
            name, value_type, shape, sharding, self._dtype, self._storage
        )

    def _no_array(self, name: str, value_type: str, is_skipped: bool) -> Any:
        if is_empty_typestr(value_type):
            return get_empty_value_from_typestr(value_type, self._options)
        if is_skipped:
            return Metadata(name, self._directory)
        if value_type == "string":
            return self.string(name)
        if value_type == "placeholder":
            raise NotImplementedError("Placeholders do not have metadata.")
        raise _unknown_type(value_type)

    def array(
        self,
        name: str,
        value_type: str,
        shape: Any,
        sharding: Any,
        dtype: Any,
        storage: StorageMetadata,
    ) -> Any:
        """Returns an array's metadata; `value_type` is the recorded string."""
        return ArrayMetadata(
            name, self._directory, shape, sharding, dtype, storage
        )

    def scalar(self, name: str, dtype: Any) -> Any:
        """Returns a number's metadata."""
        return ScalarMetadata(name, self._directory, dtype=dtype)

    def string(self, name: str) -> Any:
        """Returns a string's metadata."""
        return StringMetadata(name, self._directory)

    def _sharding(self, name: str, text: str) -> Any | None:
        if not text and self._sharding_file.exists:
            text = self._sharding_file[name]
        if not text:
            return None
        if text not in self._shardings:
            self._shardings[text] = sharding_metadata.from_serialized_string(
                text
            )
        return self._shardings[text]

    def _storage_of(
        self, chunk_shape: Any, write_shape: Any, text: str
    ) -> StorageMetadata:
        key = (chunk_shape, write_shape, text)
        storage = self._storages.get(key)
        if storage is None:
            if text and text not in self._zarr:
                self._zarr[text] = ZarrMetadata.from_json(json.loads(text))
            storage = self._storages[key] = StorageMetadata(
                chunk_shape=chunk_shape,
                write_shape=write_shape,
                zarr_metadata=self._zarr.get(text),  # None for a delta
            )
        return storage
