"""Errors that users catch: `orbax.checkpoint.v1.errors`."""

from __future__ import annotations

__all__ = [
    "DeletionInProgressError",
    "DeletionRecoveryError",
    "InvalidLayoutError",
]


class InvalidLayoutError(ValueError):
    """The path holds no checkpoint of the kind that was asked for."""


class AlreadyExistsError(ValueError):
    """A registry has such an entry already."""


class NoEntryError(KeyError):
    """No handler takes a checkpointable, or it could not be loaded."""


class UnregisteredTypeError(ValueError):
    """A leaf's type cannot be saved."""


class DeletionInProgressError(RuntimeError):
    """The requested checkpointable is being deleted."""


class DeletionRecoveryError(RuntimeError):
    """A deletion that was interrupted cannot be finished by this call."""
