"""Paths of checkpoints: `orbax.checkpoint.v1.path`."""

from __future__ import annotations

import importlib
import os
import pathlib
from typing import Any, Protocol, TypeAlias

from holdfast.orbax._later import attribute_error

__all__ = ["Path", "PathAwaitingCreation", "PathLike", "step"]

Path: TypeAlias = pathlib.Path
PathLike: TypeAlias = "str | os.PathLike[str]"


class PathAwaitingCreation(Protocol):
    """A directory that a save makes when it is first needed.

    Handlers get one: `path` tells where it will be, and only after
    `await_creation` may anything be written there.
    """

    def __truediv__(self, other: PathLike) -> PathAwaitingCreation:
        """A path below, which the handler has to make itself."""
        ...

    @property
    def path(self) -> Any:
        """The path that the directory will have."""
        ...

    async def await_creation(self) -> Any:
        """Returns the path once the directory exists."""
        ...


def __getattr__(name: str) -> Any:
    if name == "step":
        # Only then: it needs what needs this module.
        return importlib.import_module("holdfast.orbax.v1.path.step")
    raise attribute_error(__name__, name, frozenset())
