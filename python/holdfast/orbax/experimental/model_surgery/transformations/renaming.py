"""Renames parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from holdfast.orbax.experimental.model_surgery.transformations._arrays import (
    only_one,
)
from holdfast.orbax.experimental.model_surgery.transformations.types import (
    Transformation,
)

__all__ = ["Transformation", "rename_by_regex"]


def rename_by_regex(rules: Sequence[tuple[str, str]]) -> Transformation:
    """Returns a transformation that replaces parts of names.

    Args:
        rules: patterns and replacements, applied to each name in order.
    """
    patterns = [(re.compile(pattern), new) for pattern, new in rules]

    def transform(*source_array_trees: Any) -> Any:
        params = only_one(source_array_trees, "rename")
        result = {}
        for key, value in params.items():
            for pattern, new in patterns:
                key = pattern.sub(new, key)
            result[key] = value
        return result

    return transform
