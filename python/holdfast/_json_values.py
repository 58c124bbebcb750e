"""Encodes values supplied by users as JSON: metadata, metrics and documents."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

__all__ = ["json_text"]


def json_text(document: Any, what: str) -> str:
    """Works like `json.dumps`, and accepts numpy, jax and torch scalars too.

    Keys that are not strings become strings, as in `json`.

    Args:
      document: a value that JSON can represent.
      what: the document's name in an error.

    Raises:
      TypeError: JSON cannot represent a value or key (the error names its
        place), or two keys become the same string.
      ValueError: the document contains itself.
    """
    try:
        text = json.dumps(document, default=_number)
    except TypeError as error:
        raise TypeError(_refusal(document, what) or str(error)) from error
    _check_keys(document, what)
    return text


def _number(value: Any) -> Any:
    """Returns the Python number for an array library's scalar.

    Raises TypeError for anything else.
    """
    if isinstance(value, np.generic) or getattr(value, "shape", None) == ():
        number = np.asarray(value)
        if number.dtype.kind in "biuf":
            return number.item()
        if number.dtype.kind == "V":  # an ml_dtypes scalar
            return float(number)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _check_keys(value: Any, where: str) -> None:
    """Raises TypeError if two keys of a dict become the same string."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            texts: dict[str, Any] = {}
            for key in value:
                text = next(iter(json.loads(json.dumps({key: 0}))))
                if text in texts:
                    raise TypeError(
                        f"{where}: the keys {texts[text]!r} and {key!r} become"
                        f" the same string in JSON; rename one"
                    )
                texts[text] = key
        for key, member in value.items():
            _check_keys(member, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for i, member in enumerate(value):
            _check_keys(member, f"{where}[{i}]")


def _refusal(value: Any, where: str) -> str:
    """Returns the error message for the first value or key that JSON cannot
    represent."""
    if isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(key, (str, int, float, bool, type(None))):
                return (
                    f"{where}: the key {key!r} is a {type(key).__name__}, and"
                    " JSON's keys are strings; use str(key)"
                )
            if found := _refusal(member, f"{where}[{key!r}]"):
                return found
        return ""
    if isinstance(value, (list, tuple)):
        parts = (_refusal(m, f"{where}[{i}]") for i, m in enumerate(value))
        return next(filter(None, parts), "")
    try:
        json.dumps(value, default=_number)
    except TypeError:
        return (
            f"{where}: Object of type {type(value).__name__} is not JSON"
            " serializable; give a number, a text, a list (an array's tolist())"
            " or a dict, or save it as an array of an item"
        )
    return ""
