"""Converts flat dicts to trees."""

from __future__ import annotations

from typing import Any

from holdfast._log import log
from holdfast.orbax import tree_paths
from holdfast.orbax.experimental.model_surgery.transformations.types import (
    Transformation,
)

__all__ = ["Transformation", "unflatten"]


def unflatten(
    separator: str = ".", *, inplace: bool = False, target: Any = None
) -> Transformation:
    """Returns a transformation that converts a flat dict to a tree.

    Args:
        separator: separates the keys in a name.
        inplace: removes entries from the dict as they are used.
        target: determines the structure. Parameters that the target lacks are
            left out; the target's leaves without a parameter do not change.
    """

    def transform(*source_array_trees: Any) -> Any:
        assert len(source_array_trees) == 1, (
            "Can only unflatten parameters in a single parameter structure."
        )
        params = source_array_trees[0]
        if target is not None:
            if not (inplace and isinstance(params, dict)):
                params = dict(params)
            _add_missing(params, target, separator)
        return tree_paths.from_flat_dict(
            params, target=target, sep=separator, inplace=inplace
        )

    return transform


def _add_missing(params: dict[str, Any], target: Any, separator: str) -> None:
    flat = tree_paths.to_flat_dict(target, sep=separator)
    missing = [key for key in flat if key not in params]
    if missing:
        log.warning(
            "The following %d keys were missing in the checkpoint and will"
            " retain their default values: %s",
            len(missing),
            missing[:10],
        )
    params.update({key: flat[key] for key in missing})
