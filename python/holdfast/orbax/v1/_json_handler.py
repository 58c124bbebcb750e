"""Saves and loads JSON documents as checkpointables."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable
from typing import Any, ClassVar

from holdfast import _files
from holdfast._json_values import json_text
from holdfast.orbax.v1._directory import write_file
from holdfast.orbax.v1._handler_types import CheckpointableHandler
from holdfast.orbax.v1.path import PathAwaitingCreation

_DATA_FILE = "data.json"


class JsonHandler(CheckpointableHandler[Any, Any]):
    """Saves any value that `json` accepts, as `data.json`.

    Args:
        filename: a different file name. `data.json` and `metadata`, which
            older checkpoints have, are read as well.
    """

    TYPESTR: ClassVar[str] = (
        "orbax.checkpoint.experimental.v1._src.handlers.json_handler"
        ".JsonHandler"
    )

    def __init__(self, filename: str | None = None) -> None:
        self._filenames = [filename or _DATA_FILE, _DATA_FILE, "metadata"]

    async def save(
        self, directory: PathAwaitingCreation, checkpointable: Any
    ) -> Awaitable[None]:
        """Encodes the value now, and writes it in the background.

        Raises:
            TypeError: the value is not a JSON value.
        """
        content = json_text(checkpointable, self._filenames[0]).encode()
        return write_file(directory, self._filenames[0], content)

    async def load(
        self, directory: Any, abstract_checkpointable: Any | None = None
    ) -> Awaitable[Any]:
        """Returns the document; `abstract_checkpointable` is ignored.

        Raises:
            FileNotFoundError: no known file exists.
            ValueError: the file is not JSON.
        """

        async def read() -> Any:
            for name in self._filenames:
                try:
                    text = _files.read_checked(os.path.join(directory, name))
                except FileNotFoundError:
                    continue
                return json.loads(text.decode())
            raise FileNotFoundError(
                f"Unable to parse JSON file in {directory}. Recognized "
                f"filenames are: {self._filenames}"
            )

        return read()

    async def metadata(self, directory: Any) -> None:
        """Returns None, because describing a document requires reading it."""
        return None

    def is_handleable(self, checkpointable: Any) -> bool:
        """Returns whether `json` accepts the value."""
        try:
            json.dumps(checkpointable)
        except (TypeError, ValueError, RecursionError):
            return False
        return True

    def is_abstract_handleable(
        self, abstract_checkpointable: Any
    ) -> bool | None:
        """Returns None, because every document is loaded in the same way."""
        return None


class MetricsHandler(JsonHandler):
    """Loads the metrics that a training checkpointer wrote."""

    TYPESTR: ClassVar[str] = (
        "orbax.checkpoint.experimental.v1._src.handlers.json_handler"
        ".MetricsHandler"
    )

    def __init__(self) -> None:
        super().__init__("metrics")
