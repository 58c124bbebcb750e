"""Checkpointers: `orbax.checkpoint.checkpointers`."""

from holdfast.orbax._checkpointer.base import AbstractCheckpointer, Checkpointer
from holdfast.orbax._checkpointer.standard import (
    PyTreeCheckpointer,
    StandardCheckpointer,
)
from holdfast.orbax.async_checkpointer import AsyncCheckpointer

__all__ = [
    "AbstractCheckpointer",
    "AsyncCheckpointer",
    "Checkpointer",
    "PyTreeCheckpointer",
    "StandardCheckpointer",
]
