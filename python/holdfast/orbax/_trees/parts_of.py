"""PartsOf: a tree that lacks some leaves."""

from __future__ import annotations

from typing import Any

from holdfast._log import log
from holdfast.orbax._devices.optional_jax import imported_jax
from holdfast.orbax.tree_paths import (
    children_with_keys,
    flatten_with_path,
    from_flat_dict,
    to_flat_dict,
    unflatten_like,
)

PLACEHOLDER = ...


class Error(ValueError):
    """An operation that `PartsOf` refuses."""


class TreeNotCompleteError(Error):
    """The complete tree was requested, but leaves are missing."""


class UnexpectedPlaceholderError(Error):
    """A leaf that must have a value became a placeholder."""


class PartsOf:
    """The existing leaves, and the structure of the complete tree.

    Thread-safety: immutable.
    """

    def __init__(self, template: Any, value: Any) -> None:
        """Stores the leaves of `value`.

        Args:
            template: a tree with the complete structure; its leaves are
                ignored.
            value: a tree with some of the leaves; `...` is a missing leaf.

        Raises:
            Error: `value` has a leaf that the template does not have.
        """
        self._set_template(template)
        self._present = {
            path: leaf
            for path, leaf in to_flat_dict(value).items()
            if leaf is not PLACEHOLDER
        }
        template_paths = to_flat_dict(template)
        bogus_paths = {*self._present} - {*template_paths}
        if bogus_paths:
            raise Error(
                "The following paths in input value are not part of the full"
                f" tree structure: {bogus_paths}.\nGot value paths"
                f" {self._present}\nand template paths {template_paths}"
            )

    @classmethod
    def empty(cls, template: Any) -> PartsOf:
        """Makes a PartsOf in which every leaf is missing."""
        return cls(template, ())

    @classmethod
    def from_structure(cls, structure: Any) -> PartsOf:
        """Makes a PartsOf of a tree's leaves; `...` is a missing leaf."""
        return cls(structure, structure)

    from_full_structure = from_structure

    @classmethod
    def like(cls, existing: PartsOf, value: Any) -> PartsOf:
        """Makes a PartsOf of different leaves with the structure of `existing`.
        """
        return cls(existing._template, value)

    def _set_template(self, template: Any) -> None:
        leaf_count = len(flatten_with_path(template))
        self._template = unflatten_like(template, [PLACEHOLDER] * leaf_count)

    def _with_present(self, present: dict[Any, Any]) -> PartsOf:
        parts = type(self).empty(())
        parts._template = self._template
        parts._present = present
        return parts

    def is_empty(self) -> bool:
        """Returns whether every leaf is missing."""
        return not self._present

    @property
    def full_structure(self) -> Any:
        """The complete tree.

        Raises:
            TreeNotCompleteError: leaves are missing.
        """
        try:
            return from_flat_dict(self._present, self._template)
        except KeyError as error:
            raise TreeNotCompleteError(
                f"Tree is not complete: {error}"
            ) from error

    @property
    def unsafe_structure(self) -> Any:
        """The complete tree, with `...` for missing leaves."""
        leaves = {**to_flat_dict(self._template), **self._present}
        return from_flat_dict(leaves, self._template)

    @property
    def structure_hash(self) -> int:
        """A hash that is equal for equal structures with the same existing
        leaves; needs jax."""
        return hash((self._definition(), tuple(self._present)))

    def overlay(
        self, other: PartsOf, *, strict: bool = False, verbose: bool = False
    ) -> PartsOf:
        """Merges the leaves of both trees; `other`'s leaves take precedence.

        Args:
            other: a tree with the same structure.
            strict: refuse leaves that both trees have.
            verbose: log the paths of leaves that both trees have.

        Raises:
            ValueError: the structures differ or, with `strict`, both trees have
                the same leaf.
        """
        self._check_shape(other)
        common = self._present.keys() & other._present.keys()
        if strict and common:
            raise ValueError(
                f"Strict overlay failed: keys {common} are present in both"
                " PartsOf structures."
            )
        if verbose:
            log.info("Overwriting %d keys: %s", len(common), sorted(common))
        return self._with_present({**self._present, **other._present})

    def intersect(self, other: PartsOf) -> PartsOf:
        """Returns only the leaves that `other` also has."""
        self._check_shape(other)
        return self._kept(lambda path: path in other._present)

    def __sub__(self, other: PartsOf) -> PartsOf:
        self._check_shape(other)
        return self._kept(lambda path: path not in other._present)

    def _kept(self, is_kept: Any) -> PartsOf:
        return self._with_present(
            {k: leaf for k, leaf in self._present.items() if is_kept(k)}
        )

    def select(self, path: tuple[str | int, ...]) -> PartsOf:
        """Returns the parts of a subtree.

        Raises:
            ValueError: the tree does not have this path.
        """
        return PartsOf(
            _at_path(self._template, path),
            _at_path(self.unsafe_structure, path),
        )

    def _check_shape(self, other: PartsOf) -> None:
        if self._definition() != other._definition():
            raise Error("Mismatched templates")

    def _definition(self) -> Any:
        jax = imported_jax()
        if jax is None:
            return self._template
        return jax.tree.structure(self._template)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartsOf):
            return NotImplemented
        same_shape: bool = self._definition() == other._definition()
        return same_shape and self._present == other._present

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"PartsOf(_template={self._definition()}, _present={self._present})"
        )


def _at_path(tree: Any, path: tuple[str | int, ...]) -> Any:
    """Returns the subtree at a path.

    Raises:
        ValueError: the tree does not have this path.
    """
    for i, key in enumerate(path):
        for entry, child in children_with_keys(tree) or []:
            fields = ("idx", "key", "name")
            if any(getattr(entry, field, None) == key for field in fields):
                tree = child
                break
        else:
            raise ValueError(f"Path {path[i:]} does not exist in {tree=}.")
    return tree
