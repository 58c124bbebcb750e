"""Errors that have the original's classes, and a `code` for their condition.

Megatron Core raises AssertionError, KeyError and similar errors where it has no
check of its own. Errors here are instances of the same class, so programs that
catch that class still work, and also of CheckpointingException, with a `code`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import json
from collections.abc import Iterator
from typing import Any

from holdfast import _engine
from holdfast.megatron.core import CheckpointingException

__all__ = ["coded", "from_engine"]


def coded(code: str, message: str, kind: type[Exception]) -> Exception:
    """Returns an error of class `kind` with a message and a `code`."""
    if kind is CheckpointingException:
        return CheckpointingException(message, code=code)
    chosen: Any = kind
    made: Exception = _both(chosen)(message, code=code)
    return made


@contextlib.contextmanager
def from_engine() -> Iterator[None]:
    """Re-raises the engine's errors as the original's classes."""
    try:
        yield
    except _engine.MegatronError as error:
        code, class_name, text = error.args
        raise coded(code, text, _class_named(class_name)) from None


def _class_named(name: str) -> type[Exception]:
    if name == "JSONDecodeError":
        return json.JSONDecodeError
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        return kind
    return CheckpointingException


def _init(self: Any, *args: object, code: str = "") -> None:
    Exception.__init__(self, *args)
    self.code = code
    if isinstance(self, json.JSONDecodeError):
        self.msg, self.doc, self.pos = str(args[0]), "", 0
        self.lineno = self.colno = 1


@functools.cache
def _both(kind: Any) -> Any:
    """Returns a class that derives from CheckpointingException and `kind`."""
    return type(
        kind.__name__,
        (CheckpointingException, kind),
        {
            # json.JSONDecodeError's own __init__ has other arguments.
            "__init__": _init,
            # KeyError would print the repr of its message.
            "__str__": lambda self: str(self.args[0]) if self.args else "",
            "__reduce__": lambda self: (coded, (self.code, str(self), kind)),
            "__module__": kind.__module__,
        },
    )
