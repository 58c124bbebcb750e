"""ProtoCheckpointHandler: a protocol buffer as an item, in text format.

Needs the package protobuf when one is saved or restored, not before.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from typing import Any

from holdfast import _files
from holdfast._future import Future
from holdfast.orbax._handler import AsyncCheckpointHandler, orbax_typestr
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)
from holdfast.orbax.multihost import is_primary_host
from holdfast.orbax.options import MultiprocessingOptions

_DEFAULT_FILENAME = "proto.pbtxt"


def _text_format() -> Any:
    """The module of protobuf that reads and writes texts.

    Raises:
        ImportError: protobuf is not installed.
    """
    return importlib.import_module("google.protobuf.text_format")


class ProtoCheckpointHandler(AsyncCheckpointHandler):
    """Saves and restores a protocol buffer.

    Thread-safety: one call at a time for each directory.
    """

    def __init__(
        self,
        filename: str = _DEFAULT_FILENAME,
        *,
        multiprocessing_options: MultiprocessingOptions | None = None,
    ) -> None:
        """Makes a handler.

        Args:
            filename: the text's.
            multiprocessing_options: which process writes.
        """
        options = multiprocessing_options or MultiprocessingOptions()
        self._primary_host = options.primary_host
        self._filename = filename

    @classmethod
    def typestr(cls) -> str:
        return orbax_typestr(
            cls,
            f"{__name__}.ProtoCheckpointHandler",
            "proto_checkpoint_handler",
            "ProtoCheckpointHandler",
        )

    def save(
        self,
        directory: Any,
        item: Any | None = None,
        args: ProtoSaveArgs | None = None,
    ) -> None:
        """Writes the message into `directory`, which exists.

        Args:
            directory: anything with a path.
            item: instead of `args`.
            args: what to save.

        Raises:
            ImportError: protobuf is not installed.
            OSError: the file cannot be written.
        """
        message = item if args is None else args.item
        self._write(directory, _text_format().MessageToString(message))

    async def async_save(
        self,
        directory: Any,
        item: Any | None = None,
        args: ProtoSaveArgs | None = None,
    ) -> list[Future[None]]:
        """As `save`, but a future that is returned writes the file."""
        message = item if args is None else args.item
        text = _text_format().MessageToString(message)
        return [
            Future(lambda _: self._write(directory, text), what="proto_ch_save")
        ]

    def restore(
        self,
        directory: Any,
        item: Any | None = None,
        args: ProtoRestoreArgs | None = None,
    ) -> Any:
        """Reads the message.

        Args:
            directory: anything with a path.
            item: instead of `args`.
            args: its class.

        Raises:
            ValueError: no class.
            FileNotFoundError: there is no such file.
            ImportError: protobuf is not installed.
            google.protobuf.text_format.ParseError: the text is of no such
                message.
        """
        if not args and not item:
            raise ValueError(
                "Must provide `item` in order to deserialize proto to the"
                " correct type."
            )
        message_class: Any = item if args is None else args.item
        text = _files.read_checked(self._path(directory)).decode()
        return _text_format().Parse(text, message_class())

    def _path(self, directory: Any) -> str:
        return os.path.join(os.fspath(directory), self._filename)

    def _write(self, directory: Any, text: str) -> None:
        if is_primary_host(self._primary_host):
            with _files.open(
                self._path(directory), "w", encoding="utf-8"
            ) as file:
                file.write(text)


@register_with_handler(ProtoCheckpointHandler, for_save=True)
@dataclasses.dataclass
class ProtoSaveArgs(CheckpointArgs):
    """The message to save."""

    item: Any


@register_with_handler(ProtoCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class ProtoRestoreArgs(CheckpointArgs):
    """How to restore it: the message's class."""

    item: Any
