"""Loggers of a manager's saves and restores: `orbax.checkpoint.logging`."""

from __future__ import annotations

from holdfast.orbax.logging import step_statistics
from holdfast.orbax.logging._base import (
    AbstractLogger,
    CompositeLogger,
    StandardLogger,
)
from holdfast.orbax.logging._cloud import CloudLogger, CloudLoggerOptions

__all__ = [
    "AbstractLogger",
    "CloudLogger",
    "CloudLoggerOptions",
    "CompositeLogger",
    "StandardLogger",
    "step_statistics",
]
