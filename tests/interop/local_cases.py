"""Saves in which every process has its own directory (primary_host None), in
Orbax and holdfast.orbax. Every process of a `process_jobs.Job` calls these
functions with the same arguments.
"""

import jax
import numpy as np

from orbax_files import stored_texts
from process_cases import package

FULL = np.arange(64, dtype=np.float32).reshape(8, 8)
SPECS = {"all": ("x", "y"), "rows": ("y",), "copies": (), "columns": (None, "x")}


def _shardings():
    devices = np.array(jax.devices()).reshape(2, -1)
    mesh = jax.sharding.Mesh(devices, ("x", "y"))
    return {name: jax.sharding.NamedSharding(
        mesh, jax.sharding.PartitionSpec(*spec))
        for name, spec in SPECS.items()}


def _checkpointer(which, use_ocdbt, use_zarr3):
    ocp = package(which)
    handlers = ocp.type_handlers
    if which == "orbax":
        from orbax.checkpoint._src.metadata.array_metadata_store import Store
    else:
        from holdfast.orbax._type_handlers.array_metadata import Store
    registry = handlers.create_type_handler_registry(
        (jax.Array, handlers.ArrayHandler(
            primary_host=None, replica_id=None, use_replica_parallel=False,
            array_metadata_store=Store(primary_host=None))))
    options = ocp.options.MultiprocessingOptions(primary_host=None)
    handler = ocp.PyTreeCheckpointHandler(
        type_handler_registry=registry, multiprocessing_options=options,
        use_ocdbt=use_ocdbt, use_zarr3=use_zarr3)
    return ocp, ocp.Checkpointer(handler, multiprocessing_options=options)


def _path(root, which):
    return f"{root}/{which}-of-{jax.process_index()}"


def save(root, which, use_ocdbt, use_zarr3):
    tree = {name: jax.make_array_from_callback(
        FULL.shape, sharding, lambda index: FULL[index])
        for name, sharding in _shardings().items()}
    ocp, checkpointer = _checkpointer(which, use_ocdbt, use_zarr3)
    checkpointer.save(_path(root, which), args=ocp.args.PyTreeSave(tree))


def restore(root, writer, reader, use_ocdbt, use_zarr3):
    """Restores this process's part and returns the problems with it."""
    ocp, checkpointer = _checkpointer(reader, use_ocdbt, use_zarr3)
    args = {name: ocp.ArrayRestoreArgs(sharding=sharding)
            for name, sharding in _shardings().items()}
    tree = checkpointer.restore(
        _path(root, writer), args=ocp.args.PyTreeRestore(restore_args=args))
    return [f"{name} at {shard.index}" for name in SPECS
            for shard in tree[name].addressable_shards
            if not np.array_equal(shard.data, FULL[shard.index])]


def compare(root, use_ocdbt):
    """Returns the differences between this process's files, except for data."""
    want, got = (stored_texts(_path(root, which), use_ocdbt)
                 for which in ("orbax", "holdfast"))
    return [f"{name}: {got.get(name)!r}, want {want.get(name)!r}"
            for name in sorted(want.keys() | got.keys())
            if want.get(name) != got.get(name)]
