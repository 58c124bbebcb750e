"""`metadata()` of a pytree item: every leaf described, none read."""

from __future__ import annotations

import json
import os
from typing import Any

from holdfast import _gc
from holdfast._dtypes import numpy_dtype
from holdfast.orbax import _structure
from holdfast.orbax._errors import reading_error
from holdfast.orbax._leaf_plan import empty_value
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


def read_metadata(directory: Any) -> TreeMetadata:
    """The metadata of the item in `directory`.

    Raises:
        FileNotFoundError: it has no `_METADATA`.
        ValueError: metadata of the tree or of a leaf that cannot be read.
    """
    if not os.path.isfile(
        os.path.join(os.fspath(directory), TREE_METADATA_FILE)
    ):
        raise FileNotFoundError(
            f"Metadata file (named {TREE_METADATA_FILE}) does not exist at"
            f" {directory}."
        )
    with _gc.paused():
        return _describe(open_item(directory))


def _describe(source: Source) -> TreeMetadata:
    describer = _Describer(source)
    tree = _structure.nest(
        (leaf.names, leaf.info.key_is_sequence, describer.describe(leaf))
        for leaf in source.leaves
    )
    return build_default_tree_metadata(
        tree,
        custom_metadata=source.custom_metadata,
        use_zarr3=bool(source.use_zarr3),
    )


class _Describer:
    """Describes leaves; equal texts are parsed once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._has_shardings = os.path.exists(
            os.path.join(source.path, SHARDING_FILE)
        )
        self._shardings: dict[str, Any] = {}
        self._zarr: dict[str, Any] = {}

    def describe(self, leaf: StoredLeaf) -> Any:
        directory = self._source.directory
        if leaf.is_empty():
            return empty_value(leaf.value_type)
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
        problem = leaf.info.problem
        if problem is not None:
            raise reading_error(problem) from problem
        dtype = numpy_dtype(leaf.info.dtype, leaf.name)
        if leaf.value_type == "scalar":
            return ScalarMetadata(leaf.name, directory, dtype=dtype)
        return ArrayMetadata(
            name=leaf.name,
            directory=directory,
            shape=tuple(leaf.info.shape),
            sharding=self._sharding(leaf),
            dtype=dtype,
            storage=self._storage(leaf),
        )

    def _sharding(self, leaf: StoredLeaf) -> Any | None:
        if leaf.value_type != "jax.Array" or not self._has_shardings:
            return None
        text = sharding_json_of(self._source.path, leaf.name, leaf)
        if not text:
            return None
        if text not in self._shardings:
            self._shardings[text] = sharding_metadata.from_serialized_string(
                text
            )
        return self._shardings[text]

    def _storage(self, leaf: StoredLeaf) -> StorageMetadata:
        text = leaf.info.array_metadata
        if text not in self._zarr:
            self._zarr[text] = ZarrMetadata.from_json(json.loads(text))
        write_shape = leaf.info.write_shape
        return StorageMetadata(
            chunk_shape=tuple(leaf.info.chunk_shape),
            write_shape=None if write_shape is None else tuple(write_shape),
            zarr_metadata=self._zarr[text],
        )
