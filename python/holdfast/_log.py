"""The logger of the package: `logging.getLogger("holdfast")`."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["enable_logging", "log", "say_ignored"]

log = logging.getLogger("holdfast")

_said: set[str] = set()


class _Shown(logging.StreamHandler):  # type: ignore[type-arg]
    """The single handler that `enable_logging` adds."""


def enable_logging(level: int | str = logging.INFO) -> None:
    """Logs holdfast's work to standard error, including background saves.

    A program that configures `logging` itself does not need this call: the
    logger is `logging.getLogger("holdfast")`. A second call changes the level.

    Args:
      level: a `logging` level. "INFO" logs a line when a save begins, and a
        line with bytes and seconds when a save or load ends.

    Raises:
      ValueError: `logging` has no level of that name.
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
    """Warns, once per program, about an option that has no effect.

    `given` is the option's value; None and False are not reported. `why` ends
    the sentence "... has no effect: ".
    """
    if given is None or given is False or option in _said:
        return
    _said.add(option)
    log.warning("The option %s has no effect: %s.", option, why)
