"""Stand-ins for objects of classes that holdfast does not know."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(eq=False)
class PickleRecord:
    """An object in a pickle, as the pickle describes it. None of its code runs.

    `module` and `name` identify the object's class. `args` are the arguments
    that create the object, `state` is the state to set (often its `__dict__`),
    `items` and `pairs` are the items to append and to set. `kind` is "record",
    "enum" (with one argument: the member's value, or with `by_name` its name)
    or "global" (a class or function that is only mentioned).

    A record is equal only to itself.
    """

    module: str
    name: str
    args: tuple[Any, ...] = ()
    state: Any = None
    items: list[Any] = dataclasses.field(default_factory=list)
    pairs: list[tuple[Any, Any]] = dataclasses.field(default_factory=list)
    kind: str = "record"
    is_called: bool = False
    by_name: bool = False
    has_state: bool = False
