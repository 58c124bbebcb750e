"""Calls of the pytree handler that Orbax refuses: saves, type handlers, storage
specs. bad_calls describes what a call is. The restores are in
bad_calls_pytree_restore.
"""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
from bad_calls import CALLS, GOOD_TREE, Opaque, bad, bad_save

__all__ = ["CALLS"]  # all of them, once this module is imported


def save_args(**options):
    """Returns a function that makes a tree of SaveArgs for one leaf "a"."""
    return lambda p: {"a": p.ocp.SaveArgs(**options)}


def numpy_leaf(_):
    return {"a": np.arange(16, dtype=np.float32).reshape(4, 4)}


def jax_leaf(_):
    return {"a": jnp.arange(16, dtype=jnp.float32).reshape(4, 4)}


LEAVES = {"numpy": numpy_leaf, "jax": jax_leaf}
LAYOUTS = {"zarr2": {}, "zarr3": {"use_zarr3": True},
           "files": {"use_ocdbt": False}}

for _leaf, _item in LEAVES.items():
    for _layout, _options in LAYOUTS.items():
        _name = f"{_leaf}_{_layout}"
        bad_save(f"chunk_too_small_{_name}", _item, handler=_options,
                 save_args=save_args(chunk_byte_size=1))
        bad_save(f"chunk_of_no_bytes_{_name}", _item, handler=_options,
                 save_args=save_args(chunk_byte_size=0))
        bad_save(f"chunk_negative_{_name}", _item, handler=_options,
                 save_args=save_args(chunk_byte_size=-5))
        bad_save(f"axis_too_large_{_name}", _item, handler=_options,
                 save_args=save_args(chunk_byte_size=16, shard_axes=(0, 5)))
        bad_save(f"axis_negative_{_name}", _item, handler=_options,
                 save_args=save_args(chunk_byte_size=16, shard_axes=(-1,)))
        bad_save(f"axis_twice_{_name}", _item, handler=_options,
                 save_args=save_args(chunk_byte_size=16, shard_axes=(0, 0)))
        bad_save(f"axis_alone_{_name}", _item, handler=_options,
                 save_args=save_args(shard_axes=(7,)))
        bad_save(f"file_bytes_negative_{_name}", _item, handler=_options,
                 ocdbt_target_data_file_size=-1)
        bad_save(f"file_bytes_below_element_{_name}", _item, handler=_options,
                 ocdbt_target_data_file_size=1)
    bad_save(f"dtype_class_{_leaf}", _item, save_args=save_args(
        dtype=jnp.bfloat16))
    bad_save(f"dtype_numpy_class_{_leaf}", _item, save_args=save_args(
        dtype=np.float16))
    bad_save(f"dtype_name_{_leaf}", _item, save_args=save_args(
        dtype="float16"))
    bad_save(f"dtype_object_{_leaf}", _item, save_args=save_args(
        dtype=np.dtype(object)))
    bad_save(f"dtype_time_{_leaf}", _item, save_args=save_args(
        dtype=np.dtype("datetime64[s]")))

bad_save("chunk_too_small_scalar", lambda p: {"a": 5},
         save_args=save_args(chunk_byte_size=1))
bad_save("dtype_for_string", lambda p: {"a": "text"},
         save_args=save_args(dtype=np.dtype("int32")))
bad_save("dtype_for_key", lambda p: {"a": jax.random.key(0)},
         save_args=save_args(dtype=np.dtype("float32")))


# Complete trees and their arguments.
bad_save("tree_list_empty", lambda p: [])
bad_save("tree_tuple_empty", lambda p: ())
bad_save("tree_of_none", lambda p: [None])
bad_save("tree_of_empties", lambda p: {"a": {}, "b": [(), None]})
bad_save("only_placeholders", lambda p: {"a": ...})
bad_save("zero_size_numpy", lambda p: {"a": np.zeros((2, 0))})
bad_save("zero_size_sharded", lambda p: {"a": sharded_nothing()})
bad_save("zero_size_and_good", lambda p: {"a": np.ones(3),
                                          "b": jnp.zeros((0,))})
