"""ProtoCheckpointHandler: a protocol buffer as an item, in text format.

The protobuf package is needed only when a message is saved or restored.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from holdfast import _files
from holdfast.orbax._handlers.base import ORBAX_HANDLERS
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)
from holdfast.orbax.json_handler import TextFileHandler
from holdfast.orbax.options import MultiprocessingOptions

_DEFAULT_FILENAME = "proto.pbtxt"


def text_format() -> Any:
    """Returns protobuf's module for the text format.

    Raises:
        ImportError: protobuf is not installed.
    """
    return importlib.import_module("google.protobuf.text_format")


class ProtoCheckpointHandler(TextFileHandler):
    """Saves and restores a protocol buffer.

    Thread-safety: one call at a time for each directory.
    """

    TYPESTR = (
        f"{ORBAX_HANDLERS}.proto_checkpoint_handler"
        ".ProtoCheckpointHandler"
    )

    def __init__(
        self,
        filename: str = _DEFAULT_FILENAME,
        *,
        multiprocessing_options: MultiprocessingOptions | None = None,
    ) -> None:
        """Makes a handler.

        Args:
            filename: the name of the text file.
            multiprocessing_options: which process writes.
        """
        super().__init__(filename, multiprocessing_options)

    def _text_of(self, item: Any) -> str:
        return str(text_format().MessageToString(item))

    def restore(
        self,
        directory: Any,
        item: Any | None = None,
        args: ProtoRestoreArgs | None = None,
    ) -> Any:
        """Reads the message.

        Args:
            directory: the item's directory, as any path-like object.
            item: the message's class, if `args` is not given.
            args: holds the message's class.

        Raises:
            ValueError: no class is given.
            FileNotFoundError: the file does not exist.
            ImportError: protobuf is not installed.
            google.protobuf.text_format.ParseError: the text is not a message
                of that class.
        """
        if not args and not item:
            raise ValueError(
                "Must provide `item` in order to deserialize proto to the"
                " correct type."
            )
        message_class: Any = item if args is None else args.item
        text = _files.read_checked(self._path(directory)).decode()
        return text_format().Parse(text, message_class())


@register_with_handler(ProtoCheckpointHandler, for_save=True)
@dataclasses.dataclass
class ProtoSaveArgs(CheckpointArgs):
    """The message to save."""

    item: Any


@register_with_handler(ProtoCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class ProtoRestoreArgs(CheckpointArgs):
    """The class of the message to restore."""

    item: Any
