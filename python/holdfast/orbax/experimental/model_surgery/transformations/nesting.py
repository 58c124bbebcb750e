"""Makes trees of flat dicts."""

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
    """A transformation that makes a tree of a flat dict.

    Args:
        separator: between the keys in a name.
        inplace: remove from the dict what has been taken.
        target: gives the structure; names that it lacks are left out, and its
            leaves stay where there is no parameter.
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
