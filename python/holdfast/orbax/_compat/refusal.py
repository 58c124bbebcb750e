"""Placeholders for Orbax names that are not supported."""

from __future__ import annotations

from typing import Any, NoReturn


class Refused:
    """A class whose construction always raises."""

    _why = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Always raises.

        Raises:
            NotImplementedError: always.
        """
        refuse(f"{type(self).__module__}.{type(self).__qualname__}", self._why)


def refuse(what: str, why: str) -> NoReturn:
    """Raises the error for a name that is not supported.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"{what} is not supported: {why}")


def refused(module: str, name: str, why: str) -> Any:
    """Returns a class or a function that raises when called.

    Args:
        module: the name's module.
        name: the name; the name of a class begins with a capital letter.
        why: why it is not supported, and what to use instead.
    """
    about = "Not supported: calling it says so."
    if name[0].isupper():
        names = {"__module__": module, "__doc__": about, "_why": why}
        return type(name, (Refused,), names)

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(f"{module}.{name}", why)

    function.__module__, function.__doc__ = module, about
    function.__name__ = function.__qualname__ = name
    return function
