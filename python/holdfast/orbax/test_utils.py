"""Helpers for testing programs that checkpoint: `orbax.checkpoint.test_utils`.

Only the helpers for devices need jax.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast import _files
from holdfast._lazy import importing
from holdfast._log import log
from holdfast.orbax import _test_helpers
from holdfast.orbax._checkpointer.paths import (
    TMP_DIR_SUFFIX,
    PathLike,
    handler_path,
)
from holdfast.orbax._devices.optional_jax import (
    imported_jax,
    is_jax_array,
    is_prng_key_dtype,
    require_jax,
)
from holdfast.orbax._test_helpers import *  # noqa: F403
from holdfast.orbax.tree_paths import (
    flatten_with_path,
    to_flat_dict,
    unflatten_like,
)

__all__ = [
    "PyTree",
    "apply_function",
    "assert_array_equal",
    "assert_tree_equal",
    "assert_tree_same_structure",
    "create_sharded_array",
    "empty_directory",
    "erase_and_create_empty",
    "filter_metadata_fields",
    "get_expected_chunk_shape",
    "is_leaf",
    "print_directory",
    "replicate_sharded_array",
    "save_fake_tmp_dir",
    "setup_pytree",
    "setup_sharded_pytree",
    *_test_helpers.__all__,
]

# Orbax imports this jax module, and its guides rely on that import.
if imported_jax() is not None and importlib.util.find_spec("tensorstore"):
    with contextlib.suppress(ImportError):
        importlib.import_module(
            "jax.experimental.array_serialization.serialization"
        )

PyTree = Any


def erase_and_create_empty(directory: PathLike) -> Any:
    """Removes a directory with its contents and creates it again.

    Returns:
        The path, an `etils.epath.Path` in programs that use etils.
    """
    if _files.exists(directory):
        _files.rmtree(directory)
    _files.mkdir(directory)
    return handler_path(directory)


def empty_directory(directory: PathLike) -> bool:
    """Removes a directory's contents; returns False if it does not exist."""
    if not _files.exists(directory):
        return False
    with _files.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _files.rmtree(entry.path)
            else:
                _files.unlink(entry.path)
    return True


def print_directory(directory: PathLike, level: int = 0) -> None:
    """Logs the names below a directory, indented.

    Args:
        directory: the directory to list.
        level: the depth of `directory`.

    Raises:
        ValueError: the directory does not exist.
    """
    path = os.fspath(directory)
    if not _files.exists(path):
        raise ValueError(f"Directory {directory} does not exist.")
    if not _files.isdir(path):
        raise ValueError(f"Directory {directory} is not a directory.")
    if level == 0:
        log.info("Printing directory tree: %s/", path)
    else:
        log.info("%s%s/", ".." * level, os.path.basename(path))
    for name in _files.listdir(path):
        below = os.path.join(path, name)
        if _files.isdir(below):
            print_directory(below, level + 1)
        else:
            log.info("%s%s", ".." * (level + 1), name)


def save_fake_tmp_dir(
    directory: PathLike,
    step: int,
    item: str,
    subdirs: Sequence[str] | None = None,
    step_prefix: str | None = None,
) -> Any:
    """Creates the temporary directories that a killed save leaves behind.

    Args:
        directory: the directory of the steps.
        step: the step whose save was killed.
        item: the item that was being saved.
        subdirs: directories in that item.
        step_prefix: the prefix of the step's name.

    Returns:
        The path of the item's temporary directory.
    """
    name = f"{step_prefix or ''}{step}{TMP_DIR_SUFFIX}"
    path = os.path.join(directory, name, f"{item}{TMP_DIR_SUFFIX}")
    _files.makedirs(path)
    for subdir in subdirs or ():
        _files.makedirs(os.path.join(path, subdir))
    return handler_path(path)


def assert_array_equal(testclass: Any, v_expected: Any, v_actual: Any) -> None:
    """Asserts that two leaves have the same type, dtype and values.

    For jax.Arrays the shards are compared; for PRNG keys, the data and the
    implementation.

    Args:
        testclass: a `unittest.TestCase`.
        v_expected: an array or a scalar.
        v_actual: the value that must equal `v_expected`.
    """
    testclass.assertIsInstance(v_actual, type(v_expected))
    if hasattr(v_expected, "dtype"):
        testclass.assertEqual(v_expected.dtype, v_actual.dtype)
    if is_jax_array(v_expected):
        _assert_jax_arrays_equal(testclass, v_expected, v_actual)
    elif isinstance(v_expected, np.ndarray):
        np.testing.assert_array_equal(v_actual, v_expected)
    else:
        testclass.assertEqual(v_expected, v_actual)


def _assert_jax_arrays_equal(
    testclass: Any, expected: Any, actual: Any
) -> None:
    jax = require_jax("comparing jax.Arrays")
    if is_prng_key_dtype(expected.dtype):
        impls = [str(jax.random.key_impl(key)) for key in (expected, actual)]
        testclass.assertEqual(*impls)
        expected = jax.random.key_data(expected)
        actual = jax.random.key_data(actual)
    shards = expected.addressable_shards, actual.addressable_shards
    testclass.assertEqual(*map(len, shards))
    for wanted, given in zip(*shards, strict=True):
        np.testing.assert_array_equal(given.data, wanted.data)


