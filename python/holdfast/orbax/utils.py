"""Small helpers: `orbax.checkpoint.utils`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from holdfast._lazy import importing
from holdfast.orbax._checkpointer.paths import (
    TMP_DIR_SUFFIX,
    is_gcs_path,
    is_path_finalized,
    is_path_temporary,
)
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._trees import structure
from holdfast.orbax.atomicity import record_saved_duration
from holdfast.orbax.multihost import (
    broadcast_one_to_all,
    is_pathways_backend,
    is_primary_host,
    reached_preemption,
    sync_global_processes,
)
from holdfast.orbax.step import (
    any_checkpoint_step,
    checkpoint_steps,
    checkpoint_steps_paths,
    get_save_directory,
    step_from_checkpoint_name,
    tmp_checkpoints,
)
from holdfast.orbax.tree_paths import (
    deserialize_tree,
    from_flat_dict,
    from_flattened_with_keypath,
    get_key_name,
    is_dict_key,
    is_empty_node,
    is_empty_or_leaf,
    is_sequence_key,
    serialize_tree,
    to_flat_dict,
    to_shape_dtype_struct,
    tuple_path_from_keypath,
)

__all__ = [
    "PyTree",
    "TMP_DIR_SUFFIX",
    "all_leaves_are_placeholders",
    "any_checkpoint_step",
    "broadcast_one_to_all",
    "checkpoint_steps",
    "checkpoint_steps_paths",
    "deserialize_tree",
    "from_flat_dict",
    "from_flattened_with_keypath",
    "fully_replicated_host_local_array_to_global_array",
    "get_key_name",
    "get_save_directory",
    "is_checkpoint_finalized",
    "is_dict_key",
    "is_empty_node",
    "is_empty_or_leaf",
    "is_gcs_path",
    "is_pathways_backend",
    "is_primary_host",
    "is_scalar",
    "is_sequence_key",
    "is_tmp_checkpoint",
    "leaf_is_placeholder",
    "leaf_placeholder",
    "name_from_leaf_placeholder",
    "pytree_structure",
    "reached_preemption",
    "record_saved_duration",
    "serialize_tree",
    "step_from_checkpoint_name",
    "sync_global_devices",
    "sync_global_processes",
    "tmp_checkpoints",
    "to_flat_dict",
    "to_shape_dtype_struct",
    "tuple_path_from_keypath",
]

PyTree = Any

_AGGREGATED_PREFIX = "AGGREGATED://"
_PLACEHOLDER_PREFIX = "PLACEHOLDER://"

is_checkpoint_finalized = is_path_finalized
is_tmp_checkpoint = is_path_temporary
sync_global_devices = sync_global_processes


def is_scalar(x: Any) -> bool:
    """Returns whether the value is a Python or numpy number, not an array."""
    return isinstance(x, int | float | np.number)


def leaf_is_placeholder(leaf: Any) -> bool:
    """Returns whether a value in the old msgpack file is an array's
    placeholder."""
    prefixes = (_PLACEHOLDER_PREFIX, _AGGREGATED_PREFIX)
    return isinstance(leaf, str) and leaf.startswith(prefixes)


def leaf_placeholder(name: str) -> str:
    """Returns the old msgpack file's placeholder for the array `name`."""
    return _PLACEHOLDER_PREFIX + name


def name_from_leaf_placeholder(placeholder: str) -> str:
    """Returns the name of the array that a placeholder represents.

    Raises:
        ValueError: the string is not a placeholder.
    """
    if not leaf_is_placeholder(placeholder):
        raise ValueError(
            "Requested name from placeholder, but value did not contain"
            " required prefix."
        )
    return placeholder.split("://", 1)[1]


def all_leaves_are_placeholders(tree: Any) -> bool:
    """Returns whether every leaf is a placeholder of a stored array."""
    return all(map(leaf_is_placeholder, structure.flatten(tree).leaves))


def pytree_structure(directory: str | os.PathLike[str]) -> Any:
    """Returns the tree implied by the directory names in an old item."""
    with importing:
        from holdfast.orbax._restore.source import names_of_directories

    return structure.map_leaves(
        leaf_placeholder, names_of_directories(os.fspath(directory))
    )


def fully_replicated_host_local_array_to_global_array(arr: Any) -> Any:
    """Converts an array that pmap produced to a replicated global jax.Array.

    Args:
        arr: an array with the same values on each local device, with or without
            a leading device axis.
    """
    jax = require_jax("a global jax.Array")
    shards = sorted(
        (shard.data for shard in arr.addressable_shards),
        key=lambda data: next(iter(data.devices())).id,
    )
    shape = shards[0].shape
    if shape != arr.shape:
        shards = [data[0] for data in shards]
        shape = shape[1:]
    mesh = jax.sharding.Mesh(np.array(jax.devices()), axis_names=("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.make_array_from_single_device_arrays(shape, sharding, shards)
