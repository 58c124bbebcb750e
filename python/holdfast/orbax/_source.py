"""What lies in an item's directory: its leaves and how to read them.

Opening reads metadata only. Items with `_METADATA` or the old msgpack file
have a tree; of others only the arrays are known, by name.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from holdfast import _engine
from holdfast.orbax import _structure
from holdfast.orbax._errors import reading
from holdfast.orbax.metadata.tree import ValueMetadataEntry

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
        info: what the checkpoint knows of it.
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
        use_ocdbt: arrays lie in an OCDBT database.
        use_zarr3: as recorded; None where nothing is.
        has_tree_metadata: `_METADATA` exists.
        custom_metadata: the user's JSON value in `_METADATA`.
        leaves: of the tree, in the checkpoint's order.
    """

    directory: Any
    path: str
    use_ocdbt: bool
    use_zarr3: bool | None
    has_tree_metadata: bool
    custom_metadata: Any
    leaves: list[StoredLeaf]

    def entry_tree(self) -> Any:
        """The tree with an `Entry` at each leaf, empty containers included.

        Raises:
            ValueError: `_METADATA` lists no leaf.
        """
        rows = []
        for leaf in self.leaves:
            write_shape = leaf.info.write_shape
            entry = Entry(
                leaf.value_type,
                leaf.skip_deserialize,
                None if write_shape is None else tuple(write_shape),
            )
            entry.stored = leaf
            rows.append((leaf.names, leaf.info.key_is_sequence, entry))
        return _structure.nest(rows)


_structure.add_leaf_type(Entry)


def open_item(directory: Any) -> Source:
    """Opens an item that has `_METADATA` or the old msgpack file.

    Args:
        directory: anything with a path.

    Raises:
        FileNotFoundError: it has neither.
        ValueError: a file that cannot be read or parsed.
    """
    path = os.fspath(directory)
    if not has_structure(path):
        raise FileNotFoundError(
            f"Metadata file (named {TREE_METADATA_FILE}) does not exist at"
            f" {directory}."
        )
    checkpoint = _open(path)
    leaves = [
        _stored_leaf(checkpoint, i, info)
        for i, info in enumerate(checkpoint.leaves)
    ]
    custom = checkpoint.item_custom_metadata
    has_tree_metadata = checkpoint.has_tree_metadata
    return Source(
        directory=directory,
        path=path,
        use_ocdbt=checkpoint.use_ocdbt,
        use_zarr3=checkpoint.use_zarr3 if has_tree_metadata else None,
        has_tree_metadata=has_tree_metadata,
        custom_metadata=json.loads(custom) if custom else None,
        leaves=leaves,
    )


def has_structure(path: str) -> bool:
    """Whether the item's tree is recorded."""
    names = (TREE_METADATA_FILE, AGGREGATE_FILE)
    return any(os.path.isfile(os.path.join(path, name)) for name in names)


def _open(path: str) -> Any:
    try:
        with reading():
            return _engine.Checkpoint(path)
    except ValueError:
        _explain_tree_metadata(path)
        raise


def _explain_tree_metadata(path: str) -> None:
    """Raises as Orbax does for a `_METADATA` that makes no sense.

    Raises:
        ValueError: it is not JSON (json.JSONDecodeError), or no tree.
        KeyError: a field is missing.
    """
    try:
        with open(os.path.join(path, TREE_METADATA_FILE), "rb") as file:
            metadata = json.loads(file.read())
    except OSError:
        return
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

    def __init__(self, directory: Any, use_zarr3: bool) -> None:
        """Opens the database, if there is one.

        Args:
            directory: the item's.
            use_zarr3: whether arrays are zarr 3; the other format's are not
                seen.

        Raises:
            ValueError: a damaged database.
        """
        self.directory = directory
        self.path = os.fspath(directory)
        self.use_zarr3 = use_zarr3
        manifest = os.path.join(self.path, MANIFEST_FILE)
        self.use_ocdbt = os.path.exists(manifest)
        self._by_name: dict[str, StoredLeaf] = {}
        if self.use_ocdbt:
            self._add(self._open(manifest))

    @property
    def metadata_key(self) -> str:
        """Name of each array's metadata file."""
        return "zarr.json" if self.use_zarr3 else ".zarray"

    def find(self, names: _structure.Names) -> StoredLeaf | None:
        """The array stored for a leaf, or None."""
        name = ".".join(names)
        if not self.use_ocdbt and name not in self._by_name:
            file = os.path.join(self.path, name, self.metadata_key)
            if os.path.isfile(file):
                self._add(self._open(file), name)
        return self._by_name.get(name)

    @staticmethod
    def _open(file: str) -> Any:
        with reading():
            return _engine.Checkpoint(file)

    def _add(self, checkpoint: Any, name: str | None = None) -> None:
        for index, info in enumerate(checkpoint.leaves):
            leaf = _stored_leaf(checkpoint, index, info)
            leaf.name = info.name if name is None else name
            leaf.names = (leaf.name,)
            is_zarr3 = _is_zarr3(info.array_metadata)
            if is_zarr3 is None or is_zarr3 == self.use_zarr3:
                self._by_name[leaf.name] = leaf


def _is_zarr3(array_metadata: str) -> bool | None:
    """None where the text does not say."""
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
    for name in sorted(os.listdir(path)):
        if name in skipped:
            continue
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = name
    return tree
