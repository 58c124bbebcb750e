"""Checkpointers: `orbax.checkpoint.checkpointers`."""

from typing import Any

from holdfast.orbax._checkpointer import AbstractCheckpointer, Checkpointer
from holdfast.orbax._later import attribute_error
from holdfast.orbax._standard_checkpointer import (
    PyTreeCheckpointer,
    StandardCheckpointer,
)

__all__ = [
    "AbstractCheckpointer",
    "Checkpointer",
    "PyTreeCheckpointer",
    "StandardCheckpointer",
]


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, {"AsyncCheckpointer"})
