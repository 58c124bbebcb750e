"""Calls that Orbax refuses. Each is a function of a `Package` `p`.

`p.ocp` and `p.v1` are the package under test. `p.root` has the good checkpoints
"v0" (flat) and "v1" of GOOD_TREE, an "empty" directory, a "file" and an
unfinished checkpoint. A save may write to `p.dest`.
"""

import jax
import jax.numpy as jnp
import numpy as np

CALLS = {}


def GOOD_TREE():  # a constant, but a new tree for each call
    return {"a": np.arange(8, dtype=np.float32),
            "b": {"c": np.ones((2, 3)), "n": 5, "s": "text"},
            "j": jnp.arange(6.0).reshape(2, 3)}


# Calls on which Orbax crashes rather than refuses: any error is accepted.
ANY_ERROR = ("save_dtype_numpy_class_numpy", "save_dtype_numpy_class_jax",
             "spec_write_of_no_name", "spec_read_of_no_directory",
             "v1_load_array_as_str", "v1_save_no_path", "v1_save_slash_name",
             "v1_save_dotdot_name")


def standard_tree():
    """Returns GOOD_TREE without its string, which StandardCheckpointer
    refuses."""
    tree = GOOD_TREE()
    del tree["b"]["s"]
    return tree


def bad(call):
    """Registers a call under its name."""
    CALLS[call.__name__] = call
    return call


def bad_save(name, item, *, handler=None, **options):
    """Registers a save of `item(p)` to `p.dest` by the pytree handler."""

    def call(p):
        handler_object = p.ocp.PyTreeCheckpointHandler(**(handler or {}))
        with p.ocp.Checkpointer(handler_object) as checkpointer:
            args = {key: value(p) if callable(value) else value
                    for key, value in options.items()}
            checkpointer.save(p.dest, args=p.ocp.args.PyTreeSave(
                item(p), **args))

    CALLS["save_" + name] = call


def bad_standard(name, item, **options):
    def call(p):
        with p.ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(p.dest, item(p), **options)

    CALLS["standard_" + name] = call


def bad_v1(name, item, **options):
    def call(p):
        p.v1.save(p.dest, item(p), **options)

    CALLS["v1_save_" + name] = call


class Opaque:
    """A leaf whose type no handler knows."""


LEAVES = {
    "zero_size": lambda p: {"a": np.zeros((0, 3), np.float32)},
    "zero_size_jax": lambda p: {"a": jnp.zeros((2, 0))},
    "bytes": lambda p: {"a": b"abc"},
    "np_bool": lambda p: {"a": np.bool_(True)},
    "complex": lambda p: {"a": 1 + 2j},
    "huge_int": lambda p: {"a": 2**70},
    "str_array": lambda p: {"a": np.array(["ab", "c"])},
    "object_array": lambda p: {"a": np.array([object(), None])},
    "datetime": lambda p: {"a": np.array(["2020-01-01"], "datetime64[s]")},
    "struct_array": lambda p: {"a": np.zeros(3, [("x", "i4")])},
    "class_leaf": lambda p: {"a": object},
    "opaque_leaf": lambda p: {"a": Opaque()},
    "set_leaf": lambda p: {"a": {1, 2}},
    "uint4": lambda p: {"a": np.zeros(3).astype(jnp.uint4)},
    "longdouble": lambda p: {"a": np.ones(2, np.longdouble)},
    "mixed_keys": lambda p: {1: np.ones(2), "a": np.ones(2)},
    "empty": lambda p: {},
    "only_empties": lambda p: {"a": None, "b": {}},
    "none": lambda p: None,
    "collision": lambda p: {"a.b": np.ones(2), "a": {"b": np.zeros(3)}},
    "abstract_leaf": lambda p: {"a": jax.ShapeDtypeStruct((2,), np.float32)},
    "placeholder": lambda p: {"a": ..., "b": np.ones(2)},
    "np_float32": lambda p: {"a": np.float32(1)},
    "np_float64": lambda p: {"a": np.float64(1)},
    "str_leaf": lambda p: {"a": "text"},
    "single_array": lambda p: np.ones(3),
    "single_int": lambda p: 5,
    "deleted_jax_array": lambda p: {"a": deleted_array()},
}


def deleted_array():
    array = jnp.ones(3)
    array.delete()
    return array


for _name, _item in LEAVES.items():
    bad_save(_name, _item)
    bad_standard(_name, _item)
    bad_v1(_name, _item)

