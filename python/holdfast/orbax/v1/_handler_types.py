"""The interfaces of checkpointables and of their handlers."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from holdfast.orbax.v1.path import PathAwaitingCreation

Checkpointable: TypeAlias = Any
AbstractCheckpointable: TypeAlias = Any

_Value = TypeVar("_Value")
_Abstract = TypeVar("_Abstract")


@runtime_checkable
class StatefulCheckpointable(Protocol):
    """An object that writes and reads itself.

    Both calls do what must happen at once, and return an awaitable that does
    the rest in the background.
    """

    async def save(self, directory: PathAwaitingCreation) -> Awaitable[None]:
        """Saves into `directory`, once that exists."""
        ...

    async def load(self, directory: Any) -> Awaitable[None]:
        """Loads from `directory` into this object."""
        ...


class CheckpointableHandler(Protocol[_Value, _Abstract]):
    """Saves and loads checkpointables of some kind in a directory of their own.

    Handlers are made without arguments.
    """

    async def save(
        self, directory: PathAwaitingCreation, checkpointable: _Value
    ) -> Awaitable[None]:
        """Saves; the awaitable that is returned does the background part."""
        ...

    async def load(
        self,
        directory: Any,
        abstract_checkpointable: _Abstract | None = None,
    ) -> Awaitable[_Value]:
        """Loads; the awaitable that is returned gives the value."""
        ...

    async def metadata(self, directory: Any) -> _Abstract:
        """The metadata of the object in `directory`, without reading it all."""
        ...

    def is_handleable(self, checkpointable: Any) -> bool:
        """Whether this handler can save the value."""
        ...

    def is_abstract_handleable(
        self, abstract_checkpointable: Any
    ) -> bool | None:
        """Whether this handler can load by it; None: it cannot tell."""
        ...
