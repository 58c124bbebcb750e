"""What stands for the names of emergency checkpoints, until they work here."""

from __future__ import annotations

from typing import Any, NoReturn


class Refused:
    """A class that cannot be made yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Refuses.

        Raises:
            NotImplementedError: always.
        """
        _refuse(f"{type(self).__module__}.{type(self).__qualname__}")


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what} is not supported yet: holdfast has no emergency checkpoints."
        " Save with holdfast.orbax.CheckpointManager, or call Orbax for these."
    )


def refused(module: str, name: str) -> Any:
    """A class or a function that cannot be called yet.

    Args:
        module: its module.
        name: its name; that of a class begins with a capital.
    """
    about = "Not supported yet: calling it says so."
    if name[0].isupper():
        return type(name, (Refused,), {"__module__": module, "__doc__": about})

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"{module}.{name}")

    function.__module__, function.__doc__ = module, about
    function.__name__ = function.__qualname__ = name
    return function
