"""The interface of loggers, and basic loggers."""

from __future__ import annotations

import abc
import sys
from typing import Any

from holdfast._log import log


class AbstractLogger(abc.ABC):
    """Receives entries about what a manager has done."""

    @abc.abstractmethod
    def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Logs an entry.

        Args:
            msg: a dict, such as the fields of a SaveStepStatistics.
            *args: more about the entry.
            **kwargs: more about the entry, by name.
        """


class StandardLogger(AbstractLogger):
    """Logs entries with Python's logging."""

    def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        # Use absl's logging if the program has it; it may write elsewhere.
        absl_logging: Any = sys.modules.get("absl.logging", log)
        absl_logging.info(msg, *args, **kwargs)


class CompositeLogger(AbstractLogger):
    """Passes entries to several loggers."""

    def __init__(self, *loggers: AbstractLogger) -> None:
        """Creates a logger.

        Args:
            *loggers: loggers that are not CompositeLoggers. Any other argument
                is ignored, with a warning.
        """
        self._known_loggers = [x for x in loggers if _is_usable(x)]

    def log_entry(self, entry: Any) -> None:
        """Passes an entry to all loggers.

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
