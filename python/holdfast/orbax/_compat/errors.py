"""Translates the engine's errors to the exceptions that callers of Orbax
expect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from holdfast import errors

# TensorStore reports these errors as ValueError; the message begins with the
# code.
_CODE_OF_CLASS: dict[type[Exception], str] = {
    errors.DataLossError: "DATA_LOSS",
    errors.FailedPreconditionError: "FAILED_PRECONDITION",
    errors.InternalError: "INTERNAL",
    errors.InvalidArgumentError: "INVALID_ARGUMENT",
    errors.NotFoundError: "NOT_FOUND",
    errors.OutOfRangeError: "OUT_OF_RANGE",
    errors.PermissionDeniedError: "PERMISSION_DENIED",
    errors.UnavailableError: "UNAVAILABLE",
    errors.UnimplementedError: "UNIMPLEMENTED",
}


def reading_error(error: Exception) -> Exception:
    """Returns the error that Orbax raises for the engine's `error` in a read.

    Errors about this process (memory, cancellation) are returned unchanged.
    """
    for kind, code in _CODE_OF_CLASS.items():
        if isinstance(error, kind):
            text = f"{code}: {error}"
            # DataLossError is a ValueError too, and tells callers of damage.
            is_damage = kind is errors.DataLossError
            return errors.DataLossError(text) if is_damage else ValueError(text)
    return error


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Translates the engine's errors in the block to Orbax's errors."""
    try:
        yield
    except errors.HoldfastError as error:
        translated = reading_error(error)
        if translated is error:
            raise
        raise translated from error


@contextlib.contextmanager
def as_builtin() -> Iterator[None]:
    """Translates the engine's errors in the block to built-in classes.

    Programs may compare classes, and Orbax raises built-in classes."""
    try:
        yield
    except errors.NotFoundError as error:
        raise FileNotFoundError(str(error)) from None
    except errors.InvalidArgumentError as error:
        raise ValueError(str(error)) from None