bad_save("zero_size_files", lambda p: {"a": np.zeros(0)},
         handler={"use_ocdbt": False})
bad_save("bytes_and_good", lambda p: {"a": np.ones(3), "b": b"x"})
bad_save("opaque_and_good", lambda p: {"a": np.ones(3), "b": Opaque()})
bad_save("collision_with_string", lambda p: {"a.b": "x", "a": {"b": "y"}})
bad_save("metadata_set", numpy_leaf, custom_metadata={"x": {1, 2}})
bad_save("metadata_bytes", numpy_leaf, custom_metadata={"x": b"1"})
bad_save("metadata_array", numpy_leaf,
         custom_metadata=lambda p: {"x": np.ones(2)})
bad_save("metadata_object", numpy_leaf, custom_metadata=lambda p: object())
bad_save("metadata_tuple_key", numpy_leaf, custom_metadata={(1, 2): 3})
bad_save("metadata_int_key", numpy_leaf, custom_metadata={1: 3})
bad_save("metadata_list", numpy_leaf, custom_metadata=[1, 2])
bad_save("metadata_nan", numpy_leaf, custom_metadata={"x": float("nan")})
bad_save("save_args_extra", numpy_leaf, save_args=lambda p: {
    "a": p.ocp.SaveArgs(), "b": p.ocp.SaveArgs()})
bad_save("save_args_empty", numpy_leaf, save_args={})
bad_save("save_args_list", numpy_leaf, save_args=lambda p: [p.ocp.SaveArgs()])
bad_save("save_args_none_leaf", numpy_leaf, save_args={"a": None})
bad_save("save_args_wrong_class", numpy_leaf, save_args=lambda p: {
    "a": p.ocp.RestoreArgs()})


def sharded_nothing():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    return jax.device_put(np.zeros((8, 0)), jax.sharding.NamedSharding(
        mesh, jax.sharding.PartitionSpec("x")))


CALLS.update(
    pytree_save_args_misplaced=lambda p: p.ocp.PyTreeCheckpointHandler().save(
        p.root / "empty", p.ocp.args.PyTreeSave(GOOD_TREE())),
    pytree_save_restore_args=lambda p: p.ocp.PyTreeCheckpointer().save(
        p.dest, args=p.ocp.args.PyTreeRestore()),
    pytree_save_without_item=lambda p: p.ocp.PyTreeCheckpointer().save(p.dest),
    pytree_save_relative=lambda p: p.ocp.PyTreeCheckpointHandler().save(
        p.ocp.test_utils.epath.Path("relative")
        if hasattr(p.ocp.test_utils, "epath") else "relative", GOOD_TREE()),
    pytree_save_forced_bad_leaf=lambda p: p.ocp.PyTreeCheckpointer().save(
        p.root / "v0", {"a": Opaque()}, force=True))


@bad
def pytree_save_metadata(p):
    found = p.ocp.PyTreeCheckpointer().metadata(p.root / "v0")
    p.ocp.PyTreeCheckpointer().save(
        p.dest, args=p.ocp.args.PyTreeSave(found.item_metadata))


# Options of the handler.
def bad_handler(name, **options):
    def call(p):
        handler = p.ocp.PyTreeCheckpointHandler(**options)
        with p.ocp.Checkpointer(handler) as checkpointer:
            checkpointer.save(p.dest, args=p.ocp.args.PyTreeSave(jax_leaf(p)))
            checkpointer.restore(p.dest)

    CALLS["handler_" + name] = call


for _option in ("save_concurrent_gb", "restore_concurrent_gb",
                "save_device_host_concurrent_gb"):
    bad_handler(f"{_option}_zero", **{_option: 0})
    bad_handler(f"{_option}_negative", **{_option: -1})
