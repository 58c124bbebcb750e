"""Lets subclasses of Orbax's own classes count as subclasses of holdfast's.

A library's handler that derives from Orbax's CheckpointHandler then works with
holdfast, because it has the same methods. This module never imports Orbax.
"""

from __future__ import annotations

import sys
from typing import Any, TypeVar

_ClassT = TypeVar("_ClassT", bound=type)

_ORBAX = "orbax.checkpoint"


def derives_from(cls: type, name: str) -> Any:
    """Returns the result of `__subclasshook__`: True or NotImplemented.

    Args:
        cls: the class to check.
        name: the name of Orbax's class, in any module.
    """
    is_orbaxs = any(
        base.__name__ == name and base.__module__.startswith(f"{_ORBAX}.")
        for base in cls.__mro__
    )
    return True if is_orbaxs else NotImplemented


def stands_for_orbaxs(cls: _ClassT) -> _ClassT:
    """Class decorator: Orbax's class of the same name counts as this class.

    Subclasses of Orbax's class then pass `issubclass` with the decorated class.
    """

    def hook(asked: type, other: type, /) -> Any:
        if asked is cls:
            return derives_from(other, cls.__name__)
        return NotImplemented

    setattr(cls, "__subclasshook__", classmethod(hook))  # noqa: B010
    return cls


def orbax_args_registry() -> Any | None:
    """Returns Orbax's own module of handlers and argument classes.

    Libraries that import Orbax call its `register_with_handler`. Returns None
    if Orbax was not imported.
    """
    module = sys.modules.get(f"{_ORBAX}.checkpoint_args")
    is_orbaxs = getattr(module, "__name__", "").startswith(f"{_ORBAX}.")
    return module if is_orbaxs else None
