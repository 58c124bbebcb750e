"""The contents of an item's directory: its leaves and how to read them.

Opening reads metadata only. Items with `_METADATA` or the old msgpack file have
a tree; for other items only the arrays are known, by name.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from typing import Any

from holdfast import _engine, _files
from holdfast._log import log
from holdfast.orbax import _structure
from holdfast.orbax._errors import reading
from holdfast.orbax._keyed_arrays import open_with_key
from holdfast.orbax._rich_types import LeafFn, rich_tree
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.tree_paths import add_leaf_type

TREE_METADATA_FILE = "_METADATA"
AGGREGATE_FILE = "checkpoint"
MANIFEST_FILE = "manifest.ocdbt"
SHARDING_FILE = "_sharding"
STRINGS_FILE = "_strings.json"

EMPTY_OF_TYPE: dict[str, Any] = {
    "None": None,
    "Dict": {},
    "List": [],
    "Tuple": (),
    # Restored as None, because its class is not recorded.
    "NamedTuple": None,
}


@dataclasses.dataclass(slots=True, eq=False)
class StoredLeaf:
    """One leaf, and where to read it.

    Attributes:
        name: the parameter's, its keys joined with dots.
        names: the keys.
        checkpoint: the open checkpoint.
        index: in that checkpoint's leaves.
        info: the checkpoint's metadata of it.
        value_type: as recorded; "" when nothing is.
        skip_deserialize: as recorded.
    """

    name: str
    names: _structure.Names
    checkpoint: Any
    index: int
    info: Any
    value_type: str
    skip_deserialize: bool

    def has_value_in_aggregate(self) -> bool:
        """The value lies in the old msgpack file, not in an array."""
        return self.info.skip_deserialize and not self.is_empty()

    def is_empty(self) -> bool:
        """The leaf is an empty container or None."""
        return self.value_type in EMPTY_OF_TYPE


class Entry(ValueMetadataEntry):
    """A `ValueMetadataEntry` that knows its leaf; its text is the same."""

    stored: StoredLeaf | None = None


Entry.__name__ = Entry.__qualname__ = ValueMetadataEntry.__name__


@dataclasses.dataclass
class Source:
    """An opened item.

    Attributes:
        directory: as the caller gave it, for messages.
        path: its text.
        checkpoint: the engine's.
        use_ocdbt: arrays lie in an OCDBT database.
        use_zarr3: as recorded; None where nothing is.
        has_tree_metadata: `_METADATA` exists.
        custom_metadata: the user's JSON value in `_METADATA`.
        value_metadata_tree: JSON text of the tree with its own containers.
        raise_array_data_missing_error: missing chunks are errors, not zeros.
    """

    directory: Any
    path: str
    checkpoint: Any
    use_ocdbt: bool
    use_zarr3: bool | None
    has_tree_metadata: bool
    custom_metadata: Any
    value_metadata_tree: str = ""
    raise_array_data_missing_error: bool = True

    @functools.cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """The engine's `leaf_rows`."""
        rows: list[tuple[Any, ...]] = self.checkpoint.leaf_rows()
        return rows

    @functools.cached_property
    def leaves(self) -> list[StoredLeaf]:
        """The tree's, in the checkpoint's order."""
        checkpoint = self.checkpoint
        return [
            StoredLeaf(row[0], row[1], checkpoint, i, info, row[3], row[4])
            for i, (info, row) in enumerate(
                zip(checkpoint.leaves, self.rows, strict=True)
            )
        ]

    def entry_tree(self) -> Any:
        """The tree with an `Entry` at each leaf, empty containers included.

        Raises:
            ValueError: `_METADATA` lists no leaf.
        """
        rows = []
        for leaf, row in zip(self.leaves, self.rows, strict=True):
            entry = Entry(leaf.value_type, leaf.skip_deserialize, row[8])
            entry.stored = leaf
            rows.append((leaf.names, row[2], entry))
        return _structure.nest(rows)

    def rich_entry_tree(self) -> Any | None:
        """As `entry_tree`, in the containers that were saved.

        None where they are not recorded.

        Raises:
            ValueError: the record is damaged.
        """
        by_names = {leaf.names: leaf for leaf in self.leaves}

        def leaf(names: _structure.Names, *fields: Any) -> Entry:
            entry = Entry(*fields)
            entry.stored = by_names[names]
            return entry

        return self.rich_tree(leaf)

    def rich_tree(self, leaf: LeafFn) -> Any | None:
        """The tree in the containers that were saved, with leaves made anew.

        None where they are not recorded.

        Raises:
            ValueError: the record is damaged.
        """
        if not self.value_metadata_tree:
            return None
        return rich_tree(self.value_metadata_tree, leaf)


add_leaf_type(Entry)


def open_item(
    directory: Any,
    *,
    missing_chunks: str = "as_recorded",
    aggregate_filename: str = AGGREGATE_FILE,
) -> Source:
    """Opens an item that has `_METADATA` or the old msgpack file.

    Args:
        directory: anything with a path.
        missing_chunks: "fill" reads them as fill values whatever the item
            says of them.
        aggregate_filename: of the msgpack file.

    Raises:
        FileNotFoundError: it has neither.
        ValueError: a file that cannot be read or parsed.
    """
    path = os.fspath(directory)
    if not has_structure(path, aggregate_filename):
        raise FileNotFoundError(
            f"Metadata file (named {TREE_METADATA_FILE}) does not exist at"
            f" {directory}."
        )
    how = (missing_chunks, aggregate_filename)
    checkpoint = _files.once((_open, path, *how), lambda: _open(path, *how))
    custom = checkpoint.item_custom_metadata
    has_tree_metadata = checkpoint.has_tree_metadata
    return Source(
        directory=directory,
        path=path,
        checkpoint=checkpoint,
        use_ocdbt=checkpoint.use_ocdbt,
        use_zarr3=checkpoint.use_zarr3 if has_tree_metadata else None,
        has_tree_metadata=has_tree_metadata,
        custom_metadata=json.loads(custom) if custom else None,
        value_metadata_tree=checkpoint.value_metadata_tree,
        raise_array_data_missing_error=(
            checkpoint.store_array_data_equal_to_fill_value
        ),
    )