bad_handler("transfer_word", save_device_host_concurrent_gb="fast")
bad_handler("auto_without_limit", save_device_host_concurrent_gb="auto")
bad_handler("auto_for_save", save_concurrent_gb="auto")
bad_handler("auto_for_restore", restore_concurrent_gb="auto")
bad_handler("unknown_option", no_such_option=1)
bad_handler("priority_fails", is_prioritized_key_fn=lambda key: 1 // 0)
bad_handler("priority_no_function", is_prioritized_key_fn=5)


CALLS.update(
    handler_auto_with_half_a_limit=lambda p: p.ocp.PyTreeCheckpointHandler(
        save_device_host_concurrent_gb="auto",
        memory_limit_options=p.ocp.options.MemoryLimitOptions()),
    handler_positional_limits=lambda p: p.ocp.PyTreeCheckpointHandler(
        "checkpoint", 96))


# Type handlers and their registry.
CALLS.update(
    registry_unknown_type=lambda p: p.ocp.type_handlers.get_type_handler(
        Opaque),
    registry_unknown_name=lambda p: p.ocp.type_handlers.get_type_handler(
        "no such type"),
    registry_of_nothing=lambda p:
        p.ocp.type_handlers.create_type_handler_registry().get(int),
    registry_options_missing=lambda p:
        p.ocp.type_handlers.register_standard_handlers_with_options(),
    type_handler_abstract=lambda p: p.ocp.type_handlers.TypeHandler(),
    array_handler_no_replica=lambda p: p.ocp.type_handlers.ArrayHandler(
        replica_id=None, use_replica_parallel=True),
    input_arguments_lengths=lambda p: p.ocp.type_handlers.check_input_arguments(
        [1, 2], [3]),
    input_arguments_empty=lambda p: p.ocp.type_handlers.check_input_arguments(
        [], []))


def scalar_handler(p):
    return p.ocp.type_handlers.ScalarHandler()


def registry_of_int(p):
    return p.ocp.type_handlers.create_type_handler_registry(
        (int, scalar_handler(p)))


def checkpointer_of_int(p):
    return p.ocp.Checkpointer(p.ocp.PyTreeCheckpointHandler(
        type_handler_registry=registry_of_int(p)))


CALLS.update(
    registry_type_twice=lambda p: p.ocp.type_handlers.register_type_handler(
        int, scalar_handler(p)),
    registry_subtype_of_known=lambda p:
        p.ocp.type_handlers.register_type_handler(bool, scalar_handler(p)),
    registry_typestr_twice=lambda p: registry_of_int(p).add(
        complex, scalar_handler(p)),
    registry_without_arrays_save=lambda p: checkpointer_of_int(p).save(
        p.dest, args=p.ocp.args.PyTreeSave(GOOD_TREE())),
    registry_without_arrays_restore=lambda p: checkpointer_of_int(p).restore(
        p.root / "v0"),
    array_restore_shapes=lambda p:
        p.ocp.type_handlers.SingleReplicaArrayRestoreArgs(
            shape=(2,), global_shape=(3,)))


# Specs.
def specs(p):
    """Returns the module tensorstore_utils; Orbax exports only a part of it."""
    if p.ocp.__name__.startswith("holdfast"):
        return p.ocp.serialization.ts_utils
    return importlib.import_module(
        "orbax.checkpoint._src.serialization.tensorstore_utils")


def write_spec(p, **options):
    return specs(p).ArrayWriteSpec(
        "/dir", "a", global_shape=(4,), dtype=np.dtype("int32"),
        use_ocdbt=True, **options)


CALLS.update(
    spec_relative_directory=lambda p: specs(p).build_kvstore_tspec(
        "relative/dir", "a"),
    spec_write_chunk_too_small=lambda p: write_spec(
        p, write_shape=(4,), chunk_byte_size=1),
    spec_write_axis_out_of_range=lambda p: write_spec(
        p, write_shape=(4,), chunk_byte_size=8, shard_axes=(1,)),
    spec_write_ranks_differ=lambda p: write_spec(
        p, write_shape=(4, 1), chunk_byte_size=8))


@bad
def spec_write_of_no_name(p):
    specs(p).build_array_write_spec(
        p.ocp.type_handlers.ParamInfo(name=None, parent_dir=None),
        global_shape=(2,), local_shape=(2,), dtype=np.dtype("int32"),
        use_ocdbt=True)


@bad
def spec_read_of_no_directory(p):
    info = p.ocp.type_handlers.ParamInfo(name="a", parent_dir=None)
    specs(p).build_array_read_spec(info, use_ocdbt=True)
