"""Handlers whose argument classes were never registered."""

from __future__ import annotations

from typing import Any

from holdfast.orbax._handler import CheckpointHandler
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)


class PlainHandler(CheckpointHandler):
    """A handler without registered arguments, called with what it is given."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def save(self, directory: Any, args: PlainArgs) -> Any:
        return self._handler.save(directory, *args.args, **args.kwargs)

    def restore(self, directory: Any, args: PlainArgs) -> Any:
        return self._handler.restore(directory, *args.args, **args.kwargs)

    def metadata(self, directory: Any) -> Any | None:
        return self._handler.metadata(directory)

    def finalize(self, directory: Any) -> None:
        self._handler.finalize(directory)

    def close(self) -> None:
        self._handler.close()


@register_with_handler(PlainHandler, for_save=True, for_restore=True)
class PlainArgs(CheckpointArgs):
    """What such a handler is called with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs
