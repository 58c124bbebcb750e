"""The interfaces of checkpointables and their handlers."""

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
    """An object that saves and loads itself.

    Before a method returns, it does the work that cannot wait. The awaitable
    that it returns does the rest in the background.
    """

    async def save(self, directory: PathAwaitingCreation) -> Awaitable[None]:
        """Saves into `directory`, once the directory exists."""
        ...

    async def load(self, directory: Any) -> Awaitable[None]:
        """Loads from `directory` into this object."""
        ...


class CheckpointableHandler(Protocol[_Value, _Abstract]):
    """Saves and loads checkpointables of one kind, each in its own directory.

    Handlers are constructed without arguments.
    """

    async def save(
        self, directory: PathAwaitingCreation, checkpointable: _Value
    ) -> Awaitable[None]:
        """Starts to save; the returned awaitable does the rest."""
        ...

    async def load(
        self,
        directory: Any,
        abstract_checkpointable: _Abstract | None = None,
    ) -> Awaitable[_Value]:
        """Starts to load; the returned awaitable returns the value."""
        ...

    async def metadata(self, directory: Any) -> _Abstract:
        """Returns the metadata of the object in `directory`, without reading
        all of it."""
        ...

    def is_handleable(self, checkpointable: Any) -> bool:
        """Returns whether this handler can save the value."""
        ...

    def is_abstract_handleable(
        self, abstract_checkpointable: Any
    ) -> bool | None:
        """Returns whether this handler can load with this abstract value, or
        None if that is unknown."""
        ...