def assert_tree_equal(testclass: Any, expected: Any, actual: Any) -> None:
    """Asserts that two trees have the same leaves at the same paths.

    Args:
        testclass: a `unittest.TestCase`.
        expected: a tree.
        actual: the tree that must equal `expected`.
    """
    wanted, given = to_flat_dict(expected), to_flat_dict(actual)
    testclass.assertEqual(sorted(wanted), sorted(given))
    for path, leaf in wanted.items():
        assert_array_equal(testclass, leaf, given[path])


def assert_tree_same_structure(
    testclass: Any, expected: Any, actual: Any
) -> None:
    """Asserts that two trees differ only in their leaves.

    Args:
        testclass: a `unittest.TestCase`.
        expected: a tree.
        actual: the tree that must have the structure of `expected`.
    """
    wanted, given = (
        unflatten_like(tree, [0] * len(flatten_with_path(tree)))
        for tree in (expected, actual)
    )
    testclass.assertEqual(repr(wanted), repr(given))


def is_leaf(x: Any) -> bool:
    """Returns whether a value is an array, mesh, partition spec or ParamInfo.

    Only numpy arrays count as arrays.
    """
    return isinstance(x, np.ndarray) or type(x).__name__ in (
        "Mesh",
        "PartitionSpec",
        "ParamInfo",
    )


def setup_pytree(add: int = 0) -> dict[str, Any]:
    """Returns a small tree of numpy arrays; `add` is added to each element."""
    return {
        "a": np.arange(8) + add,
        "b": np.arange(16) * 2 + add,
        "c": {
            "a": np.arange(8).reshape((2, 4)) * 3 + add,
            "e": np.arange(16).reshape((4, 4)) * 4 + add,
        },
    }


def create_sharded_array(arr: Any, mesh: Any, mesh_axes: Any) -> Any:
    """Returns a sharded jax.Array with the values of `arr`.

    Args:
        arr: a numpy array, int or float.
        mesh: a `jax.sharding.Mesh`.
        mesh_axes: a `jax.sharding.PartitionSpec`.
    """
    jax = require_jax("a sharded array")
    array = np.asarray(arr)
    return jax.make_array_from_callback(
        array.shape,
        jax.sharding.NamedSharding(mesh, mesh_axes),
        lambda index: np.asarray(array[index]),
    )


def setup_sharded_pytree(
    pytree: Any | None = None,
    reverse_devices: bool = False,
    devices: Sequence[Any] | None = None,
) -> tuple[Any, Any, Any]:
    """Puts `setup_pytree()` on all devices; its arrays differ in sharding.

    Args:
        pytree: a tree of the same structure to use instead of `setup_pytree()`.
        reverse_devices: uses the devices in reverse order.
        devices: the devices to use, an even number; None means all.

    Returns:
        The trees of jax.Arrays, of their meshes and of their partition specs.
    """
    jax = require_jax("a sharded tree")
    chosen = list(jax.devices() if devices is None else devices)
    row = np.asarray(chosen[::-1] if reverse_devices else chosen)
    spec = jax.sharding.PartitionSpec
    line = jax.sharding.Mesh(row, ("x",))
    square = jax.sharding.Mesh(row.reshape((2, -1)), ("x", "y"))
    meshes = {"a": line, "b": line, "c": {"a": square, "e": square}}
    both = spec("x", "y")
    axes = {"a": spec(None), "b": spec("x"), "c": {"a": both, "e": both}}
    tree = jax.tree.map(
        create_sharded_array,
        setup_pytree() if pytree is None else pytree,
        meshes,
        axes,
        is_leaf=is_leaf,
    )
    return tree, meshes, axes


def replicate_sharded_array(arr: Any) -> Any:
    """Returns the jax.Array replicated on every device."""
    jax = require_jax("a replicated array")
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ("x",))
    spec = jax.sharding.PartitionSpec(None)
    return jax.device_put(arr, jax.sharding.NamedSharding(mesh, spec))


def apply_function(tree: Any, function: Callable[[Any], Any]) -> Any:
    """Applies a jitted function to each jax.Array in a tree."""
    jax = require_jax("a jitted function")
    return jax.tree.map(jax.jit(function), tree)


def get_expected_chunk_shape(
    arr: Any,
    *,
    use_replica_parallel: bool = True,
    max_replicas_for_replica_parallel: int | None = None,
    pathways_support_replica_parallel: bool = False,
) -> tuple[int, ...]:
    """Returns the shape of the part of a jax.Array that each device writes.

    Args:
        arr: the array.
        use_replica_parallel: replicas of a shard share the writing.
        max_replicas_for_replica_parallel: maximum number of replicas that
            share.
        pathways_support_replica_parallel: ignored; accepted because Orbax has
            it.
    """
    with importing:
        from holdfast import _jax_arrays

    return _jax_arrays.write_shape(
        arr.sharding,
        arr.shape,
        arr.dtype.itemsize,
        use_replica_parallel=use_replica_parallel,
        max_replicas=max_replicas_for_replica_parallel,
    )


def filter_metadata_fields(pytree: Any, include_fields: Sequence[str]) -> Any:
    """Replaces each metadata leaf with a dict of the requested fields."""
    leaves = [
        {f: getattr(leaf, f) for f in include_fields if hasattr(leaf, f)}
        for _, leaf in flatten_with_path(pytree)
    ]
    return unflatten_like(pytree, leaves)
