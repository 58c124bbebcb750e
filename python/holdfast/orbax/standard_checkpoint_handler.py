"""StandardCheckpointHandler: trees of arrays and numbers."""

from __future__ import annotations

import dataclasses
import functools
import numbers
from typing import Any

import numpy as np

from holdfast.orbax._devices.optional_jax import (
    is_jax_array,
    is_shape_dtype_struct,
    sharding_or_format,
)
from holdfast.orbax._handlers.base import ORBAX_HANDLERS
from holdfast.orbax._handlers.outer import OuterHandler
from holdfast.orbax._trees import structure
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    given_args,
    register_with_handler,
)
from holdfast.orbax.checkpoint_utils import construct_restore_args
from holdfast.orbax.metadata import value as value_metadata
from holdfast.orbax.metadata.tree import is_tree_metadata, unwrap
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    MultiprocessingOptions,
    PyTreeMetadataOptions,
)
from holdfast.orbax.pytree_checkpoint_handler import (
    PyTreeCheckpointHandler,
    PyTreeRestoreArgs,
    PyTreeSaveArgs,
)

PyTree = Any


class StandardCheckpointHandler(OuterHandler["StandardSaveArgs"]):
    """Saves and restores trees of numpy arrays, jax.Arrays and numbers.

    Thread-safety: one call at a time.
    """

    TYPESTR = (
        f"{ORBAX_HANDLERS}.standard_checkpoint_handler"
        ".StandardCheckpointHandler"
    )

    def __init__(
        self,
        *,
        save_concurrent_gb: int = 96,
        restore_concurrent_gb: int = 96,
        multiprocessing_options: MultiprocessingOptions | None = None,
        pytree_metadata_options: PyTreeMetadataOptions = (
            PYTREE_METADATA_OPTIONS
        ),
        use_ocdbt: bool = True,
    ) -> None:
        """Makes a handler; see PyTreeCheckpointHandler for the options."""
        self._impl = PyTreeCheckpointHandler(
            save_concurrent_gb=save_concurrent_gb,
            restore_concurrent_gb=restore_concurrent_gb,
            multiprocessing_options=multiprocessing_options,
            pytree_metadata_options=pytree_metadata_options,
            use_ocdbt=use_ocdbt,
        )

    def _impl_args(
        self, item: PyTree, save_args: PyTree, args: StandardSaveArgs | None
    ) -> PyTreeSaveArgs:
        args = given_args(StandardSaveArgs, args, item, save_args)
        return PyTreeSaveArgs(
            _checked_item(args.item, args.save_args),
            save_args=args.save_args,
            custom_metadata=args.custom_metadata,
        )

    def restore(
        self,
        directory: Any,
        item: PyTree | None = None,
        args: StandardRestoreArgs | None = None,
    ) -> PyTree:
        """Reads the tree.

        Args:
            directory: the item's directory, as any path-like object.
            item: the target tree, if `args` is not given.
            args: what to restore.

        Returns:
            A tree like `args.item`; without `args.item`, dicts and lists.

        Raises:
            FileNotFoundError: the directory, its metadata or a file is missing.
            ValueError: the target does not match, recorded devices are missing,
                or files are damaged.
        """
        args = given_args(StandardRestoreArgs, args, item)
        restore_args = self._restore_args(directory, args)
        return self._impl.restore(
            directory,
            args=PyTreeRestoreArgs(args.item, restore_args=restore_args),
        )

    def _restore_args(self, directory: Any, args: StandardRestoreArgs) -> Any:
        stored = _StoredShardings(
            functools.partial(self.metadata, directory), args.fallback_sharding
        )
        if args.item is None:
            target = stored.tree
            shardings = structure.map_leaves(stored.sharding_of, target)
        else:
            _check_target(args.item)
            target = args.item
            shardings = _target_shardings(target, stored, args.support_layout)
        restore_args = construct_restore_args(target, shardings)
        if args.strict:
            return restore_args
        return structure.map_leaves(_not_strict, restore_args)


def _not_strict(args: Any) -> Any:
    if not hasattr(args, "strict"):
        return args
    return dataclasses.replace(args, strict=False)


def _is_standard(leaf: Any) -> bool:
    return isinstance(leaf, int | float | np.ndarray) or is_jax_array(leaf)


def _refuse_aggregate(flat: structure.FlatTree, args: list[Any]) -> None:
    """Rejects `aggregate`, an option for old checkpoint files.

    Raises:
        ValueError: a leaf has the option; the message names the leaf.
    """
    for i, leaf_args in enumerate(args):
        if getattr(leaf_args, "aggregate", False):
            keypath = structure.describe_keypath(flat.tree, flat.paths[i])
            raise ValueError(
                f"Unsupported option `aggregate` for key: {keypath}."
            )


