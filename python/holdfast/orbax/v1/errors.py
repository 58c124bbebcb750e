"""Errors that users catch: `orbax.checkpoint.v1.errors`."""

from __future__ import annotations

from typing import Any

from holdfast.orbax._later import attribute_error

__all__ = ["InvalidLayoutError"]


class InvalidLayoutError(ValueError):
    """The path holds no checkpoint of the kind that was asked for."""


class AlreadyExistsError(ValueError):
    """A registry has such an entry already."""


class NoEntryError(KeyError):
    """No handler takes a checkpointable, or it could not be loaded."""


class UnregisteredTypeError(ValueError):
    """A leaf's type is none of those that can be saved."""


def __getattr__(name: str) -> Any:
    later = {"DeletionInProgressError", "DeletionRecoveryError"}
    raise attribute_error(__name__, name, later)