bad_save("uint2_zarr3", lambda p: {"a": np.zeros(3).astype(jnp.dtype("uint2"))},
         handler={"use_zarr3": True})
bad_save("tilde_in_string_key", lambda p: {"a~b": "text"})
bad_save("dotdot_directory", lambda p: {"..": np.ones(2)},
         handler={"use_ocdbt": False})
bad_save("long_directory", lambda p: {"x" * 300: np.ones(2)},
         handler={"use_ocdbt": False})
bad_save("tiny_chunk_bytes", lambda p: {"a": np.ones(4)},
         save_args=lambda p: {"a": p.ocp.SaveArgs(chunk_byte_size=4)})
bad_save("shard_axis_out_of_range", lambda p: {"a": np.ones((2, 2))},
         save_args=lambda p: {"a": p.ocp.SaveArgs(shard_axes=(2,))})
bad_save("negative_file_size", lambda p: {"a": jnp.ones(3)},
         ocdbt_target_data_file_size=-1)
bad_save("metadata_not_json", lambda p: {"a": np.ones(3)},
         custom_metadata=lambda p: {"x": object()})
bad_save("save_args_structure", lambda p: {"a": np.ones(3), "b": np.ones(2)},
         save_args=lambda p: {"a": p.ocp.SaveArgs()})
bad_save("save_args_unknown_dtype", lambda p: {"a": np.ones(3)},
         save_args=lambda p: {"a": p.ocp.SaveArgs(dtype=np.dtype("U4"))})


CALLS.update(
    save_relative_path=lambda p: p.ocp.PyTreeCheckpointer().save(
        "relative/ckpt", GOOD_TREE()),
    save_over_file=lambda p: p.ocp.PyTreeCheckpointer().save(
        p.root / "file", GOOD_TREE()),
    save_below_file=lambda p: p.ocp.PyTreeCheckpointer().save(
        p.root / "file" / "ckpt", GOOD_TREE()),
    save_unknown_argument=lambda p: p.ocp.PyTreeCheckpointer().save(
        p.dest, GOOD_TREE(), no_such_option=1),
    checkpointer_unknown_option=lambda p: p.ocp.PyTreeCheckpointer(
        no_such_option=1))


@bad
def save_twice(p):
    p.ocp.PyTreeCheckpointer().save(p.dest, GOOD_TREE())
    p.ocp.PyTreeCheckpointer().save(p.dest, GOOD_TREE())


@bad
def save_checkpointer_metadata_not_json(p):
    p.ocp.PyTreeCheckpointer().save(p.dest, GOOD_TREE(),
                                    custom_metadata={"x": object()})


# Restores of v0.
def restore(p, name="v0", **kwargs):
    return p.ocp.PyTreeCheckpointer().restore(p.root / name, **kwargs)


def restore_args(p, item=None, name="v0", **kwargs):
    handler = p.ocp.PyTreeCheckpointHandler()
    with p.ocp.Checkpointer(handler) as checkpointer:
        args = p.ocp.args.PyTreeRestore(item, **kwargs)
        return checkpointer.restore(p.root / name, args=args)


def standard(p, target=None, name="standard", **kwargs):
    with p.ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(p.root / name, target, **kwargs)


CALLS.update(
    restore_missing=lambda p: restore(p, "nowhere"),
    restore_empty_directory=lambda p: restore(p, "empty"),
    restore_file=lambda p: restore(p, "file"),
    restore_unfinished=lambda p: restore(p, "half.orbax-checkpoint-tmp"),
    restore_relative_path=lambda p: p.ocp.PyTreeCheckpointer().restore(
        "no/such/relative"),
    restore_fewer_keys=lambda p: restore_args(p, {"a": 0}),
    restore_more_keys=lambda p: restore_args(p, dict(GOOD_TREE(), extra=0)),
    restore_list_for_dict=lambda p: restore_args(
        p, [0, {"c": 0, "n": 0, "s": 0}, 0]),
    restore_args_structure=lambda p: restore_args(
        p, GOOD_TREE(), restore_args={"a": p.ocp.RestoreArgs()}),
    restore_shapes_disagree=lambda p: p.ocp.ArrayRestoreArgs(
        shape=(2,), global_shape=(3,)),
    restore_two_transforms=lambda p: restore_args(
        p, {"x": 0}, transforms={}, legacy_transform_fn=lambda *a: a,
        restore_args={"x": p.ocp.RestoreArgs()}),
    restore_transforms_alone=lambda p: restore_args(
        p, transforms={"x": p.ocp.Transform(original_key="a")}),
    restore_v1_root=lambda p: restore(p, "v1"),
    standard_array_as_scalar=lambda p: standard(p, dict(standard_tree(), a=5)),
    standard_numpy_other_shape=lambda p: standard(
        p, dict(standard_tree(), a=np.zeros(3))),
    standard_missing_path=lambda p: standard(p, name="nowhere"),
    metadata_missing_path=lambda p: p.ocp.PyTreeCheckpointer().metadata(
        p.root / "nowhere"))


