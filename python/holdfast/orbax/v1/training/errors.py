"""Errors of steps: `orbax.checkpoint.v1.training.errors`."""

from __future__ import annotations

__all__ = ["StepAlreadyExistsError", "StepNotFoundError"]


class StepAlreadyExistsError(FileExistsError):
    """A step that was to be saved exists already."""


class StepNotFoundError(FileNotFoundError):
    """There is no such step."""
