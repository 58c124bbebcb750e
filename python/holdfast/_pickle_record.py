"""Stand-ins for objects of classes that holdfast does not know."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(eq=False)
class PickleRecord:
    """An object in a pickle, as the pickle describes it; nothing was run.

    `module` and `name` are its class's. `args` are the arguments it was to be
    made with, `state` the state it was to get (often its `__dict__`), `items`
    and `pairs` the items to append and to set. `kind` is "record", "enum" (one
    argument: the member's value, or with `by_name` its name) or "global" (a
    class or function that is only mentioned).

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
