"""JsonCheckpointHandler, and the base class of handlers for text files."""

from __future__ import annotations

import abc
import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from holdfast import _files
from holdfast._future import Future
from holdfast._json_values import json_text
from holdfast.orbax._handlers.base import ORBAX_HANDLERS, AsyncCheckpointHandler
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)
from holdfast.orbax.multihost import is_primary_host
from holdfast.orbax.options import MultiprocessingOptions


class TextFileHandler(AsyncCheckpointHandler):
    """Base class of handlers that save an item as one text file.

    Thread-safety: one call at a time for each directory.
    """

    def __init__(
        self,
        filename: str,
        multiprocessing_options: MultiprocessingOptions | None,
    ) -> None:
        """Makes a handler.

        Args:
            filename: the name of the text file.
            multiprocessing_options: which process writes.
        """
        options = multiprocessing_options or MultiprocessingOptions()
        self._primary_host = options.primary_host
        self._filename = filename

    @abc.abstractmethod
    def _text_of(self, item: Any) -> str:
        """Converts an item to text.

        Raises:
            Exception: the item cannot be converted.
        """

    def save(
        self, directory: Any, item: Any | None = None, args: Any | None = None
    ) -> None:
        """Writes the item into an existing directory.

        Args:
            directory: the directory, as any path-like object.
            item: the item to save, if `args` is not given.
            args: holds the item to save.

        Raises:
            ValueError: `item` is an arguments object.
            TypeError: the document is not a JSON value.
            ImportError: the package that the item's type needs is not
                installed.
            OSError: the file cannot be written.
        """
        self._write(directory, self._text_of(_item(item, args)))

    async def async_save(
        self, directory: Any, item: Any | None = None, args: Any | None = None
    ) -> list[Future[None]]:
        """Converts the item, and returns a future that writes the file."""
        text = self._text_of(_item(item, args))
        what = f"{self._filename} of {directory}"
        return [Future(lambda _: self._write(directory, text), what=what)]

    def _path(self, directory: Any) -> str:
        return os.path.join(os.fspath(directory), self._filename)

    def _write(self, directory: Any, text: str) -> None:
        if not is_primary_host(self._primary_host):
            return
        with _files.open(self._path(directory), "w", encoding="utf-8") as file:
            file.write(text)


def _item(item: Any, args: Any | None) -> Any:
    if isinstance(item, CheckpointArgs):
        raise ValueError(
            "Make sure to specify kwarg name `args=` when providing "
            f"`{type(item).__name__}`."
        )
    return item if args is None else args.item


class JsonCheckpointHandler(TextFileHandler):
    """Saves and restores a JSON document.

    Thread-safety: one call at a time for each directory.
    """

    TYPESTR = f"{ORBAX_HANDLERS}.json_checkpoint_handler.JsonCheckpointHandler"

    def __init__(
        self,
        filename: str | None = None,
        *,
        multiprocessing_options: MultiprocessingOptions | None = None,
    ) -> None:
        """Makes a handler.

        Args:
            filename: the document's file name; "metadata" by default.
            multiprocessing_options: which process writes.
        """
        super().__init__(filename or "metadata", multiprocessing_options)

    def _text_of(self, item: Any) -> str:
        return json_text(item, self._filename)

    def restore(
        self,
        directory: Any,
        item: Mapping[str, Any] | None = None,
        args: JsonRestoreArgs | None = None,
    ) -> Any:
        """Reads the document.

        Args:
            directory: the directory, as any path-like object.
            item: ignored; accepted because Orbax has it.
            args: ignored; accepted because Orbax has it.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: the file is not JSON, or differs from what was saved.
        """
        path = self._path(directory)
        try:
            text = _files.read_checked(path)
        except FileNotFoundError:
            raise FileNotFoundError(f"File {path} not found.") from None
        return json.loads(text.decode())


@register_with_handler(JsonCheckpointHandler, for_save=True)
@dataclasses.dataclass
class JsonSaveArgs(CheckpointArgs):
    """The value to save: a JSON object."""

    item: Mapping[str, Any]


@register_with_handler(JsonCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class JsonRestoreArgs(CheckpointArgs):
    """The arguments of `restore`, which has no options; `item` is ignored."""

    item: Any | None = None
