"""Repeats the elements of parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from holdfast._log import log
from holdfast.orbax.experimental.model_surgery.transformations._arrays import (
    call_numpy,
    only_one,
)
from holdfast.orbax.experimental.model_surgery.transformations.types import (
    Transformation,
)

__all__ = ["Transformation", "repeat_by_keys", "repeat_by_pattern"]


def repeat_by_pattern(
    *, pattern: str, dimension: int, repeat_count: int
) -> Transformation:
    """A transformation that repeats elements of some parameters.

    Args:
        pattern: matched at the beginning of each name.
        dimension: along which.
        repeat_count: of each element.
    """
    compiled = re.compile(pattern)

    def transform(*source_array_trees: Any) -> Any:
        params = dict(only_one(source_array_trees, "repeat"))
        for key in params:
            if compiled.match(key):
                params[key] = _repeat(params[key], dimension, repeat_count)
        return params

    return transform


def repeat_by_keys(
    *, target_keys: Sequence[str], dimension: int, repeat_count: int
) -> Transformation:
    """A transformation that repeats elements of named parameters.

    Args:
        target_keys: their names; unknown ones are left out, with a warning.
        dimension: along which.
        repeat_count: of each element.
    """

    def transform(*source_array_trees: Any) -> Any:
        params = dict(only_one(source_array_trees, "repeat"))
        missing = [key for key in target_keys if key not in params]
        if missing:
            log.warning(
                "Could not repeat keys %s. They were not found in params.",
                missing,
            )
        for key in target_keys:
            if key in params:
                params[key] = _repeat(params[key], dimension, repeat_count)
        return params

    return transform


def _repeat(value: Any, dimension: int, count: int) -> Any:
    return call_numpy("repeat", [value], value, count, axis=dimension)
