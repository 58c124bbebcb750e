"""The state of a save, for handlers: whether the save continues after the
handler's call has returned, and whether it has been cancelled."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

from holdfast import errors

_IN_BACKGROUND: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "holdfast_save_in_background", default=False
)


def is_in_background() -> bool:
    """Returns whether the handler's `save` must copy what the caller may
    change."""
    return _IN_BACKGROUND.get()


@contextlib.contextmanager
def background(copies: bool) -> Iterator[None]:
    """Tells handlers in the block that the save continues in the background.

    Args:
        copies: whether handlers must copy what the caller may change.
    """
    token = _IN_BACKGROUND.set(copies)
    try:
        yield
    finally:
        _IN_BACKGROUND.reset(token)


_IS_CANCELLED: contextvars.ContextVar[Callable[[], bool] | None] = (
    contextvars.ContextVar("holdfast_save_is_cancelled", default=None)
)


@contextlib.contextmanager
def cancellable(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Makes writes in the block stop once `is_cancelled()` returns True."""
    token = _IS_CANCELLED.set(is_cancelled)
    try:
        yield
    finally:
        _IS_CANCELLED.reset(token)


def check_cancelled() -> None:
    """Raises if the save was cancelled.

    Raises:
        CancelledError: the save was cancelled.
    """
    is_cancelled = _IS_CANCELLED.get()
    if is_cancelled is not None and is_cancelled():
        raise errors.CancelledError("the save was cancelled")


def cancelling_progress() -> Callable[[str, int, int], None] | None:
    """Returns the engine's `progress` callback for a save that may be
    cancelled, or None."""
    if _IS_CANCELLED.get() is None:
        return None
    return lambda phase, done_bytes, total_bytes: check_cancelled()
