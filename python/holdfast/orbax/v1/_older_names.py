"""Names that functions had before."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def older_name(old: str, function: Callable[..., T]) -> Callable[..., T]:
    """A function by the name that it had before, which says so.

    Args:
        old: that name.
        function: has the newer one.
    """
    new = function.__name__

    def call(*args: Any, **kwargs: Any) -> T:
        warnings.warn(
            f"{old} is deprecated. Use `{new}` instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    call.__doc__ = f"Deprecated: `{new}`."
    call.__module__ = function.__module__
    call.__name__ = call.__qualname__ = old
    return call


def older_method(old: str, new: str) -> Callable[..., Any]:
    """The same, of a method; subclasses may have their own of the newer name.

    Args:
        old: the name that it had before.
        new: its newer name.
    """

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, new)(*args, **kwargs)

    method.__name__ = new
    return older_name(old, method)
