"""The entry of a parameter in `_sharding`."""

from __future__ import annotations

import base64
import json
import os

from holdfast import _files, errors
from holdfast.orbax._durable import drop_stale_digests
from holdfast.orbax._source import SHARDING_FILE, StoredLeaf


def sharding_json_of(path: str, name: str, stored: StoredLeaf | None) -> str:
    """The JSON text of a parameter's sharding; "" for an empty entry.

    Args:
        path: the item's directory.
        name: the parameter's.
        stored: the leaf, whose own knowledge is used first.

    Raises:
        ValueError: there is no such file, or no entry, or it is not JSON.
    """
    if stored is not None and stored.info.sharding_json:
        return str(stored.info.sharding_json)
    file = os.path.join(path, SHARDING_FILE)
    if not _files.exists(file):
        raise ValueError(
            "Sharding of jax.Array cannot be None. Provide `mesh` and"
            " `mesh_axes` OR `sharding`"
        )
    return entry_of_file(file, name)


def entry_of_file(file: str, name: str) -> str:
    """The entry itself.

    Raises:
        ValueError: there is none, or the file is not JSON.
    """
    try:
        entries = json.loads(_files.read_checked(file))
    except errors.DataLossError:
        raise
    except ValueError as error:
        raise ValueError(
            f'FAILED_PRECONDITION: Error reading local file "{file}": Invalid'
            " JSON"
        ) from error
    key = base64.urlsafe_b64encode(name.encode()).decode()
    if not isinstance(entries, dict) or key not in entries:
        raise ValueError(
            f'NOT_FOUND: Error reading local file "{file}": JSON Pointer'
            f' "/{key}" refers to non-existent object member'
        )
    return str(entries[key])


def add_shardings(path: str, shardings: dict[str, str]) -> None:
    """Adds entries to `_sharding`, which is made if need be.

    Args:
        path: the item's directory.
        shardings: JSON text of each parameter's sharding.

    Raises:
        OSError: the file cannot be written.
    """
    file = os.path.join(path, SHARDING_FILE)
    entries: dict[str, str] = {}
    if _files.exists(file):
        with _files.open(file, "rb") as stream:
            entries = json.loads(stream.read())
    for name, text in shardings.items():
        entries[base64.urlsafe_b64encode(name.encode()).decode()] = text
    drop_stale_digests(path, SHARDING_FILE)
    with _files.open(file, "w", encoding="utf-8") as stream:
        json.dump(entries, stream, separators=(",", ":"), sort_keys=True)
