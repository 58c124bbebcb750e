"""The leaves that can be saved and loaded, and how each is requested."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from holdfast.orbax._devices.optional_jax import imported_jax, is_jax_array
from holdfast.orbax.tree_paths import tree_leaves, unflatten_like
from holdfast.orbax.type_handlers import ArrayRestoreArgs, RestoreArgs
from holdfast.orbax.v1.errors import UnregisteredTypeError
from holdfast.orbax.v1.tree import AbstractLeaf, Leaf

_ACCEPTED = (np.ndarray, int, float, np.number, bytes, bool, str)
# Among numpy scalars only np.float64 is included, because it is a float.
_STORABLE = (np.ndarray, int, float, bytes, str)
_SCALARS = (int, float, np.number, bytes, bool)


def check_state(state: Any) -> None:
    """Checks the types of a tree's leaves before it is saved.

    Raises:
        ValueError: a type is not a valid leaf, or keys cannot be sorted.
    """
    # Check one leaf of each type.
    for leaf in {type(leaf): leaf for leaf in tree_leaves(state)}.values():
        if not isinstance(leaf, _ACCEPTED) and not is_jax_array(leaf):
            jax = imported_jax()
            kinds: Any = Leaf if jax is None else jax.Array | Leaf
            raise ValueError(
                f"Unsupported leaf type for saving: `{type(leaf)}`. Supported "
                f"leaf types are: {kinds}."
            )


def check_storable(leaves: Iterable[Any]) -> None:
    """Checks that each leaf can be stored.

    Raises:
        UnregisteredTypeError: leaf types cannot be stored; the error names
            them.
    """
    missing = {
        kind
        for kind, leaf in {type(leaf): leaf for leaf in leaves}.items()
        if leaf is not ...
        and not isinstance(leaf, _STORABLE)
        and not is_jax_array(leaf)
    }
    if missing:
        raise UnregisteredTypeError(_unregistered("leaf types", missing))


def _unregistered(what: str, types: set[type]) -> str:
    return (
        f"The following {what} are not registered in the "
        f"`LeafHandlerRegistry`: [{types}]. Please register a `LeafHandler` "
        "for each type in the `LeafHandlerRegistry` and assign it into the "
        "`PyTreeOptions` in the `Context`."
    )


@functools.lru_cache(maxsize=1024)
def _has(kind: type, *names: str) -> bool:
    """Returns whether instances of a class have these attributes."""
    annotations = getattr(kind, "__annotations__", {})
    return all(name in annotations or hasattr(kind, name) for name in names)


def _stands_for_array(kind: type) -> bool:
    return _has(kind, "shape", "dtype")


def _stands_for_sharded_array(kind: type) -> bool:
    return _has(kind, "shape", "dtype", "sharding")


def check_abstract_state(abstract: Any) -> None:
    """Checks the types of the leaves of the caller's abstract state.

    Raises:
        TypeError: a leaf's type cannot be loaded.
    """
    for leaf in tree_leaves(abstract):
        kind = leaf if isinstance(leaf, type) else type(leaf)
        if leaf is ... or _stands_for_array(kind):
            continue
        if not issubclass(kind, (*_SCALARS, str)):
            raise TypeError(
                f"Unsupported abstract leaf type for loading: `{type(leaf)}`. "
                f"Supported abstract leaf types are: {AbstractLeaf} (or "
                f"concrete values of {Leaf})."
            )


def check_loadable(leaves: Iterable[Any]) -> None:
    """Checks that each leaf is a valid abstract leaf.

    Raises:
        UnregisteredTypeError: leaf types are not valid; the error names
            them.
    """
    kinds = {
        leaf if isinstance(leaf, type) else type(leaf)
        for leaf in leaves
        if leaf is not ...
    }
    missing = {
        kind
        for kind in kinds
        if not _stands_for_array(kind)
        and not issubclass(kind, (int, float, bytes, str))
    }
    if missing:
        raise UnregisteredTypeError(
            _unregistered("abstract leaf types", missing)
        )


def restore_args(
    abstract: Any,
    strict: bool,
    of_arrays: type[ArrayRestoreArgs] = ArrayRestoreArgs,
) -> Any:
    """Returns the restore arguments that an abstract tree requests.

    Args:
        abstract: a tree of abstract leaves.
        strict: refuse shapes that differ from the stored shapes.
        of_arrays: the restore-argument class for jax.Arrays.
    """
    # Leaves with the same class and dtype share their arguments.
    shared: dict[tuple[type, Any], RestoreArgs] = {}

    def args_of(leaf: Any) -> RestoreArgs:
        is_type = isinstance(leaf, type)
        kind = leaf if is_type else type(leaf)
        if not is_type and _stands_for_sharded_array(kind):
            return of_arrays(
                dtype=leaf.dtype,
                sharding=leaf.sharding,
                shape=leaf.shape,
                strict=strict,
            )
        has_dtype = not is_type and _stands_for_array(kind)
        key = kind, leaf.dtype if has_dtype else None
        if key not in shared:
            shared[key] = _args_of_class(*key, of_arrays)
        return shared[key]

    leaves = tree_leaves(abstract)
    return unflatten_like(abstract, [args_of(leaf) for leaf in leaves])


def _args_of_class(
    kind: type, dtype: Any, of_arrays: type[ArrayRestoreArgs]
) -> RestoreArgs:
    """Returns the arguments for leaves of a class, or for the class itself."""
    if kind is type(...):
        return RestoreArgs()
    if _stands_for_sharded_array(kind):
        return of_arrays()
    if _stands_for_array(kind):
        return RestoreArgs(restore_type=np.ndarray, dtype=dtype)
    return RestoreArgs(restore_type=kind)


def resolve_abstract_meshes(abstract: Any) -> Any:
    """Returns `abstract`, with shardings over an abstract mesh replaced by
    shardings over jax's current mesh."""
    jax = imported_jax()
    if abstract is None or jax is None:
        return abstract
    get_mesh = getattr(jax.sharding, "get_mesh", None)
    if get_mesh is None:
        return abstract

    def is_unresolved(leaf: Any) -> bool:
        sharding = getattr(leaf, "sharding", None)
        return isinstance(sharding, jax.sharding.NamedSharding) and isinstance(
            sharding.mesh, jax.sharding.AbstractMesh
        )

    def resolve(leaf: Any) -> Any:
        if not is_unresolved(leaf):
            return leaf
        concrete = jax.sharding.NamedSharding(get_mesh(), leaf.sharding.spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=concrete)

    if not any(map(is_unresolved, tree_leaves(abstract))):
        return abstract
    return jax.tree_util.tree_map(resolve, abstract)
