"""What stands for those names of emergency checkpoints that do not work."""

from __future__ import annotations

from typing import Any, NoReturn


class Refused:
    """A class that cannot be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Refuses.

        Raises:
            NotImplementedError: always.
        """
        _refuse(f"{type(self).__module__}.{type(self).__qualname__}")


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what} is not supported: it needs Pathways, a service of Google's or"
        " the files of Orbax's own local checkpoints. Use emergency."
        "checkpoint_manager.CheckpointManager or holdfast.TieredManager, or"
        " call Orbax for these."
    )


def refused(module: str, name: str) -> Any:
    """A class or a function that cannot be called.

    Args:
        module: its module.
        name: its name; that of a class begins with a capital.
    """
    about = "Not supported: calling it says so."
    if name[0].isupper():
        return type(name, (Refused,), {"__module__": module, "__doc__": about})

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"{module}.{name}")

    function.__module__, function.__doc__ = module, about
    function.__name__ = function.__qualname__ = name
    return function
