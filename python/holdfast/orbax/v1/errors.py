"""Errors that callers may catch: `orbax.checkpoint.v1.errors`."""

from __future__ import annotations

__all__ = [
    "DeletionInProgressError",
    "DeletionRecoveryError",
    "InvalidLayoutError",
]


class InvalidLayoutError(ValueError):
    """The path holds no checkpoint of the requested kind."""


class AlreadyExistsError(ValueError):
    """The registry already has an entry for this name or type."""


class NoEntryError(KeyError):
    """No handler accepts a checkpointable, or loading it failed."""


class UnregisteredTypeError(ValueError):
    """A leaf's type cannot be saved."""


class DeletionInProgressError(RuntimeError):
    """The requested checkpointable is being deleted."""


class DeletionRecoveryError(RuntimeError):
    """This call cannot finish an interrupted deletion."""
