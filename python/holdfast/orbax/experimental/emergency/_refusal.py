"""What stands for the names of emergency checkpoints, until they work here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def refuse(what: str) -> NoReturn:
    """Says that something is not there yet.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"{what} is not supported yet: holdfast has no emergency checkpoints."
        " Save with holdfast.orbax.CheckpointManager, or call Orbax for these."
    )


class Refused:
    """A class that cannot be made yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Refuses.

        Raises:
            NotImplementedError: always.
        """
        refuse(f"{type(self).__module__}.{type(self).__qualname__}")


def refused_function(module: str, name: str) -> Callable[..., Any]:
    """A function that cannot be called yet.

    Args:
        module: its module.
        name: its name.
    """

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(f"{module}.{name}")

    function.__module__ = module
    function.__name__ = function.__qualname__ = name
    return function
