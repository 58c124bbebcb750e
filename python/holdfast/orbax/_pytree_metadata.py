"""`metadata()` of a pytree item: every leaf described, none read."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from holdfast import _files, _gc
from holdfast._dtypes import numpy_dtype
from holdfast.orbax import _structure
from holdfast.orbax._coroutines import run_sync
from holdfast.orbax._errors import reading_error
from holdfast.orbax._handler_restore import HandlerKinds
from holdfast.orbax._leaf_plan import Kind, empty_value
from holdfast.orbax._restore import RestoreOptions, stored_item
from holdfast.orbax._sharding_file import sharding_json_of
from holdfast.orbax._source import (
    SHARDING_FILE,
    TREE_METADATA_FILE,
    Source,
    StoredLeaf,
    open_item,
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
    """The metadata of the item in `directory`.

    Args:
        directory: the item's.
        options: whose handlers describe leaves, and in which containers.

    Raises:
        FileNotFoundError: it has no `_METADATA`.
        ValueError: metadata of the tree or of a leaf that cannot be read.
        Exception: what a type handler raises.
    """
    if not _files.isfile(
        os.path.join(os.fspath(directory), TREE_METADATA_FILE)
    ):
        raise FileNotFoundError(
            f"Metadata file (named {TREE_METADATA_FILE}) does not exist at"
            f" {directory}."
        )
    with _gc.paused():
        return _describe(open_item(directory), options or RestoreOptions())


def _describe(source: Source, options: RestoreOptions) -> TreeMetadata:
    described = _describe_leaves(source, options)
    tree = None
    if options.metadata_options.support_rich_types:
        by_names = dict(
            zip((leaf.names for leaf in source.leaves), described, strict=True)
        )
        tree = source.rich_tree(lambda names, *_: by_names[names])
    if tree is None:
        tree = _structure.nest(
            (row[1], row[2], value)
            for row, value in zip(source.rows, described, strict=True)
        )
    return build_default_tree_metadata(
        tree,
        custom_metadata=source.custom_metadata,
        use_zarr3=bool(source.use_zarr3),
    )


def _describe_leaves(source: Source, options: RestoreOptions) -> list[Any]:
    """The description of each leaf of the source."""
    describer = _Describer(source, options.metadata_options)
    kinds = HandlerKinds(options.registry)
    described: list[Any] = []
    others: dict[str, list[int]] = {}
    for i, leaf in enumerate(source.leaves):
        if not leaf.skip_deserialize and not leaf.is_empty():
            kind, _ = kinds(leaf.value_type)
            if kind is None:
                raise ValueError(
                    f'Unknown type: "{leaf.value_type}". Must register a'
                    " TypeHandler."
                )
            if kind is Kind.OTHER:
                others.setdefault(leaf.value_type, []).append(i)
                described.append(None)
                continue
        described.append(describer.describe(leaf))
    if others:
        _describe_others(source, kinds, others, described)
    return described


def _describe_others(
    source: Source,
    kinds: HandlerKinds,
    others: dict[str, list[int]],
    described: list[Any],
) -> None:
    """Asks handlers for the metadata of their leaves."""
    item = stored_item(source)

    def infos(indices: list[int]) -> list[Any]:
        leaves = [source.leaves[i] for i in indices]
        return [
            item.info(
                leaf.name,
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


class _Describer:
    """Describes leaves; equal texts are parsed once."""

    def __init__(
        self,
        source: Source,
        options: PyTreeMetadataOptions = PYTREE_METADATA_OPTIONS,
    ) -> None:
        self._source = source
        self._options = options
        self._has_shardings = _files.exists(
            os.path.join(source.path, SHARDING_FILE)
        )
        self._shardings: dict[str, Any] = {}
        self._zarr: dict[str, Any] = {}
        # Frozen, so that leaves that are stored alike may share one.
        self._storages: dict[Any, StorageMetadata] = {}
        self._dtypes: dict[str | None, Any] = {}

    def describe(self, leaf: StoredLeaf) -> Any:
        directory = self._source.directory
        if leaf.is_empty():
            return empty_value(leaf.value_type, self._options)
        if leaf.skip_deserialize:
            return Metadata(leaf.name, directory)
        if leaf.value_type == "string":
            return StringMetadata(leaf.name, directory)
        if leaf.value_type == "placeholder":
            raise NotImplementedError("Placeholders do not have metadata.")
        if leaf.value_type not in ("np.ndarray", "jax.Array", "scalar"):
            raise ValueError(
                f'Unknown type: "{leaf.value_type}". Must register a'
                " TypeHandler."
            )
        row = self._source.rows[leaf.index]
        if row[11]:
            problem = leaf.info.problem
            raise reading_error(problem) from problem
        dtype = self._dtype(row[5], leaf.name)
        if leaf.value_type == "scalar":
            return ScalarMetadata(leaf.name, directory, dtype=dtype)
        return ArrayMetadata(
            leaf.name,
            directory,
            row[6],
            self._sharding(leaf, row[10]),
            dtype,
            self._storage(row[7], row[8], row[9]),
        )

    def _dtype(self, name: str | None, leaf_name: str) -> Any:
        if name not in self._dtypes:
            self._dtypes[name] = numpy_dtype(name or "", leaf_name)
        return self._dtypes[name]

    def _sharding(self, leaf: StoredLeaf, text: str) -> Any | None:
        if leaf.value_type != "jax.Array" or not self._has_shardings:
            return None
        if not text:
            text = sharding_json_of(self._source.path, leaf.name, None)
        if not text:
            return None
        if text not in self._shardings:
            self._shardings[text] = sharding_metadata.from_serialized_string(
                text
            )
        return self._shardings[text]

    def _storage(
        self, chunk_shape: Any, write_shape: Any, text: str
    ) -> StorageMetadata:
        key = (chunk_shape, write_shape, text)
        storage = self._storages.get(key)
        if storage is None:
            if text not in self._zarr:
                self._zarr[text] = ZarrMetadata.from_json(json.loads(text))
            storage = self._storages[key] = StorageMetadata(
                chunk_shape=chunk_shape,
                write_shape=write_shape,
                zarr_metadata=self._zarr[text],
            )
        return storage
