"""The type of transformations."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.orbax.tree_paths import PyTreeOf

__all__ = ["PyTreeOf", "Transformation"]


class Transformation(Protocol):
    """Makes a tree of arrays out of others."""

    def __call__(self, *source_array_trees: Any) -> Any:
        """The new tree.

        Args:
            *source_array_trees: of jax.Arrays or numpy arrays.
        """
