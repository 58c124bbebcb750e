"""`_sharding`: the recorded sharding of each jax.Array."""

from __future__ import annotations

import base64
import functools
import os

from holdfast import _engine, _files
from holdfast.orbax._compat.errors import reading
from holdfast.orbax._restore.source import SHARDING_FILE


class ShardingFile:
    """The `_sharding` file of an item, read on first use."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._file = os.path.join(directory, SHARDING_FILE)

    @functools.cached_property
    def exists(self) -> bool:
        """Whether the item has this file."""
        return _files.exists(self._file)

    @functools.cached_property
    def _entries(self) -> dict[str, str]:
        with reading():
            return _engine.recorded_shardings(self._directory) or {}

    def __getitem__(self, name: str) -> str:
        """Returns a parameter's sharding as JSON text; "" for an empty entry.

        Raises:
            ValueError: there is no entry, or the file is not JSON.
        """
        if name in self._entries:
            return self._entries[name]
        key = base64.urlsafe_b64encode(name.encode()).decode()
        raise ValueError(
            f'NOT_FOUND: Error reading local file "{self._file}": JSON Pointer'
            f' "/{key}" refers to non-existent object member'
        )
