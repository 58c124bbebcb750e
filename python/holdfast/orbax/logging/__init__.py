"""Loggers of a manager's saves and restores: `orbax.checkpoint.logging`."""

from __future__ import annotations

import abc
import logging as _logging
from typing import Any

from holdfast.orbax._later import attribute_error
from holdfast.orbax.logging import step_statistics

__all__ = [
    "AbstractLogger",
    "CompositeLogger",
    "StandardLogger",
    "step_statistics",
]


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
        _logging.info(msg)


class CompositeLogger(AbstractLogger):
    """Hands entries to several loggers."""

    def __init__(self, *loggers: AbstractLogger) -> None:
        """Makes one.

        Args:
            *loggers: others than CompositeLoggers; what is no logger is left
                out, with a warning.
        """
        self._known_loggers = [x for x in loggers if _is_usable(x)]

    def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        for logger in self._known_loggers:
            logger.log_entry(msg, *args, **kwargs)


def _is_usable(logger: Any) -> bool:
    if not isinstance(logger, AbstractLogger):
        _logging.warning("CompositeLogger only supports AbstractLoggers.")
        return False
    if isinstance(logger, CompositeLogger):
        _logging.warning("CompositeLogger doesn't support its own kind.")
        return False
    return True


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, {"CloudLogger", "CloudLoggerOptions"})
