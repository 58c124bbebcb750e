"""Classes of the real Orbax that stand for ours.

A library's handler that derives from Orbax's CheckpointHandler serves a
program of holdfast as well as one that derives from ours: it has the methods,
and only these count. Orbax is never imported for that.
"""

from __future__ import annotations

import sys
from typing import Any, TypeVar

_ClassT = TypeVar("_ClassT", bound=type)

_ORBAX = "orbax.checkpoint"


def derives_from(cls: type, name: str) -> Any:
    """The answer of `__subclasshook__`: True or NotImplemented.

    Args:
        cls: the class in question.
        name: the class of Orbax, whatever module has it.
    """
    is_orbaxs = any(
        base.__name__ == name and base.__module__.startswith(f"{_ORBAX}.")
        for base in cls.__mro__
    )
    return True if is_orbaxs else NotImplemented


def stands_for_orbaxs(cls: _ClassT) -> _ClassT:
    """A class decorator: what derives from Orbax's class of the same name
    counts as derived from this one as well."""

    def hook(asked: type, other: type, /) -> Any:
        if asked is cls:
            return derives_from(other, cls.__name__)
        return NotImplemented

    setattr(cls, "__subclasshook__", classmethod(hook))  # noqa: B010
    return cls


def orbax_args_registry() -> Any | None:
    """Orbax's own table of handlers and argument classes, once imported.

    `register_with_handler` of a library that imports Orbax has filled it.
    """
    module = sys.modules.get(f"{_ORBAX}.checkpoint_args")
    is_orbaxs = getattr(module, "__name__", "").startswith(f"{_ORBAX}.")
    return module if is_orbaxs else None
