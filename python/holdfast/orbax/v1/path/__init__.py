"""Paths of checkpoints: `orbax.checkpoint.v1.path`."""

from __future__ import annotations

import importlib
import os
import pathlib
from typing import Any, TypeAlias

from holdfast.orbax._checkpointer.paths import PathAwaitingCreation
from holdfast.orbax._compat.attributes import attribute_error

__all__ = ["Path", "PathAwaitingCreation", "PathLike", "step"]

Path: TypeAlias = pathlib.Path
PathLike: TypeAlias = str | os.PathLike[str]


def __getattr__(name: str) -> Any:
    if name == "step":
        # Imported late, because `step` imports modules that need this module.
        return importlib.import_module("holdfast.orbax.v1.path.step")
    raise attribute_error(__name__, name)
