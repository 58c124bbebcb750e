"""Errors about steps: `orbax.checkpoint.v1.training.errors`."""

from __future__ import annotations

__all__ = ["StepAlreadyExistsError", "StepNotFoundError"]


class StepAlreadyExistsError(FileExistsError):
    """The step to save already exists."""


class StepNotFoundError(FileNotFoundError):
    """The requested step does not exist."""
