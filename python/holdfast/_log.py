"""The logger of the package: `logging.getLogger("holdfast")`."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["log", "say_ignored"]

log = logging.getLogger("holdfast")

_said: set[str] = set()


def say_ignored(option: str, given: Any, why: str) -> None:
    """Warns, once in a program, of an option that has no effect.

    `given` is what the caller wants; None and False want nothing. `why` ends
    the sentence "... has no effect: ".
    """
    if given is None or given is False or option in _said:
        return
    _said.add(option)
    log.warning("The option %s has no effect: %s.", option, why)
