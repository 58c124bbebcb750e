"""Helpers for real Orbax and TensorStore, on one CPU device and without logs.

Import this module before jax: it chooses the platform and 64-bit types.
"""

import contextlib
import logging
import os
import shutil
import warnings

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
logging.disable(logging.ERROR)
warnings.filterwarnings("ignore")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import orbax.checkpoint as ocp  # noqa: E402
import tensorstore as ts  # noqa: E402
from orbax.checkpoint import v1  # noqa: E402

from tree_lines import (LoadedArray, LoadedScalar, array_bytes,  # noqa: E402
                        is_namedtuple)

jax.config.update("jax_enable_x64", True)
SCRATCH_BYTES = 2 << 30


@contextlib.contextmanager
def quiet_stderr():
    """Drops what Orbax's threads print while their reads fail on purpose."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def scratch_root():
    """Returns a directory in memory if there is enough, because the tests make
    thousands of syncs; else None."""
    memory = "/dev/shm"
    try:
        if (os.access(memory, os.W_OK) and
                shutil.disk_usage(memory).free > SCRATCH_BYTES):
            return memory
    except OSError:
        pass
    return None


def item_dir(path, api):
    """Returns the directory of a checkpoint's pytree."""
    return path / "state" if api == "orbax-v1" else path


def save(tree, path, *, api, zarr, ocdbt, compressed):
    """Saves with the API and the layout that the arguments name."""
    if api == "orbax":
        checkpointer = ocp.PyTreeCheckpointer(
            use_ocdbt=ocdbt, use_zarr3=zarr == 3, use_compression=compressed)
        checkpointer.save(path, tree)
        return
    context = v1.Context()
    context.array.saving.use_ocdbt = ocdbt
    context.array.saving.use_zarr3 = zarr == 3
    context.array.saving.use_compression = compressed
    with context:
        v1.save(path, tree)


def restore_v0(path):
    return ocp.PyTreeCheckpointer().restore(path)


def restore_v1(path):
    return v1.load(path)


def metadata_v0(path):
    return ocp.PyTreeCheckpointer().metadata(path).item_metadata.tree


def metadata_v1(path):
    return v1.metadata(path).metadata


def open_parameter(directory, name, *, zarr, ocdbt):
    """Opens one parameter without Orbax; returns a TensorStore future."""
    driver = "zarr3" if zarr == 3 else "zarr"
    if ocdbt:
        kvstore = {"driver": "ocdbt", "path": name,
                   "base": {"driver": "file", "path": f"{directory}/"}}
    else:
        kvstore = {"driver": "file",
                   "path": f"{directory}/{name}" if name else f"{directory}/"}
    return ts.open({"driver": driver, "kvstore": kvstore}, open=True,
                   read=True)


def open_database(directory):
    return ts.KvStore.open({
        "driver": "ocdbt",
        "base": {"driver": "file", "path": f"{directory}/"}}).result()


def flatten(tree, path=()):
    """Yields (path, leaf) pairs; an empty container is a leaf."""
    if isinstance(tree, dict) and tree:
        members = tree.items()
    elif is_namedtuple(tree) and tree:
        members = zip(tree._fields, tree)
    elif isinstance(tree, (list, tuple)) and tree:
        members = ((str(i), item) for i, item in enumerate(tree))
    else:
        yield path, tree
        return
    for key, value in members:
        yield from flatten(value, path + (key,))


def canonical(value):
    """Returns the tree as plain Python values that compare by content.

    Arrays keep kind, dtype, shape and bytes; scalars keep dtype and bytes.
    """
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if is_namedtuple(value):
        return ("namedtuple", [canonical(item) for item in value])
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, tuple):
        return ("tuple", [canonical(item) for item in value])
    if isinstance(value, LoadedArray):
        return ("array", value.kind, value.dtype, value.shape, value.raw)
    if isinstance(value, LoadedScalar):
        return ("scalar", value.dtype, value.raw)
    if isinstance(value, (np.ndarray, jax.Array)):
        kind = "jax" if isinstance(value, jax.Array) else "numpy"
        return ("array", kind, value.dtype.name, tuple(value.shape),
                array_bytes(value))
    if isinstance(value, (bool, int, float, complex, np.generic)):
        array = np.asarray(value)
        return ("scalar", array.dtype.name, array_bytes(array))
    return value


def as_restored(tree):
    """Returns the tree that a restore without a target gives back."""
    if isinstance(tree, dict):
        return {key: as_restored(value) for key, value in tree.items()}
    if is_namedtuple(tree):
        if not tree:
            return None
        return {field: as_restored(value)
                for field, value in zip(tree._fields, tree)}
    if isinstance(tree, (list, tuple)) and tree:
        return [as_restored(value) for value in tree]
    return tree


def difference(want, got, path="tree"):
    """Returns the first difference between two canonical trees, or None."""
    if type(want) is not type(got):
        return f"{path}: {summary(got)}, want {summary(want)}"
    if isinstance(want, dict):
        if want.keys() != got.keys():
            return (f"{path}: keys {sorted(got)!r}, want {sorted(want)!r}")
        pairs = [(f"{path}[{key!r}]", want[key], got[key]) for key in want]
    elif isinstance(want, list) and len(want) == len(got):
        pairs = [(f"{path}[{i}]", a, b)
                 for i, (a, b) in enumerate(zip(want, got))]
    else:
        return (None if want == got else
                f"{path}: {summary(got)}, want {summary(want)}")
    for where, a, b in pairs:
        found = difference(a, b, where)
        if found:
            return found
    return None


def summary(value):
    """Returns a short string for a message."""
    text = repr(value)
    return text if len(text) <= 160 else text[:120] + f"...({len(text)})"
