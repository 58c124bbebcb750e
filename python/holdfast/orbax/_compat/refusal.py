"""Stand-ins for those names of Orbax that do not work."""

from __future__ import annotations

from typing import Any, NoReturn


class Refused:
    """A class that cannot be made."""

    _why = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Refuses.

        Raises:
            NotImplementedError: always.
        """
        refuse(f"{type(self).__module__}.{type(self).__qualname__}", self._why)


def refuse(what: str, why: str) -> NoReturn:
    """Says that a name does not work.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"{what} is not supported: {why}")


def refused(module: str, name: str, why: str) -> Any:
    """A class or a function that cannot be called.

    Args:
        module: its module.
        name: its name; that of a class begins with a capital.
        why: it is not there, and what to use instead.
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
