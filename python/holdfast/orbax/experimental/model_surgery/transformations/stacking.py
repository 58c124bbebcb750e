"""Stacks parameters whose names contain indices."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from holdfast._log import log
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax.experimental.model_surgery.transformations._arrays import (
    is_host_array,
    is_numpy,
    only_one,
)
from holdfast.orbax.experimental.model_surgery.transformations.types import (
    Transformation,
)

__all__ = ["Transformation", "stack"]

_Numbered = dict[int, Any]


def stack(
    pattern: str,
    *,
    expected_count: int | None = None,
    axis: int = 0,
    filler_mapping: Mapping[str, float] | None = None,
    default_filler: float | None = None,
    inplace: bool = False,
    sort_by_size: bool = True,
    target_sharding: Any | None = None,
) -> Transformation:
    """Returns a transformation that stacks parameters by index.

    Args:
        pattern: searched for in each name; its only group matches the index and
            is left out of the new name.
        expected_count: the length of each stack; None means the largest index
            plus one.
        axis: the new axis.
        filler_mapping: maps a pattern in a new name to the value that fills
            missing parameters.
        default_filler: fills missing parameters of all other names; if None,
            no parameter may be missing.
        inplace: removes entries from the dict as they are used.
        sort_by_size: begins with the largest stack.
        target_sharding: the sharding of the stacks; None means that stacks are
            not moved to other devices.
    """
    compiled = re.compile(pattern)

    def filler_of(name: str) -> float | None:
        for part, value in (filler_mapping or {}).items():
            if re.search(part, name):
                return value
        return default_filler

    def transform(*source_array_trees: Any) -> Any:
        params = only_one(source_array_trees, "stack")
        if inplace and not isinstance(params, dict):
            raise ValueError(
                "Inplace operations require parameters to be a dict."
            )
        groups, rest = _grouped(params, compiled, inplace)
        count = expected_count
        if count is None and groups:
            count = max(max(numbered) for numbered in groups.values()) + 1
        names = list(groups)
        if sort_by_size:
            names.sort(key=lambda name: -_nbytes(groups[name]))
        for name in names:
            numbered = groups.pop(name)
            filler = filler_of(name)
            assert count is not None
            if filler is None:
                rest[name] = _stacked(
                    name, numbered, count, axis, target_sharding
                )
            else:
                rest[name] = _filled(
                    name, numbered, count, axis, filler, target_sharding
                )
        return rest

    return transform


def _grouped(
    params: Any, pattern: re.Pattern[str], inplace: bool
) -> tuple[dict[str, _Numbered], dict[str, Any]]:
    """Groups matching parameters by new name and index.

    Also returns the parameters that do not match.

    Raises:
        ValueError: the pattern does not have exactly one group.
        AssertionError: the group is not an index, or an index occurs twice.
    """
    groups: dict[str, _Numbered] = collections.defaultdict(dict)
    rest = {}
    for key in list(params):
        match = pattern.search(key)
        if match is None:
            rest[key] = params[key]
            continue
        if len(match.groups()) != 1:
            raise ValueError(
                "pattern must have exactly 1 capture group for the index, got"
                f" {len(match.groups())}: {pattern.pattern}."
            )
        numbers = re.findall(r"\d+", match.group(1))
        assert len(numbers) == 1, (
            "Capture group must contain exactly one single positive integer,"
            f" got {match.group(1)}."
        )
        index = int(numbers[0])
        name = key[: match.start(1)] + key[match.end(1) :]
        assert index not in groups[name], (
            f"Duplicate index {index} found for base_key {name}"
        )
        groups[name][index] = params.pop(key) if inplace else params[key]
    return groups, rest


def _nbytes(numbered: _Numbered) -> int:
    return sum(value.nbytes for value in numbered.values())


def _stacked(
    name: str, numbered: _Numbered, count: int, axis: int, sharding: Any
) -> Any:
    """Stacks all parameters of a group.

    Raises:
        ValueError: a parameter is missing.
    """
    if sorted(numbered) != list(range(count)):
        raise ValueError(
            f'Stacking "{name}": Found keys {sorted(numbered)}, but expected'
            f" indices 0..{count - 1} when padding is disabled (no"
            " filler_mapping or default_filler was provided)."
        )
    values = [numbered[i] for i in range(count)]
    if any(map(is_numpy, values)):
        return _placed(np.stack(values, axis), sharding)
    jax = require_jax("stacking jax.Arrays")
    if sharding is not None and all(map(is_host_array, values)):
        return _stacked_by_device(jax, values, axis, sharding)
    return _placed(jax.numpy.stack(values, axis), sharding)


def _stacked_by_device(
    jax: Any, values: list[Any], axis: int, sharding: Any
) -> Any:
    """Stacks host arrays; each device receives only its part of the stack."""
    shape = list(values[0].shape)
    shape.insert(axis, len(values))

    def part(index: tuple[slice, ...]) -> Any:
        own = list(index)
        start, stop, _ = own.pop(axis).indices(len(values))
        parts = [np.asarray(v)[tuple(own)] for v in values[start:stop]]
        return np.stack(parts, axis)

    callback: Callable[[tuple[slice, ...]], Any] = part
    return jax.make_array_from_callback(tuple(shape), sharding, callback)


def _filled(
    name: str,
    numbered: _Numbered,
    count: int,
    axis: int,
    filler: float,
    sharding: Any,
) -> Any:
    """Stacks a group's parameters, with `filler` for missing parameters.

    Raises:
        ValueError: there are more than `count` parameters.
    """
    if len(numbered) > count:
        raise ValueError(
            f"Found {len(numbered)} items, but expected maximum {count} for"
            f" {name}"
        )
    sample = next(iter(numbered.values()))
    missing = np.full(sample.shape, filler).astype(sample.dtype)
    for index in (i for i in numbered if i >= count):
        log.warning(
            "Stacking %s: Found %d items, expected %d. Skipping index %d.",
            name,
            len(numbered),
            count,
            index,
        )
    if len(numbered) != count:
        log.warning(
            "Stacking %s: Found %d items, expected %d. Padded with %s.",
            name,
            len(numbered),
            count,
            filler,
        )
    values = [numbered.get(i, missing) for i in range(count)]
    if is_numpy(sample):
        return _placed(np.stack(values, axis), sharding)
    jnp = require_jax("stacking jax.Arrays").numpy
    return _placed(jnp.stack([jnp.asarray(v) for v in values], axis), sharding)


def _placed(value: Any, sharding: Any) -> Any:
    if sharding is None:
        return value
    return require_jax("a sharding").device_put(value, sharding)
