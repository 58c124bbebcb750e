"""Helpers for restores, and for waiting for another program's steps:
`orbax.checkpoint.checkpoint_utils`."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.orbax._compat.attributes import attribute_error
from holdfast.orbax._devices.optional_jax import (
    format_class,
    is_jax_array,
    is_prng_key_dtype,
    is_shape_dtype_struct,
    require_jax,
    sharding_or_format,
)
from holdfast.orbax._leaves.args import (
    PLACEHOLDER,
    ArrayRestoreArgs,
    RestoreArgs,
    is_placeholder,
)
from holdfast.orbax._manager.waiting import (
    checkpoints_iterator,
    get_snapshot_dir_from_step_dir,
    wait_for_new_checkpoint,
)
from holdfast.orbax._trees import structure
from holdfast.orbax.metadata import value as value_metadata
from holdfast.orbax.metadata.tree import (
    build_default_tree_metadata,
    is_tree_metadata,
    unwrap,
)

__all__ = [
    "PLACEHOLDER",
    "STANDARD_ARRAY_TYPES",  # noqa: F822
    "ArrayRestoreArgs",
    "Format",  # noqa: F822
    "PyTree",
    "RestoreArgs",
    "checkpoints_iterator",
    "construct_restore_args",
    "get_snapshot_dir_from_step_dir",
    "wait_for_new_checkpoint",
]

PyTree = Any


def __getattr__(name: str) -> Any:
    # These names need jax, which numpy-only programs may not have.
    if name == "STANDARD_ARRAY_TYPES":
        return (int, float, np.ndarray, require_jax(name).Array)
    if name == "Format":
        return format_class()
    raise attribute_error(__name__, name)


def construct_restore_args(
    target: PyTree,
    sharding_tree: PyTree | None = None,
    set_global_shape: bool = True,
    support_layout: bool = False,
    strict: bool = True,
) -> PyTree:
    """Builds restore arguments that yield leaves like the target's.

    Args:
        target: a tree of arrays, scalars, strings, jax.ShapeDtypeStruct,
            `metadata.value.Metadata` or `...`; or a TreeMetadata.
        sharding_tree: a tree of jax shardings with the target's structure; by
            default, the target's own shardings.
        set_global_shape: requests the target's shapes.
        support_layout: uses the target's layouts as well as its shardings.
        strict: rejects shapes that differ from the stored shapes.

    Returns:
        A tree of RestoreArgs with the target's structure.

    Raises:
        ValueError: a leaf has another type, or the sharding tree does not
            match.
    """
    flat = structure.flatten(unwrap(target))
    leaves = [_without_key_type(leaf) for leaf in flat.leaves]
    if sharding_tree is None:
        shardings = [sharding_or_format(v, support_layout) for v in leaves]
    else:
        shardings = structure.match_up_to(flat.tree, unwrap(sharding_tree))
    args = [
        _restore_args(leaf, sharding, set_global_shape, strict)
        for leaf, sharding in zip(leaves, shardings, strict=True)
    ]
    tree = flat.rebuild(args)
    if not is_tree_metadata(target):
        return tree
    return build_default_tree_metadata(
        tree, custom_metadata=target.custom_metadata
    )


def _without_key_type(leaf: Any) -> Any:
    """Replaces a typed PRNG key with its data; a restore detects the type."""
    if is_jax_array(leaf) and is_prng_key_dtype(leaf.dtype):
        return require_jax("typed PRNG keys").random.key_data(leaf)
    return leaf


def _array_args(
    leaf: Any, sharding: Any, set_global_shape: bool, strict: bool
) -> ArrayRestoreArgs:
    with_shape = set_global_shape and not is_prng_key_dtype(leaf.dtype)
    return ArrayRestoreArgs(
        sharding=sharding,
        global_shape=leaf.shape if with_shape else None,
        dtype=leaf.dtype,
        strict=strict,
    )


def _restore_args(
    leaf: Any, sharding: Any, set_global_shape: bool, strict: bool
) -> RestoreArgs:
    """Returns the arguments for one leaf.

    Raises:
        ValueError: the leaf is not an array, scalar, string or metadata.
    """
    if isinstance(leaf, value_metadata.Metadata):
        return _args_of_metadata(leaf, sharding, set_global_shape, strict)
    if is_shape_dtype_struct(leaf):
        if sharding is None:
            return RestoreArgs(np.ndarray, leaf.dtype)
        return _array_args(leaf, sharding, set_global_shape, strict)
    if isinstance(leaf, np.ndarray):
        return RestoreArgs(type(leaf), leaf.dtype)
    if is_jax_array(leaf):
        return _array_args(leaf, sharding, set_global_shape, strict)
    if isinstance(leaf, int | float):
        return RestoreArgs(type(leaf))
    if isinstance(leaf, str):
        return RestoreArgs(str)
    if is_placeholder(leaf):
        return RestoreArgs(type(PLACEHOLDER))
    raise ValueError(f"Unsupported type: {type(leaf)}")


def _args_of_metadata(
    leaf: value_metadata.Metadata,
    sharding: Any,
    set_global_shape: bool,
    strict: bool,
) -> RestoreArgs:
    if isinstance(leaf, value_metadata.StringMetadata):
        return RestoreArgs(str)
    if isinstance(leaf, value_metadata.ScalarMetadata):
        assert leaf.dtype is not None
        python_type = type(leaf.dtype.type(0).item())
        return RestoreArgs(python_type, leaf.dtype)
    if isinstance(leaf, value_metadata.ArrayMetadata):
        if sharding is None:
            return RestoreArgs(np.ndarray, leaf.dtype)
        return _array_args(leaf, sharding, set_global_shape, strict)
    raise ValueError(
        "Unsupported value_metadata class: <class"
        f" 'orbax.checkpoint._src.metadata.value.{type(leaf).__name__}'>."
    )