def has_structure(path: str, aggregate_filename: str = AGGREGATE_FILE) -> bool:
    """Whether the item's tree is recorded.

    Raises:
        DataLossError: it was, and the file is gone.
    """
    file = os.path.join(path, TREE_METADATA_FILE)
    if _files.isfile(file):
        return True
    _files.refuse_lost(file)
    return _files.isfile(os.path.join(path, aggregate_filename))


def _open(path: str, missing_chunks: str, aggregate_filename: str) -> Any:
    try:
        with reading():
            checkpoint = _engine.Checkpoint(
                path,
                missing_chunks=missing_chunks,
                aggregate_filename=aggregate_filename,
            )
        for note in checkpoint.notes:
            log.warning(note)
        return checkpoint
    except ValueError:
        _explain_tree_metadata(path)
        raise


def _explain_tree_metadata(path: str) -> None:
    """Raises as Orbax does for a `_METADATA` that makes no sense.

    Raises:
        DataLossError: its bytes are not those that were saved.
        ValueError: it is not JSON (json.JSONDecodeError), or no tree.
        KeyError: a field is missing.
    """
    try:
        text = _files.read_checked(os.path.join(path, TREE_METADATA_FILE))
    except OSError:
        return
    metadata = json.loads(text)
    entries = metadata["tree_metadata"].values()
    for entry in entries:
        _ = entry["key_metadata"], entry["value_metadata"]["value_type"]
    if not entries:
        _structure.nest([])


def _stored_leaf(checkpoint: Any, index: int, info: Any) -> StoredLeaf:
    return StoredLeaf(
        name=info.name,
        names=tuple(info.key),
        checkpoint=checkpoint,
        index=index,
        info=info,
        value_type=info.value_type,
        skip_deserialize=info.skip_deserialize,
    )


class BareArrays:
    """Arrays of an item whose tree is not recorded, found by their names."""

    def __init__(
        self,
        directory: Any,
        use_zarr3: bool,
        *,
        use_ocdbt: bool | None = None,
        metadata_key: str | None = None,
        fill_missing: bool | None = None,
    ) -> None:
        """Opens the database, if there is one.

        Args:
            directory: the item's.
            use_zarr3: whether arrays are zarr 3; the other format's are not
                seen.
            use_ocdbt: whether there is a database; None: the files say.
            metadata_key: name of array metadata files; None: the format's.
            fill_missing: whether missing chunks are zeros; None: as for items
                of which nothing is recorded.

        Raises:
            ValueError: a damaged database.
        """
        self.directory = directory
        self.path = os.fspath(directory)
        self.use_zarr3 = use_zarr3
        self.metadata_key = metadata_key or (
            "zarr.json" if use_zarr3 else ".zarray"
        )
        self._missing_chunks = {None: "as_recorded", True: "fill"}.get(
            fill_missing, "refuse"
        )
        manifest = os.path.join(self.path, MANIFEST_FILE)
        self.use_ocdbt = _files.exists(manifest) and use_ocdbt is not False
        self._by_name: dict[str, StoredLeaf] = {}
        # The engine finds arrays by the names that their formats give.
        self._has_own_key = metadata_key is not None
        if self.use_ocdbt and not self._has_own_key:
            self._add(self._open(manifest))

    def find(self, names: _structure.Names) -> StoredLeaf | None:
        """The array stored for a leaf, or None."""
        name = ".".join(names)
        if self._has_own_key and name not in self._by_name:
            array = open_with_key(
                self.path,
                name,
                self.metadata_key,
                use_zarr3=self.use_zarr3,
                use_ocdbt=self.use_ocdbt,
                fill_missing=self._missing_chunks == "fill",
            )
            if array is not None:
                self._by_name[name] = StoredLeaf(
                    name, (name,), array, 0, array, "", False
                )
        elif not self.use_ocdbt and name not in self._by_name:
            file = os.path.join(self.path, name, self.metadata_key)
            if _files.isfile(file):
                self._add(self._open(file), name)
        return self._by_name.get(name)

    def _open(self, file: str) -> Any:
        with reading():
            return _engine.Checkpoint(file, missing_chunks=self._missing_chunks)

    def _add(self, checkpoint: Any, name: str | None = None) -> None:
        for index, info in enumerate(checkpoint.leaves):
            leaf = _stored_leaf(checkpoint, index, info)
            leaf.name = info.name if name is None else name
            leaf.names = (leaf.name,)
            is_zarr3 = is_zarr3_metadata(info.array_metadata)
            if is_zarr3 is None or is_zarr3 == self.use_zarr3:
                self._by_name[leaf.name] = leaf


def is_zarr3_metadata(array_metadata: str) -> bool | None:
    """Whether an array's metadata are zarr 3's; None where they do not say."""
    try:
        return bool(json.loads(array_metadata)["zarr_format"] == 3)
    except (ValueError, KeyError, TypeError):
        return None


def names_of_directories(path: str) -> Any:
    """The tree that an item's file names suggest, each name at its leaf.

    Items without `_METADATA` and without OCDBT: one directory a leaf, its keys
    joined with dots.
    """
    skipped = {SHARDING_FILE, TREE_METADATA_FILE, "array_metadatas"}
    tree: dict[str, Any] = {}
    for name in sorted(_files.listdir(path)):
        if name in skipped:
            continue
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = name
    return tree