@bad
def restore_wrong_shape(p):
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    args = jax.tree.map(lambda _: p.ocp.RestoreArgs(), GOOD_TREE())
    args["j"] = p.ocp.ArrayRestoreArgs(global_shape=(3, 3), sharding=sharding)
    restore_args(p, GOOD_TREE(), restore_args=args)


@bad
def restore_wrong_rank(p):
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    args = jax.tree.map(lambda _: p.ocp.RestoreArgs(), GOOD_TREE())
    args["j"] = p.ocp.ArrayRestoreArgs(global_shape=(6,), sharding=sharding,
                                       strict=False)
    restore_args(p, GOOD_TREE(), restore_args=args)


@bad
def restore_string_as_array(p):
    args = jax.tree.map(lambda _: p.ocp.RestoreArgs(), GOOD_TREE())
    args["b"]["s"] = p.ocp.RestoreArgs(restore_type=np.ndarray)
    restore_args(p, GOOD_TREE(), restore_args=args)


@bad
def restore_metadata_lost(p):
    (p.root / "standard" / "_METADATA").unlink()
    standard(p)


@bad
def restore_metadata_damaged(p):
    (p.root / "v0" / "_METADATA").write_text("{not json")
    restore(p)


@bad
def restore_manifest_lost(p):
    (p.root / "v0" / "manifest.ocdbt").unlink()
    restore(p)


@bad
def restore_strings_lost(p):
    (p.root / "v0" / "_strings.json").unlink()
    restore(p)


@bad
def restore_data_lost(p):
    p.ocp.PyTreeCheckpointer().save(
        p.root / "big", {"w": np.random.default_rng(0).random((64, 64))})
    for data in (p.root / "big" / "ocdbt.process_0" / "d").iterdir():
        data.unlink()
    restore(p, "big")


@bad
def standard_wrong_shape(p):
    target = standard_tree()
    target["j"] = jax.ShapeDtypeStruct(
        (3, 3), np.float32,
        sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    standard(p, target)


@bad
def standard_missing_key(p):
    target = standard_tree()
    del target["a"]
    standard(p, target)


# JSON and single arrays.
def save_item(p, handler, args):
    with p.ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(p.dest, args=args)


CALLS.update(
    json_missing=lambda p: p.ocp.JsonCheckpointHandler().restore(
        p.root / "empty"),
    json_not_serializable=lambda p: save_item(
        p, p.ocp.JsonCheckpointHandler(), p.ocp.args.JsonSave({"x": object()})),
    array_wrong_item=lambda p: p.ocp.ArrayCheckpointHandler().restore(
        p.root / "v0", args=p.ocp.args.ArrayRestore()),
    array_of_dict=lambda p: save_item(
        p, p.ocp.ArrayCheckpointHandler(), p.ocp.args.ArraySave({"a": 1})),
    array_of_str=lambda p: save_item(
        p, p.ocp.ArrayCheckpointHandler(), p.ocp.args.ArraySave("text")))


@bad
def json_damaged(p):
    (p.root / "empty" / "metadata").write_text("{")
    p.ocp.JsonCheckpointHandler().restore(p.root / "empty")


# Trees.
CALLS.update(
    tree_from_nothing=lambda p: p.ocp.tree.from_flat_dict(
        {"a": 1}, {"a": 0, "b": 0}, sep="/"),
    tree_trim_missing=lambda p: p.ocp.tree.tree_trim(
        {"a": 0, "b": 0}, {"a": 1}),
    tree_trim_kinds=lambda p: p.ocp.tree.tree_trim({"a": 0}, [1]),
    tree_trim_lengths=lambda p: p.ocp.tree.tree_trim([1], [1, 2]),
    tree_merge_common=lambda p: p.ocp.tree.merge_trees({"a": 1}, {"a": 2}),
    tree_serialize_empty=lambda p: p.ocp.tree.serialize_tree({}))
