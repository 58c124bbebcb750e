"""Errors of the original's classes that also say which condition they are.

Megatron Core raises AssertionError, KeyError and the like where a check of its
own is missing. Errors here are instances of that class, so that programs that
catch it still do, and of CheckpointingException, with a `code`.
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
    """An error of class `kind` with that text, and a `code`."""
    if kind is CheckpointingException:
        return CheckpointingException(message, code=code)
    chosen: Any = kind
    made: Exception = _both(chosen)(message, code=code)
    return made


@contextlib.contextmanager
def from_engine() -> Iterator[None]:
    """Raises the conditions that the engine finds as the original does."""
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
    """A class that is `kind` and CheckpointingException, with kind's name."""
    return type(
        kind.__name__,
        (CheckpointingException, kind),
        {
            # Those of json.JSONDecodeError take other arguments.
            "__init__": _init,
            # KeyError would print the representation of its text.
            "__str__": lambda self: str(self.args[0]) if self.args else "",
            "__reduce__": lambda self: (coded, (self.code, str(self), kind)),
            "__module__": kind.__module__,
        },
    )
