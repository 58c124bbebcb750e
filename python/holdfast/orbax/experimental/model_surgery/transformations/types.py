"""The type of transformations."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.orbax.tree_paths import PyTreeOf

__all__ = ["PyTreeOf", "Transformation"]


class Transformation(Protocol):
    """Computes a tree of arrays from other trees."""

    def __call__(self, *source_array_trees: Any) -> Any:
        """Returns the new tree.

        Args:
            *source_array_trees: trees of jax.Arrays or numpy arrays.
        """
