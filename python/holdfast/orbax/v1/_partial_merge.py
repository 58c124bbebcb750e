"""One checkpoint of the parts that partial saves have left in a session.

Files are linked, not copied, where the file system can; the session stays as it
is until the checkpoint exists.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast import _engine, _files
from holdfast.orbax._paths import TMP_DIR_SUFFIX
from holdfast.orbax.base_pytree_checkpoint_handler import (
    PartialSaveReplacementError,
)
from holdfast.orbax.v1._layout import (
    CHECKPOINT_METADATA_FILE,
    TREE_METADATA_FILE,
)

PENDING_INFIX = ".pending_"
_DATABASE_PREFIX = "ocdbt.process_"
_ARRAYS = "array_metadatas"
# Files of the directory itself; the merge makes new ones for all parts.
_OF_DATABASE = ("manifest.ocdbt", "d")

Names = tuple[str, ...]


def parts(session: str) -> list[str]:
    """The directories of the saves of a session, in their order."""
    if not _files.isdir(session):
        return []
    return [
        os.path.join(session, name)
        for name in sorted(_files.listdir(session))
        if PENDING_INFIX in name and TMP_DIR_SUFFIX not in name
    ]


def _items(part: str) -> Iterator[tuple[str, str]]:
    """The names and paths of the items in a part."""
    with _files.scandir(part) as entries:
        for entry in entries:
            if entry.is_dir():
                yield entry.name, entry.path


def check_keys(session: str, added: Iterable[Names]) -> None:
    """Checks that no leaf was saved before.

    Args:
        session: where earlier saves are.
        added: the leaves' keys.

    Raises:
        PartialSaveReplacementError: one was, or lies in or above one.
        ValueError: files of the session are damaged.
    """
    known: set[Names] = set()
    inner: set[Names] = set()
    for part in parts(session):
        for _, path in _items(part):
            for names in _keys(os.path.join(path, TREE_METADATA_FILE)):
                known.add(names)
                inner.update(names[:n] for n in range(len(names)))
    for names in added:
        above = (names[:n] for n in range(len(names) + 1))
        if names in inner or any(prefix in known for prefix in above):
            raise _replaced(str(names))


def _replaced(key: str) -> PartialSaveReplacementError:
    return PartialSaveReplacementError(
        f'Key "{key}" was found in a previous partial save in this session.'
        " Partial saving currently does not support REPLACEMENT."
    )


def _keys(path: str) -> list[Names]:
    """The keys of the leaves that a `_METADATA` describes."""
    if not _files.exists(path):
        return []
    return [_names_of(key) for key in _read_json(path)["tree_metadata"]]


def _names_of(key: str) -> Names:
    names = ast.literal_eval(key)
    if not isinstance(names, tuple):
        raise ValueError(f"the key {key!r} of a leaf is no tuple")
    return names


def _read_json(path: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ValueError: the file holds none.
    """
    text = _files.read_checked(path)
    try:
        value = json.loads(text.decode())
    except ValueError as error:
        raise ValueError(f"Failed to read metadata from {path}.") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no JSON object")
    return value


def leave_to_the_merge(part: str) -> None:
    """Takes away what a part has and the merge makes anew, and what Orbax
    would not know how to merge."""
    for path in (part, *(path for _, path in _items(part))):
        _remove(os.path.join(path, _files.DIGEST_FILE))
        if any(
            name.startswith(_DATABASE_PREFIX) for name in _files.listdir(path)
        ):
            for name in _OF_DATABASE:
                _remove(os.path.join(path, name))


def _remove(path: str) -> None:
    if _files.isdir(path):
        _files.rmtree(path)
    elif _files.lexists(path):
        _files.unlink(path)


