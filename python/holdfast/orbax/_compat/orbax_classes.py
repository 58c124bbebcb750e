"""Orbax's own classes, which count as the classes here.

A library's handler that derives from Orbax's CheckpointHandler works with
holdfast like a handler that derives from the class here, because it has the
same methods. This never imports Orbax.
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
    """Decorates a class: classes that derive from Orbax's class of the same
    name count as derived from it."""

    def hook(asked: type, other: type, /) -> Any:
        if asked is cls:
            return derives_from(other, cls.__name__)
        return NotImplemented

    setattr(cls, "__subclasshook__", classmethod(hook))  # noqa: B010
    return cls


def orbax_args_registry() -> Any | None:
    """Returns Orbax's own table of handlers and argument classes, or None if
    Orbax was not imported.

    Libraries that import Orbax fill it with `register_with_handler`.
    """
    module = sys.modules.get(f"{_ORBAX}.checkpoint_args")
    is_orbaxs = getattr(module, "__name__", "").startswith(f"{_ORBAX}.")
    return module if is_orbaxs else None
