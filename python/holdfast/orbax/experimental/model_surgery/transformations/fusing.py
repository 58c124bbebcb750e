"""Fuses parameters along one of their axes."""

from __future__ import annotations

import collections
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

__all__ = ["Transformation", "fuse_by_keys", "fuse_by_pattern"]


def fuse_by_pattern(
    *,
    pattern: str,
    unique_parts: Sequence[str],
    fused_unique_part: str,
    axis: int = 0,
) -> Transformation:
    """Returns a transformation that fuses parameters with similar names.

    Args:
        pattern: matched at the beginning of each name.
        unique_parts: the parts in which the names differ, in the order of
            concatenation; an incomplete group is left unchanged, with a
            warning.
        fused_unique_part: replaces the differing part in the fused name.
        axis: the axis of the concatenation.
    """
    compiled = re.compile(pattern)
    part = re.compile("|".join(map(re.escape, unique_parts)))

    def transform(*source_array_trees: Any) -> Any:
        params = dict(only_one(source_array_trees, "fuse"))
        groups: dict[str, dict[str, str]] = collections.defaultdict(dict)
        for key in params:
            match = part.search(key) if compiled.match(key) else None
            if match is not None:
                fused = part.sub(lambda _: fused_unique_part, key)
                groups[fused][match.group(0)] = key
        for fused, found in groups.items():
            if len(found) == len(unique_parts):
                keys = [found[name] for name in unique_parts]
                _fuse(params, keys, fused, axis)
            else:
                log.warning(
                    "Could not fuse %s. Found parts: %s, expected: %s",
                    fused,
                    list(found),
                    unique_parts,
                )
        return params

    return transform


def fuse_by_keys(
    *, source_keys: Sequence[str], target_key: str, axis: int = 0
) -> Transformation:
    """Returns a transformation that fuses the named parameters.

    Args:
        source_keys: the parameters' names, in the order of concatenation; if
            some are missing, the others are left unchanged, with a warning.
        target_key: the new name.
        axis: the axis of the concatenation.
    """

    def transform(*source_array_trees: Any) -> Any:
        params = dict(only_one(source_array_trees, "fuse"))
        found = [key for key in source_keys if key in params]
        if len(found) == len(source_keys):
            _fuse(params, source_keys, target_key, axis)
        elif found:
            log.warning(
                "Could not fuse %s. Found keys: %s, expected: %s",
                target_key,
                found,
                source_keys,
            )
        return params

    return transform


def _fuse(
    params: dict[str, Any], keys: Sequence[str], fused: str, axis: int
) -> None:
    values = [params[key] for key in keys]
    result = call_numpy("concatenate", values, values, axis=axis)
    for key in keys:
        del params[key]
    params[fused] = result
