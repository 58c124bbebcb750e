"""Loggers, and those that other loggers are put together of."""

from __future__ import annotations

import abc
import sys
from typing import Any

from holdfast._log import log


class AbstractLogger(abc.ABC):
    """Hears what a manager has done."""

    @abc.abstractmethod
    def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Takes an entry.

        Args:
            msg: a dict, such as the fields of a SaveStepStatistics.
            *args: more about it.
            **kwargs: more about it, by name.
        """


class StandardLogger(AbstractLogger):
    """Hands entries to Python's logging."""

    def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        # absl's own, where the program has it: it may write elsewhere.
        absl_logging: Any = sys.modules.get("absl.logging", log)
        absl_logging.info(msg, *args, **kwargs)


class CompositeLogger(AbstractLogger):
    """Hands entries to several loggers."""

    def __init__(self, *loggers: AbstractLogger) -> None:
        """Makes one.

        Args:
            *loggers: others than CompositeLoggers; anything else is left out,
                with a warning.
        """
        self._known_loggers = [x for x in loggers if _is_usable(x)]

    def log_entry(self, entry: Any) -> None:
        """Takes an entry.

        Args:
            entry: a dict, such as the fields of a SaveStepStatistics.
        """
        for logger in self._known_loggers:
            logger.log_entry(entry)


def _is_usable(logger: Any) -> bool:
    if not isinstance(logger, AbstractLogger):
        log.warning("CompositeLogger only supports AbstractLoggers.")
        return False
    if isinstance(logger, CompositeLogger):
        log.warning("CompositeLogger doesn't support its own kind.")
        return False
    return True
