"""The logger of the package: `logging.getLogger("holdfast")`."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["enable_logging", "log", "say_ignored"]

log = logging.getLogger("holdfast")

_said: set[str] = set()


class _Shown(logging.StreamHandler):  # type: ignore[type-arg]
    """The handler of `enable_logging`, of which there is one."""


def enable_logging(level: int | str = logging.INFO) -> None:
    """Shows what holdfast does on standard error, background saves too.

    A program that configures `logging` itself needs no call: the logger is
    `logging.getLogger("holdfast")`. Called again, it changes the level.

    Args:
      level: as `logging` names levels: "INFO" has a line when a save begins
        and one when a save or a load ends, with bytes and seconds.

    Raises:
      ValueError: no level of `logging` has that name.
    """
    log.setLevel(level)
    if any(isinstance(handler, _Shown) for handler in log.handlers):
        return
    handler = _Shown()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s")
    )
    log.addHandler(handler)
    log.propagate = False


def say_ignored(option: str, given: Any, why: str) -> None:
    """Warns, once in a program, of an option that has no effect.

    `given` is what the caller wants; None and False want nothing. `why` ends
    the sentence "... has no effect: ".
    """
    if given is None or given is False or option in _said:
        return
    _said.add(option)
    log.warning("The option %s has no effect: %s.", option, why)
