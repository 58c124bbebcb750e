"""Cuts arrays so that every rank writes only complete chunks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from holdfast import errors

__all__ = ["write_shapes"]

# The most chunks of an array, even if borders between ranks force thin chunks.
_CHUNK_COUNT_MAX = 1 << 20


def write_shapes(plans: Iterable[Any]) -> dict[str, tuple[int, ...]]:
    """Returns for each tensor the chunk extents that divide every border
    between its parts.

    Args:
      plans: torch's SavePlans of all ranks.

    Returns:
      The extents, in elements, for each tensor that has such borders: no border
      cuts a box of these extents, counted from the origin.

    Raises:
      InvalidArgumentError: a tensor is spread so unevenly that it would need
        more than a million chunks; the error names the tensor.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    borders: dict[str, list[set[int]]] = {}
    for plan in plans:
        for item in plan.items:
            if item.tensor_data is None:
                continue
            shape = tuple(item.tensor_data.size)
            chunk = item.tensor_data.chunk
            if chunk is None or math.prod(chunk.sizes) == 0:
                continue
            name = item.index.fqn
            shapes[name] = shape
            axes = borders.setdefault(name, [set() for _ in shape])
            for axis, start, extent in zip(
                axes, chunk.offsets, chunk.sizes, strict=True
            ):
                axis.update((start, start + extent))
    found = {}
    for name, shape in shapes.items():
        extents = tuple(
            math.gcd(*(axis - {extent})) or extent
            for axis, extent in zip(borders[name], shape, strict=True)
        )
        if extents == shape:
            continue
        _check_count(name, shape, extents)
        found[name] = extents
    return found


def _check_count(
    name: str, shape: tuple[int, ...], extents: tuple[int, ...]
) -> None:
    count = math.prod(
        -(-whole // extent)
        for whole, extent in zip(shape, extents, strict=True)
    )
    if count > _CHUNK_COUNT_MAX:
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: the largest chunk that fits the borders between"
            f" its ranks' parts is {extents}, and would cut {shape} into"
            f" {count} chunks; shard it evenly"
        )
