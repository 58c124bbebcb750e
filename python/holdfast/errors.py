"""The exceptions that holdfast raises.

Each class says what the caller should do next, and is also the built-in
exception that Python programs expect in its place, so `except ValueError` and
`except FileNotFoundError` work. `str(error)` is the whole message: what, where,
why.
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
    "UnimplementedError",
]


class HoldfastError(Exception):
    """The base of all others."""


class HoldfastWarning(UserWarning):
    """The result is right as far as anybody can tell, but read the warning."""


class InvalidArgumentError(HoldfastError, ValueError):
    """The request is wrong; change it."""


class DeletedArrayError(InvalidArgumentError, RuntimeError):
    """A jax.Array whose elements were deleted or donated."""


class NotFoundError(HoldfastError, FileNotFoundError):
    """The named path or leaf does not exist."""


class AlreadyExistsError(HoldfastError, FileExistsError, ValueError):
    """Choose another name, or ask for overwrite."""


class FailedPreconditionError(HoldfastError, ValueError):
    """The state of the world must be put right first."""


class OutOfRangeError(HoldfastError, IndexError, ValueError):
    """Beyond the end of what exists."""


class PermissionDeniedError(HoldfastError, PermissionError):
    """The system refused access."""


class ResourceExhaustedError(HoldfastError, OSError, MemoryError):
    """Disk, quota or memory is full."""


class UnavailableError(HoldfastError, OSError):
    """Retry the same call later."""


class UnimplementedError(HoldfastError, NotImplementedError):
    """Valid, but not supported here."""


class CancelledError(HoldfastError):
    """The caller cancelled; nothing is half-committed."""


class DeadlineExceededError(HoldfastError, TimeoutError):
    """A wait took too long."""


class DataLossError(HoldfastError, ValueError):
    """Stored bytes are damaged."""


class LostFileError(DataLossError, FileNotFoundError):
    """A file that was saved is gone."""


class InternalError(HoldfastError, RuntimeError):
    """A bug in holdfast."""