def _checked_item(item: Any, save_args: Any) -> Any:
    """Returns the item with array-like leaves converted to arrays.

    Raises:
        ValueError: the item is not a tree, or a leaf is neither an array nor a
            number.
    """
    if item is None:
        raise ValueError("Must provide item to save.")
    if isinstance(item, numbers.Number) or is_jax_array(item):
        raise ValueError(
            "StandardCheckpointHandler / StandardSave does not support single "
            "arrays or scalars. Use ArrayCheckpointHandler / ArraySave"
        )
    flat = structure.flatten(item)
    if save_args is not None:
        _refuse_aggregate(flat, structure.match_up_to(item, save_args))
    leaves = []
    for i, leaf in enumerate(flat.leaves):
        if type(leaf) is np.ndarray:
            leaves.append(leaf)
            continue
        if not _is_standard(leaf) or isinstance(leaf, np.generic):
            if hasattr(leaf, "__array__"):
                leaf = np.asarray(leaf)
        if not _is_standard(leaf):
            raise ValueError(
                f"Unsupported type: {type(leaf)} for key: {flat.paths[i]}."
            )
        leaves.append(leaf)
    if all(new is old for new, old in zip(leaves, flat.leaves, strict=True)):
        return item
    return flat.rebuild(leaves)


def _check_target(target: Any) -> None:
    """Checks the types of the target's leaves.

    Raises:
        ValueError: a leaf's type is not supported; the message names the leaf.
    """
    flat = structure.flatten(target)
    for names, leaf in zip(flat.paths, flat.leaves, strict=True):
        if not _is_standard(leaf) and not is_shape_dtype_struct(leaf):
            raise ValueError(
                f"Unsupported type: {type(leaf)} for key: {names}."
            )


class _StoredShardings:
    """The recorded shardings, read on first use."""

    def __init__(self, metadata: Any, fallback_sharding: Any | None) -> None:
        self._metadata = metadata
        self._fallback = fallback_sharding

    @functools.cached_property
    def tree(self) -> Any:
        """The item's metadata tree."""
        return self._metadata().tree

    @functools.cached_property
    def leaves(self) -> dict[Any, Any]:
        """The leaves of the metadata tree by path."""
        return structure.flat_dict(structure.serialize(self.tree))

    def sharding_of(self, leaf: Any) -> Any | None:
        """Returns the jax sharding recorded in a leaf's metadata.

        Raises:
            ValueError: the sharding's devices are missing, and there is no
                fallback.
        """
        if not isinstance(leaf, value_metadata.ArrayMetadata):
            return None
        if leaf.sharding is None:
            return None
        try:
            return leaf.sharding.to_jax_sharding()
        except ValueError as error:
            if self._fallback is not None:
                return self._fallback
            raise ValueError(
                "Topology mismatch detected. The checkpoint was saved with a"
                " different topology than the current one. Please provide a"
                " target tree with the desired topology to restore."
            ) from error


def _target_shardings(
    target: Any, stored: _StoredShardings, support_layout: bool
) -> Any:
    """Returns a tree of jax shardings with the target's structure.

    Raises:
        ValueError: a leaf has no sharding and is not in the checkpoint.
    """
    flat = structure.flatten(target)
    shardings = []
    for names, leaf in zip(flat.paths, flat.leaves, strict=True):
        sharding = sharding_or_format(leaf, support_layout)
        if sharding is None and hasattr(leaf, "sharding"):
            if names not in stored.leaves:
                raise ValueError(
                    f"Structure mismatch: Target path {names} not found in"
                    " metadata_tree. Expected identical structures. Metadata"
                    f" keys: {stored.leaves.keys()}"
                )
            sharding = stored.sharding_of(stored.leaves[names])
        shardings.append(sharding)
    return flat.rebuild(shardings)


@register_with_handler(StandardCheckpointHandler, for_save=True)
@dataclasses.dataclass
class StandardSaveArgs(CheckpointArgs):
    """The tree to save.

    Attributes:
        item: the tree.
        save_args: a tree of `SaveArgs` with the same structure.
        custom_metadata: a JSON value for the item's `_METADATA`.

    Raises:
        ValueError: the item is a TreeMetadata.
    """

    item: PyTree
    save_args: PyTree | None = None
    custom_metadata: Any | None = None

    def __post_init__(self) -> None:
        if is_tree_metadata(self.item):
            raise ValueError("Cannot save TreeMetadata.")


@register_with_handler(StandardCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class StandardRestoreArgs(CheckpointArgs):
    """The tree to restore.

    Attributes:
        item: the target tree, with arrays, numbers or jax.ShapeDtypeStruct as
            leaves, or a TreeMetadata. None restores the tree as stored.
        strict: if True, a shape that differs from the stored shape is an error;
            if False, the array is zero-padded or truncated at the end of each
            dimension.
        support_layout: uses the target's layouts as well as its shardings.
        fallback_sharding: the sharding to use if the recorded devices are
            missing.
    """

    item: PyTree | None = None
    strict: bool = True
    support_layout: bool = False
    fallback_sharding: Any | None = None

    def __post_init__(self) -> None:
        self.item = unwrap(self.item)
