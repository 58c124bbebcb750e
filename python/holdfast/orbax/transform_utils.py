"""Transformations of trees during a restore come with a later release.

The names exist, so that programs that only sometimes use them can be imported;
using one raises NotImplementedError.
"""

from __future__ import annotations

from typing import Any, NoReturn

from holdfast.orbax._later import attribute_error, not_implemented


class Transform:
    """Not part of this release: making one raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise not_implemented(
            f"holdfast.orbax.transform_utils.{type(self).__name__}"
        )


class RestoreTransform(Transform):
    """Not part of this release: making one raises NotImplementedError."""


def apply_transformations(*args: Any, **kwargs: Any) -> NoReturn:
    """Not part of this release.

    Raises:
        NotImplementedError: always.
    """
    raise not_implemented(
        "holdfast.orbax.transform_utils.apply_transformations"
    )


def merge_trees(*trees: Any, target: Any | None = None) -> Any:
    """One tree with the leaves of all; later trees win.

    Args:
        *trees: trees of dicts.
        target: gives the result's structure; None: dicts.
    """
    from holdfast.orbax.tree_paths import from_flat_dict, to_flat_dict

    flat: dict[Any, Any] = {}
    for tree in trees:
        flat.update(to_flat_dict(tree, keep_empty_nodes=True))
    return from_flat_dict(flat, target=target)


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, ())
