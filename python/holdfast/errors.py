"""The exceptions that holdfast raises.

Each class tells the caller what to do next. It also derives from the built-in
exception that Python programs expect, so `except ValueError` and `except
FileNotFoundError` work. `str(error)` is the complete message: what, where, why.
"""

from __future__ import annotations

__all__ = [
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "DeletedArrayError",
    "FailedPreconditionError",
    "HoldfastError",
    "HoldfastWarning",
    "InternalError",
    "InvalidArgumentError",
    "LostFileError",
    "NotFoundError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnchangedWarning",
    "UnimplementedError",
]


class HoldfastError(Exception):
    """The base class of all errors."""


class HoldfastWarning(UserWarning):
    """The result seems to be correct, but read the warning."""


class UnchangedWarning(HoldfastWarning):
    """A step holds exactly the tensors of the step before it."""


class InvalidArgumentError(HoldfastError, ValueError):
    """The request is invalid; change it."""


class DeletedArrayError(InvalidArgumentError, RuntimeError):
    """A jax.Array has been deleted, or its buffer was donated."""


class NotFoundError(HoldfastError, FileNotFoundError):
    """The named path or leaf does not exist."""


class AlreadyExistsError(HoldfastError, FileExistsError, ValueError):
    """The target exists; choose another name, or ask for overwrite."""


class FailedPreconditionError(HoldfastError, ValueError):
    """The system is not in the required state; fix that first."""


class OutOfRangeError(HoldfastError, IndexError, ValueError):
    """An index or offset is beyond the end of the data."""


class PermissionDeniedError(HoldfastError, PermissionError):
    """The system refused access."""


class ResourceExhaustedError(HoldfastError, OSError, MemoryError):
    """Disk, quota or memory is full."""


class UnavailableError(HoldfastError, OSError):
    """A service is unavailable; retry the same call later."""


class UnimplementedError(HoldfastError, NotImplementedError):
    """The request is valid, but not supported here."""


class CancelledError(HoldfastError):
    """The caller cancelled; nothing is half-committed."""


class DeadlineExceededError(HoldfastError, TimeoutError):
    """A wait took too long."""


class DataLossError(HoldfastError, ValueError):
    """Stored bytes are damaged."""


class LostFileError(DataLossError, FileNotFoundError):
    """A file that was saved is missing."""


class InternalError(HoldfastError, RuntimeError):
    """A bug in holdfast."""
