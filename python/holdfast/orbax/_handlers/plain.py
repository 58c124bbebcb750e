"""Wrappers for handlers whose argument classes were never registered."""

from __future__ import annotations

from typing import Any

from holdfast.orbax._handlers.base import (
    ORBAX_HANDLERS,
    AsyncCheckpointHandler,
    CheckpointHandler,
)
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)


class PlainHandler(CheckpointHandler):
    """Wraps a handler whose argument classes were never registered.

    The handler gets the caller's arguments unchanged.
    """

    TYPESTR = (
        f"{ORBAX_HANDLERS}.composite_checkpoint_handler"
        "._LegacyCheckpointHandlerWrapper"
    )

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


class AsyncPlainHandler(PlainHandler, AsyncCheckpointHandler):
    """A PlainHandler for a handler that can write in the background."""

    TYPESTR = (
        f"{ORBAX_HANDLERS}.composite_checkpoint_handler"
        "._AsyncLegacyCheckpointHandlerWrapper"
    )

    async def async_save(self, directory: Any, args: PlainArgs) -> Any:
        return await self._handler.async_save(
            directory, *args.args, **args.kwargs
        )


@register_with_handler(PlainHandler, for_save=True, for_restore=True)
class PlainArgs(CheckpointArgs):
    """The arguments of a PlainHandler."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


@register_with_handler(AsyncPlainHandler, for_save=True, for_restore=True)
class AsyncPlainArgs(PlainArgs):
    """The arguments of an AsyncPlainHandler."""


def wrap(handler: Any) -> PlainHandler:
    """Wraps a handler in a handler whose argument classes are registered."""
    if isinstance(handler, AsyncCheckpointHandler):
        return AsyncPlainHandler(handler)
    return PlainHandler(handler)
