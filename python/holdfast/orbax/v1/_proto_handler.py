"""Saves and loads protocol buffers as checkpointables, in text format.

Needs the package protobuf only when a message is saved or loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable
from typing import Any, ClassVar

from holdfast import _files
from holdfast.orbax.proto_handler import text_format
from holdfast.orbax.v1._directory import write_file
from holdfast.orbax.v1._handler_types import CheckpointableHandler
from holdfast.orbax.v1.path import PathAwaitingCreation

_DEFAULT_FILENAME = "proto.pbtxt"


class ProtoHandler(CheckpointableHandler[Any, Any]):
    """Saves a message as text.

    Args:
        filename: the name of the text file.
    """

    TYPESTR: ClassVar[str] = (
        "orbax.checkpoint.experimental.v1._src.handlers.proto_handler"
        ".ProtoHandler"
    )

    def __init__(self, filename: str = _DEFAULT_FILENAME) -> None:
        self._filename = filename

    async def save(
        self, directory: PathAwaitingCreation, checkpointable: Any
    ) -> Awaitable[None]:
        """Formats the text now, and writes it in the background.

        Raises:
            ImportError: protobuf is not installed.
        """
        text = text_format().MessageToString(checkpointable)
        return write_file(directory, self._filename, text.encode())

    async def load(
        self, directory: Any, abstract_checkpointable: Any | None = None
    ) -> Awaitable[Any]:
        """Returns the message.

        Args:
            directory: the directory that contains the file.
            abstract_checkpointable: the message's class.

        Raises:
            ValueError: no class is given.
            FileNotFoundError: the file does not exist.
            google.protobuf.text_format.ParseError: the file is not a message of
                this class.
        """
        if abstract_checkpointable is None:
            raise ValueError(
                "abstract_checkpointable must be provided to restore as a"
                " Proto."
            )

        async def read() -> Any:
            path = os.path.join(directory, self._filename)
            text = _files.read_checked(path).decode()
            return text_format().Parse(text, abstract_checkpointable())

        return read()

    async def metadata(self, directory: Any) -> Any:
        """Always raises.

        Raises:
            NotImplementedError: always, because the text does not name its
                class.
        """
        raise NotImplementedError()

    def is_handleable(self, checkpointable: Any) -> bool:
        """Returns whether the value is a message."""
        kind = _message_class()
        return kind is not None and isinstance(checkpointable, kind)

    def is_abstract_handleable(self, abstract_checkpointable: Any) -> bool:
        """Returns whether the value is a message class."""
        kind = _message_class()
        is_class = isinstance(abstract_checkpointable, type)
        return (
            kind is not None
            and is_class
            and issubclass(abstract_checkpointable, kind)
        )


def _message_class() -> Any | None:
    """Returns the base class of all messages; None if the program has not
    imported protobuf."""
    module = sys.modules.get("google.protobuf.message")
    return getattr(module, "Message", None)
