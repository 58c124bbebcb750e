"""Deprecated names of functions and methods."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def older_name(old: str, function: Callable[..., T]) -> Callable[..., T]:
    """Returns a function under its old name, which warns of its deprecation.

    Args:
        old: the old name.
        function: the function under its new name.
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
    """Returns a deprecated method, which warns and calls a method's new name.

    Subclasses may override the method under its new name.

    Args:
        old: the old name.
        new: the new name.
    """

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, new)(*args, **kwargs)

    method.__name__ = new
    return older_name(old, method)
