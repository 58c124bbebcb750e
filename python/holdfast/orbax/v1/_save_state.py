"""Whether the save that calls a handler goes on after its call returns."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_IN_BACKGROUND: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "holdfast_save_in_background", default=False
)


def is_in_background() -> bool:
    """True: copy what may change before the handler's `save` returns."""
    return _IN_BACKGROUND.get()


@contextlib.contextmanager
def background(copies: bool) -> Iterator[None]:
    """Within the block handlers save for the background.

    Args:
        copies: they are to copy what may change.
    """
    token = _IN_BACKGROUND.set(copies)
    try:
        yield
    finally:
        _IN_BACKGROUND.reset(token)
