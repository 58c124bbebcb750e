"""`_sharding`: the recorded sharding of each jax.Array."""

from __future__ import annotations

import base64
import functools
import json
import os
from typing import Any

from holdfast import _files, errors
from holdfast.orbax._durable import drop_digests
from holdfast.orbax._source import SHARDING_FILE


class ShardingFile:
    """An item's `_sharding`, read when it is first asked for an entry."""

    def __init__(self, directory: str) -> None:
        self._file = os.path.join(directory, SHARDING_FILE)

    @functools.cached_property
    def exists(self) -> bool:
        """Whether the item has one."""
        return _files.exists(self._file)

    @functools.cached_property
    def _entries(self) -> Any:
        try:
            return json.loads(_files.read_checked(self._file))
        except errors.DataLossError:
            raise
        except ValueError as error:
            raise ValueError(
                f'FAILED_PRECONDITION: Error reading local file "{self._file}":'
                " Invalid JSON"
            ) from error

    def __getitem__(self, name: str) -> str:
        """The JSON text of a parameter's sharding; "" for an empty entry.

        Raises:
            ValueError: there is no entry, or the file is not JSON.
        """
        key = base64.urlsafe_b64encode(name.encode()).decode()
        if not isinstance(self._entries, dict) or key not in self._entries:
            raise ValueError(
                f'NOT_FOUND: Error reading local file "{self._file}": JSON'
                f' Pointer "/{key}" refers to non-existent object member'
            )
        return str(self._entries[key])


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
    drop_digests(path)
    with _files.open(file, "w", encoding="utf-8") as stream:
        json.dump(entries, stream, separators=(",", ":"), sort_keys=True)
