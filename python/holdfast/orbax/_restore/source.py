"""The contents of an item's directory: its leaves and how to read them.

Opening an item reads only its metadata. Items with `_METADATA` or the old
msgpack file have a tree. For other items only the arrays are known, by name.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import os
from typing import Any

from holdfast import _engine, _files, errors
from holdfast._log import log
from holdfast.orbax._compat.errors import reading
from holdfast.orbax._trees import structure
from holdfast.orbax._trees.empty_values import is_empty_typestr
from holdfast.orbax.metadata.tree import ValueMetadataEntry
from holdfast.orbax.options import PyTreeMetadataOptions
from holdfast.orbax.tree_paths import add_leaf_type

TREE_METADATA_FILE = "_METADATA"
AGGREGATE_FILE = "checkpoint"
MANIFEST_FILE = "manifest.ocdbt"
SHARDING_FILE = "_sharding"
STRINGS_FILE = "_strings.json"

NO_LEAVES = (
    "Unable to uniquely reconstruct tree from empty flattened list (it could be"
    " {} or [])."
)

_RICH_TYPES = PyTreeMetadataOptions(support_rich_types=True)


@functools.lru_cache
def namedtuple_type(module: str, clazz: str, fields: tuple[str, ...]) -> Any:
    """Returns a class that replaces a recorded namedtuple's own class, which
    may no longer exist."""
    name = f"{module}_{clazz}_{len(fields)}".replace(".", "_")
    return collections.namedtuple(name, fields)  # noqa: PYI024


@dataclasses.dataclass(slots=True, eq=False)
class StoredLeaf:
    """A leaf and where it is stored.

    Attributes:
        name: the parameter's name: its keys joined with dots.
        names: the keys.
        checkpoint: the open checkpoint.
        index: the leaf's index in the checkpoint.
        info: the checkpoint's metadata of the leaf.
        value_type: the recorded type string; "" if not recorded.
        skip_deserialize: the recorded flag.
    """

    name: str
    names: structure.Names
    checkpoint: Any
    index: int
    info: Any
    value_type: str
    skip_deserialize: bool

    def has_value_in_aggregate(self) -> bool:
        """Returns whether the value is stored in the old msgpack file instead
        of an array."""
        return self.info.skip_deserialize and not self.is_empty()

    def is_empty(self) -> bool:
        """Returns whether the leaf is an empty container or None."""
        return is_empty_typestr(self.value_type)


class Entry(ValueMetadataEntry):
    """A `ValueMetadataEntry` that holds its leaf; the repr is the same."""

    stored: StoredLeaf | None = None


Entry.__name__ = Entry.__qualname__ = ValueMetadataEntry.__name__


@dataclasses.dataclass
class Source:
    """An opened item.

    Attributes:
        directory: the caller's argument, for messages.
        path: the directory as a str.
        checkpoint: the engine's checkpoint.
        use_ocdbt: whether arrays are stored in an OCDBT database.
        use_zarr3: the recorded flag; None if not recorded.
        has_tree_metadata: whether `_METADATA` exists.
        custom_metadata: the user's JSON value in `_METADATA`.
        value_metadata_tree: JSON text of the tree with its own containers.
        raise_array_data_missing_error: treat missing chunks as errors, not
            zeros.
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
        """The tree's leaves, in the checkpoint's order."""
        checkpoint = self.checkpoint
        return [
            StoredLeaf(row[0], row[1], checkpoint, i, info, *row[2][:2])
            for i, (info, row) in enumerate(
                zip(checkpoint.leaves, self.rows, strict=True)
            )
        ]

    def entry_tree(self) -> Any:
        """Returns the tree with an `Entry` at each leaf and empty container.

        Raises:
            ValueError: `_METADATA` lists no leaf.
        """
        return self.nest(self._entries())

    def nest(self, values: list[Any]) -> Any:
        """Arranges n values in dicts and lists.

        There is a value for each leaf and for each empty container.

        Raises:
            ValueError: the tree has no leaves, or a node's keys contradict each
                other.
        """
        if not values:
            raise ValueError(NO_LEAVES)
        return self.checkpoint.nest(values)

    def tree_of(self, values: list[Any], options: PyTreeMetadataOptions) -> Any:
        """Arranges values as `nest` does; uses the recorded containers if
        `options.support_rich_types` is set."""
        if options.support_rich_types and self.value_metadata_tree:
            return self.checkpoint.nest(values, namedtuple_type)
        return self.nest(values)

    def _entries(self) -> list[Entry]:
        entries = []
        for leaf, row in zip(self.leaves, self.rows, strict=True):
            entry = Entry(leaf.value_type, leaf.skip_deserialize, row[2][5])
            entry.stored = leaf
            entries.append(entry)
        return entries

    def rich_entry_tree(self) -> Any | None:
        """Returns the result of `entry_tree` in the containers that were saved.

        Returns None if the containers are not recorded.

        Raises:
            ValueError: the record is damaged.
        """
        if not self.value_metadata_tree:
            return None
        return self.tree_of(self._entries(), _RICH_TYPES)