def make_checkpoint(session: str, path: str) -> None:
    """Makes a checkpoint of all parts of a session, and removes the session.

    Args:
        session: where they are.
        path: of the checkpoint; nothing is there.

    Raises:
        FileExistsError: two parts have the same file.
        PartialSaveReplacementError: two parts have the same leaf.
        ValueError: files are damaged.
        OSError: files cannot be read or written.
    """
    handlers: dict[str, str] = {}
    custom_metadata: dict[str, Any] = {}
    with _engine.PendingSave(path) as pending:
        for part in parts(session):
            part_id = part.rpartition("_")[2]
            for name, source in _items(part):
                target = os.path.join(pending.directory, name)
                _merge_item(source, target, part_id)
            metadata_path = os.path.join(part, CHECKPOINT_METADATA_FILE)
            if _files.exists(metadata_path):
                metadata = _read_json(metadata_path)
                handlers.update(metadata.get("item_handlers") or {})
                custom_metadata.update(metadata.get("custom_metadata") or {})
        for _, item in _items(pending.directory):
            names = _files.listdir(item)
            if any(name.startswith(_DATABASE_PREFIX) for name in names):
                _engine.merge_process_databases(item)
        pending.commit(
            item_handlers_json=json.dumps(handlers),
            custom_metadata=json.dumps(custom_metadata)
            if custom_metadata
            else "",
            is_v1=True,
        )
    _files.rmtree(session)


def _merge_item(source: str, target: str, part_id: str) -> None:
    """Adds the files of an item in a part to the item of the checkpoint."""
    _files.makedirs(target, exist_ok=True)
    names = set(_files.listdir(source))
    has_databases = any(name.startswith(_DATABASE_PREFIX) for name in names)
    skipped = {_files.DIGEST_FILE, *(_OF_DATABASE if has_databases else ())}
    for name in sorted(names - skipped):
        old, new = os.path.join(source, name), os.path.join(target, name)
        merge = _MERGED.get(name)
        if merge is not None:
            _merge_json(old, new, merge)
        elif name == _ARRAYS:
            _files.makedirs(new, exist_ok=True)
            for child in sorted(_files.listdir(old)):
                _merge_json(
                    os.path.join(old, child),
                    os.path.join(new, child),
                    _merged_arrays,
                )
        elif name.startswith(_DATABASE_PREFIX):
            # No "_": what follows the first one is the process's name.
            _link_all(old, f"{new}{part_id}")
        else:
            _link_all(old, new)


def _merge_json(
    old: str,
    new: str,
    merge: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]],
) -> None:
    value = _read_json(old)
    if _files.exists(new):
        value = merge(_read_json(new), value)
    with _files.open(new, "w", encoding="utf-8") as file:
        json.dump(value, file)


def _merged_tree(
    first: dict[str, Any], second: dict[str, Any]
) -> dict[str, Any]:
    """`_METADATA` of two parts.

    Raises:
        PartialSaveReplacementError: they have the same leaf.
    """
    leaves = first.get("tree_metadata", {})
    added = second.get("tree_metadata", {})
    for key in added:
        if key in leaves:
            raise _replaced(key)
    together = {**leaves, **added}
    # An empty container of one part may be no longer empty in the other.
    inner = {
        names[:n]
        for names in map(_names_of, together)
        for n in range(len(names))
    }
    kept = {k: v for k, v in together.items() if _names_of(k) not in inner}
    return {**first, **second, "tree_metadata": kept}


def _merged_dict(
    first: dict[str, Any], second: dict[str, Any]
) -> dict[str, Any]:
    return {**first, **second}


def _merged_arrays(
    first: dict[str, Any], second: dict[str, Any]
) -> dict[str, Any]:
    arrays = [*first.get(_ARRAYS, []), *second.get(_ARRAYS, [])]
    return {**first, _ARRAYS: arrays}


_MERGED: dict[
    str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
] = {
    TREE_METADATA_FILE: _merged_tree,
    "_sharding": _merged_dict,
    "_strings.json": _merged_dict,
}


def _link_all(source: str, target: str) -> None:
    """Links a file, or everything in a directory.

    Raises:
        FileExistsError: there is a file of that name.
    """
    if _files.isdir(source):
        _files.makedirs(target, exist_ok=True)
        for name in _files.listdir(source):
            _link_all(os.path.join(source, name), os.path.join(target, name))
        return
    if _files.lexists(target):
        raise FileExistsError(
            f"File collision on {os.path.basename(source)} during finalize."
            " Overwriting destination file is not allowed."
        )
    try:
        _files.link(source, target)
    except OSError:
        _files.copyfile(source, target)
