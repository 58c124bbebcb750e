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
    """Returns a transformation that repeats elements of matching parameters.

    Args:
        pattern: matched at the beginning of each name.
        dimension: the dimension along which elements are repeated.
        repeat_count: how often each element is repeated.
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
    """Returns a transformation that repeats elements of the named parameters.

    Args:
        target_keys: the parameters' names; unknown names are skipped, with a
            warning.
        dimension: the dimension along which elements are repeated.
        repeat_count: how often each element is repeated.
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