add_leaf_type(Entry)


def open_item(
    directory: Any,
    *,
    missing_chunks: str = "as_recorded",
    aggregate_filename: str = AGGREGATE_FILE,
) -> Source:
    """Opens an item that has `_METADATA` or the old msgpack file.

    Args:
        directory: the item's directory, as any path-like object.
        missing_chunks: "fill" reads missing chunks as fill values, even if the
            item records that they are errors.
        aggregate_filename: name of the msgpack file.

    Raises:
        FileNotFoundError: the item has neither file.
        ValueError: a file cannot be read or parsed.
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
    """Returns whether the item's tree is recorded.

    Raises:
        DataLossError: the tree was recorded, but the file is missing now.
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
    """Raises Orbax's error if `_METADATA` is invalid.

    Raises:
        DataLossError: the file differs from the saved file.
        ValueError: the file is not JSON (json.JSONDecodeError), or not a tree.
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
        raise ValueError(NO_LEAVES)


@dataclasses.dataclass(frozen=True)
class NamedArrays:
    """Arrays of an item, whether or not its tree is recorded.

    Attributes:
        path: the item's path.
        use_ocdbt: whether the arrays are stored in a database.
        metadata_key: name of the arrays' metadata files.
        by_name: the existing arrays.
    """

    path: str
    use_ocdbt: bool
    metadata_key: str
    by_name: dict[str, StoredLeaf]


def open_arrays(
    directory: Any,
    names: list[str],
    use_zarr3: bool,
    *,
    use_ocdbt: bool | None = None,
    metadata_key: str | None = None,
    refuses_missing: bool = False,
) -> NamedArrays:
    """Opens arrays by their names.

    Args:
        directory: the item's directory.
        names: names of the parameters.
        use_zarr3: whether arrays are zarr 3; arrays of the other format are not
            found.
        use_ocdbt: whether the arrays are in a database; None means that the
            files decide.
        metadata_key: name of array metadata files; None means the format's
            default.
        refuses_missing: treat missing chunks as errors, not zeros.

    Raises:
        ValueError: the database is damaged.
    """
    path = os.fspath(directory)
    key = metadata_key or ("zarr.json" if use_zarr3 else ".zarray")
    has_database = use_ocdbt is not False and _files.exists(
        os.path.join(path, MANIFEST_FILE)
    )
    with reading():
        checkpoint = _engine.open_stored_arrays(
            path,
            names,
            use_ocdbt=has_database,
            metadata_key=key,
            raise_array_data_missing_error=refuses_missing,
        )
    leaves = {
        name: StoredLeaf(name, (name,), checkpoint, i, info, "", False)
        for i, (name, info) in enumerate(
            zip(names, checkpoint.leaves, strict=True)
        )
        if not isinstance(info.problem, errors.NotFoundError)
    }
    return NamedArrays(path, has_database, key, leaves)


def is_zarr3_metadata(array_metadata: str) -> bool | None:
    """Returns whether an array's metadata is zarr 3; None if unknown."""
    try:
        return bool(json.loads(array_metadata)["zarr_format"] == 3)
    except (ValueError, KeyError, TypeError):
        return None


def names_of_directories(path: str) -> Any:
    """Returns the tree that the names of an item's directories describe.

    Each leaf of the tree is its directory's name. Items without `_METADATA` and
    without OCDBT have one directory per leaf, named by the leaf's keys joined
    with dots.
    """
    skipped = {SHARDING_FILE, TREE_METADATA_FILE, "array_metadatas"}
    tree: dict[str, Any] = {}
    names = [entry.name for entry in _files.own_entries(path)]
    for name in sorted(names):
        if name in skipped:
            continue
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = name
    return tree
