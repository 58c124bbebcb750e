"""The interface of paths that will exist later."""

from __future__ import annotations

import os
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class PathAwaitingCreation(Protocol):
    """A directory that a save makes when it is first needed.

    Handlers get one: `path` tells where it will be, and only after
    `await_creation` may anything be written there.
    """

    def __truediv__(self, other: str | os.PathLike[str]) -> Any:
        """A path below, which the handler has to make itself."""
        ...

    @property
    def path(self) -> Any:
        """The path that the directory will have."""
        ...

    async def await_creation(self) -> Any:
        """Returns the path once the directory exists."""
        ...
