"""Engine errors as the exceptions that Orbax's callers know."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from holdfast import errors

# TensorStore reports all of these as ValueError, the code in front.
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
    """The error that Orbax raises when the engine raised `error` while reading.

    Errors that say something about this process (memory, cancellation) are
    returned as they are.
    """
    for kind, code in _CODE_OF_CLASS.items():
        if isinstance(error, kind):
            text = f"{code}: {error}"
            # A ValueError too, which those can tell who may not pass it over.
            is_damage = kind is errors.DataLossError
            return errors.DataLossError(text) if is_damage else ValueError(text)
    return error


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Turns the engine's errors in its block into Orbax's."""
    try:
        yield
    except errors.HoldfastError as error:
        translated = reading_error(error)
        if translated is error:
            raise
        raise translated from error


@contextlib.contextmanager
def as_builtin() -> Iterator[None]:
    """Turns the engine's errors in its block into the classes that they stand
    for: programs may compare those, which are Python's in Orbax."""
    try:
        yield
    except errors.NotFoundError as error:
        raise FileNotFoundError(str(error)) from None
    except errors.InvalidArgumentError as error:
        raise ValueError(str(error)) from None
