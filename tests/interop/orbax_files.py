"""Reads what the files of a pytree item say, except for the bytes of its
chunks."""

import os
import pathlib

import tensorstore as ts

# The line that holdfast adds after Orbax's in commit_success.txt.
OWN_MARKER_LINE = b"\nIts checksums are in _HOLDFAST_DIGESTS"
OURS_ALONE = ("_HOLDFAST_DIGESTS",)
DATABASE_FILES = ("manifest.ocdbt",)
METADATA_NAMES = (".zarray", "zarr.json")
# Files in which the order of the members, or times, differ between saves.
UNCOMPARED = ("_CHECKPOINT_METADATA", "commit_success.txt")


def stored_texts(item, use_ocdbt):
    """Returns {name: text} for files and database keys; chunks have "".

    Args:
        item: the item's directory.
        use_ocdbt: whether the arrays are in a database.
    """
    item = pathlib.Path(item)
    texts = {}
    for directory, _, names in os.walk(item):
        for name in names:
            path = pathlib.Path(directory) / name
            relative = path.relative_to(item).as_posix()
            if _is_compared(relative):
                texts[relative] = _text(path) if _is_text(relative) else ""
    if use_ocdbt:
        texts |= _database_texts(item)
    return texts


def _is_compared(relative):
    parts = relative.split("/")
    if parts[-1] in OURS_ALONE + DATABASE_FILES + UNCOMPARED:
        return False
    # Data files have random names.
    return not (len(parts) > 1 and parts[-2] == "d") and (
        not parts[0].startswith("ocdbt.process_"))


def _is_text(relative):
    name = relative.split("/")[-1]
    return (name in METADATA_NAMES or name.startswith("_")
            or relative.startswith("array_metadatas/"))


def _text(path):
    return path.read_text("utf-8")


def _database_texts(item):
    store = ts.KvStore.open({
        "driver": "ocdbt", "base": f"file://{item}/"}).result()
    texts = {}
    for key in store.list().result():
        name = key.decode()
        is_text = name.split("/")[-1] in METADATA_NAMES
        value = store.read(key).result().value.decode() if is_text else ""
        texts["ocdbt:" + name] = value
    return texts
