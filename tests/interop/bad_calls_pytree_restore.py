"""Restores of the pytree handler that Orbax refuses; see bad_calls.

"v0" holds {"a": float32[8], "b": {"c": float64[2, 3], "n": 5, "s": "text"},
"j": a jax.Array of float64[2, 3]}.
"""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
from bad_calls import (
    CALLS,
    GOOD_TREE,
    Opaque,
    bad,
    restore,
    restore_args,
    standard,
    standard_tree,
)

__all__ = ["CALLS"]  # all of them, once this module is imported


def placed(count=1):
    """Returns a sharding over the first `count` devices."""
    if count == 1:
        return jax.sharding.SingleDeviceSharding(jax.devices()[0])
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:count]), ("x",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))


def bad_leaf(name, path, make, item=True):
    """Registers a restore of "v0" with the arguments `make(p)` for one leaf."""

    def call(p):
        args = jax.tree.map(lambda _: p.ocp.RestoreArgs(), GOOD_TREE())
        node = args
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = make(p)
        restore_args(p, GOOD_TREE() if item else None, restore_args=args)

    CALLS["leaf_" + name] = call


ARRAY, NUMBER, TEXT, SHARDED = ("a",), ("b", "n"), ("b", "s"), ("j",)

for _kind in (int, float, str, bool, bytes, list, Opaque, jax.Array,
              np.float32, object):
    for _name, _path in (("array", ARRAY), ("number", NUMBER), ("text", TEXT),
                         ("sharded", SHARDED)):
        bad_leaf(f"{_name}_as_{_kind.__name__}", _path,
                 lambda p, kind=_kind: p.ocp.RestoreArgs(restore_type=kind))
for _name, _path in (("array", ARRAY), ("number", NUMBER),
                     ("sharded", SHARDED), ("text", TEXT)):
    bad_leaf(f"{_name}_as_name", _path, lambda p: p.ocp.RestoreArgs(
        restore_type="np.ndarray"))
    bad_leaf(f"{_name}_as_unknown_name", _path, lambda p: p.ocp.RestoreArgs(
        restore_type="no such type"))
    bad_leaf(f"{_name}_dtype_class", _path, lambda p: p.ocp.RestoreArgs(
        dtype=jnp.bfloat16))
    bad_leaf(f"{_name}_dtype_text", _path, lambda p: p.ocp.RestoreArgs(
        dtype=np.dtype("U4")))
    bad_leaf(f"{_name}_dtype_object", _path, lambda p: p.ocp.RestoreArgs(
        dtype=np.dtype(object)))
    bad_leaf(f"{_name}_dtype_time", _path, lambda p: p.ocp.RestoreArgs(
        dtype=np.dtype("datetime64[s]")))
    bad_leaf(f"{_name}_unplaced", _path, lambda p: p.ocp.ArrayRestoreArgs())
    bad_leaf(f"{_name}_placed", _path, lambda p: p.ocp.ArrayRestoreArgs(
        sharding=placed()))
    bad_leaf(f"{_name}_mesh_alone", _path, lambda p: p.ocp.ArrayRestoreArgs(
        mesh=placed(2).mesh))
    bad_leaf(f"{_name}_axes_alone", _path, lambda p: p.ocp.ArrayRestoreArgs(
        mesh_axes=jax.sharding.PartitionSpec("x")))
    bad_leaf(f"{_name}_other_shape", _path, lambda p: p.ocp.ArrayRestoreArgs(
        sharding=placed(), global_shape=(3,)))
    bad_leaf(f"{_name}_other_rank", _path, lambda p: p.ocp.ArrayRestoreArgs(
        sharding=placed(), shape=(3, 1, 1), strict=False))
    bad_leaf(f"{_name}_no_elements", _path, lambda p: p.ocp.ArrayRestoreArgs(
        sharding=placed(), shape=(0,), strict=False))
    bad_leaf(f"{_name}_negative_shape", _path,
             lambda p: p.ocp.ArrayRestoreArgs(
                 sharding=placed(), shape=(-1,), strict=False))
    bad_leaf(f"{_name}_uneven", _path, lambda p: p.ocp.ArrayRestoreArgs(
        sharding=placed(7)))
    bad_leaf(f"{_name}_args_are_a_dict", _path, lambda p: {"dtype": None})
    bad_leaf(f"{_name}_args_are_none", _path, lambda p: None)
    bad_leaf(f"{_name}_args_are_save_args", _path, lambda p: p.ocp.SaveArgs())
    bad_leaf(f"{_name}_replica_alone", _path,
             lambda p: p.ocp.type_handlers.SingleReplicaArrayRestoreArgs())


bad_leaf("sharded_sharding_is_text", SHARDED,
         lambda p: p.ocp.ArrayRestoreArgs(sharding="cpu"))


# Devices that do not exist.
@bad
def leaf_sharding_of_lost_device(p):
    kind = p.ocp.metadata.SingleDeviceShardingMetadata
    args = p.ocp.ArrayRestoreArgs(sharding=kind(device_str="TFRT_CPU_99"))
    tree = jax.tree.map(lambda _: p.ocp.RestoreArgs(), GOOD_TREE())
    restore_args(p, GOOD_TREE(), restore_args=dict(tree, j=args))


@bad
def sharding_unknown_type(p):
    p.ocp.metadata.ShardingMetadata.from_serialized_string(
        '{"sharding_type": "NoSuchSharding"}')


@bad
def sharding_no_json(p):
    p.ocp.metadata.ShardingMetadata.from_serialized_string("{")


@bad
def sharding_positional(p):
    p.ocp.metadata.ShardingMetadata.from_serialized_string(
        '{"sharding_type": "PositionalSharding"}')


# Structures.
def bad_item(name, item, **options):
    def call(p):
        made = {key: value(p) if callable(value) else value
                for key, value in options.items()}
        restore_args(p, item(p), **made)

    CALLS["item_" + name] = call


bad_item("empty_dict", lambda p: {})
bad_item("empty_list", lambda p: [])
bad_item("number", lambda p: 0)
bad_item("nested_missing", lambda p: dict(GOOD_TREE(), b={"c": 0, "n": 0}))
bad_item("nested_more", lambda p: dict(
    GOOD_TREE(), b={"c": 0, "n": 0, "s": 0, "t": 0}))
bad_item("leaf_for_dict", lambda p: dict(GOOD_TREE(), b=0))
bad_item("dict_for_leaf", lambda p: dict(GOOD_TREE(), a={"x": 0}))
bad_item("list_for_nested_dict", lambda p: dict(GOOD_TREE(), b=[0, 0, 0]))
bad_item("none_for_leaf", lambda p: dict(GOOD_TREE(), a=None))
bad_item("empty_for_leaf", lambda p: dict(GOOD_TREE(), a={}))
bad_item("placeholder_and_missing", lambda p: {"a": ..., "j": 0})
bad_item("placeholder_and_more", lambda p: dict(GOOD_TREE(), a=..., z=0))
bad_item("placeholder_for_dict", lambda p: dict(GOOD_TREE(), b=...))
bad_item("placeholder_not_there", lambda p: dict(GOOD_TREE(), z=...))
bad_item("args_missing", lambda p: GOOD_TREE(), restore_args=lambda p: {})
bad_item("args_more", lambda p: GOOD_TREE(), restore_args=lambda p: dict(
    jax.tree.map(lambda _: p.ocp.RestoreArgs(), GOOD_TREE()), z=0))
bad_item("args_list", lambda p: GOOD_TREE(), restore_args=lambda p: [
    p.ocp.RestoreArgs()])
bad_item("args_one", lambda p: GOOD_TREE(),
         restore_args=lambda p: p.ocp.RestoreArgs())
bad_item("args_without_item_missing", lambda p: None,
         restore_args=lambda p: {"a": p.ocp.RestoreArgs()})
bad_item("partial_list_for_dict", lambda p: [0], partial_restore=True)
bad_item("partial_nested_list", lambda p: {"b": [0]}, partial_restore=True)
bad_item("partial_leaf_for_dict", lambda p: {"b": 0}, partial_restore=True)
bad_item("partial_dict_for_leaf", lambda p: {"a": {"x": 0}},
         partial_restore=True)
bad_item("partial_nothing_there", lambda p: {"z": 0}, partial_restore=True)
bad_item("partial_empty", lambda p: {}, partial_restore=True)
bad_item("partial_args_missing", lambda p: {"a": 0, "j": 0},
         restore_args=lambda p: {"a": p.ocp.RestoreArgs()},
         partial_restore=True)
bad_item("partial_args_more", lambda p: {"a": 0},
         restore_args=lambda p: {"a": p.ocp.RestoreArgs(),
                                 "j": p.ocp.RestoreArgs()},
         partial_restore=True)


CALLS.update(
    item_args_misplaced=lambda p: p.ocp.PyTreeCheckpointHandler().restore(
        p.root / "v0", p.ocp.args.PyTreeRestore()),
    item_save_args=lambda p: p.ocp.PyTreeCheckpointer().restore(
        p.root / "v0", args=p.ocp.args.PyTreeSave(GOOD_TREE())),
    handler_restore_missing=lambda p: p.ocp.PyTreeCheckpointHandler().restore(
        p.root / "empty" / "nowhere"),
    handler_metadata_missing=lambda p: p.ocp.PyTreeCheckpointHandler().metadata(
        p.root / "empty"))


@bad
def item_metadata_of_another(p):
    p.ocp.PyTreeCheckpointer().save(p.root / "other", {"x": np.ones(2)})
    found = p.ocp.PyTreeCheckpointer().metadata(p.root / "other")
    restore_args(p, found.item_metadata)


# Lost or damaged files. The list of checksums, which Orbax does not write, is
# removed, because it would reveal the damage.
def wounded(name, wound, call, saved="v0"):
    def run(p):
        path = p.root / saved
        if not path.exists():
            SAVED[saved](p, path)
        (path / "_HOLDFAST_DIGESTS").unlink(missing_ok=True)
        wound(path)
        call(p, saved)

    CALLS["lost_" + name] = run


def save_files(p, path):
    p.ocp.PyTreeCheckpointer(use_ocdbt=False).save(path, GOOD_TREE())


def save_files_zarr3(p, path):
    p.ocp.PyTreeCheckpointer(use_ocdbt=False, use_zarr3=True).save(
        path, GOOD_TREE())


SAVED = {"files": save_files, "files3": save_files_zarr3}


def drop(name):
    def wound(path):
        target = path / name
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()

    return wound


def drop_sharding_entry(path):
    (path / "_sharding").write_text("{}")


def change_metadata(change):
    def wound(path):
        data = json.loads((path / "_METADATA").read_text())
        change(data)
        (path / "_METADATA").write_text(json.dumps(data))

    return wound


def with_item(p, name):
    restore_args(p, GOOD_TREE(), name=name)


wounded("tree_metadata", drop("_METADATA"), restore)
wounded("tree_metadata_with_item", drop("_METADATA"), with_item)
wounded("tree_metadata_files", drop("_METADATA"), restore, "files")
wounded("tree_metadata_files_item", drop("_METADATA"), with_item, "files")
wounded("tree_metadata_empty", change_metadata(
    lambda data: data["tree_metadata"].clear()), restore)
wounded("tree_metadata_key", change_metadata(
    lambda data: data.pop("tree_metadata")), restore)
wounded("tree_metadata_unknown_type", change_metadata(
    lambda data: data["tree_metadata"]["('a',)"]["value_metadata"].update(
        value_type="NoSuchType")), restore)
wounded("sharding", drop("_sharding"), restore)
wounded("sharding_entry", drop_sharding_entry, restore)
wounded("sharding_entry_metadata", drop_sharding_entry,
        lambda p, name: p.ocp.PyTreeCheckpointHandler().metadata(
            p.ocp.test_utils.epath.Path(p.root / name)
            if hasattr(p.ocp.test_utils, "epath") else p.root / name))
wounded("sharding_no_json", lambda path: (path / "_sharding").write_text(
    "{"), restore)
wounded("array_metadatas", drop("array_metadatas"), restore)
wounded("manifest", drop("manifest.ocdbt"), restore)
wounded("strings", drop("_strings.json"), restore)
wounded("strings_entry", lambda path: (path / "_strings.json").write_text(
    "{}"), restore)
wounded("parameter", drop("a"), restore, "files")
wounded("parameter_zarray", drop("a/.zarray"), restore, "files")
wounded("parameter_zarr_json", drop("a/zarr.json"), restore, "files3")
wounded("parameter_chunk", drop("a/0"), restore, "files")
wounded("jax_parameter", drop("j"), restore, "files")
wounded("jax_parameter_zarray", drop("j/.zarray"), restore, "files")
wounded("jax_parameter_chunk", drop("j/0.0"), restore, "files")
wounded("jax_parameter_zarr_json", drop("j/zarr.json"), restore, "files3")


# construct_restore_args and the standard handler.
CALLS.update(
    construct_opaque=lambda p: p.ocp.checkpoint_utils.construct_restore_args(
        {"a": Opaque()}),
    construct_numpy_scalar=lambda p:
        p.ocp.checkpoint_utils.construct_restore_args({"a": np.float32(1)}))


@bad
def construct_shardings_missing(p):
    p.ocp.checkpoint_utils.construct_restore_args(
        {"a": jnp.ones(2), "b": jnp.ones(2)}, {"a": placed()})


@bad
def construct_shardings_none(p):
    p.ocp.checkpoint_utils.construct_restore_args(
        {"a": jnp.ones(2)}, {"a": None})


def bad_standard_target(name, make, **options):
    def call(p):
        handler = p.ocp.StandardCheckpointHandler()
        with p.ocp.Checkpointer(handler) as checkpointer:
            checkpointer.restore(p.root / "standard", args=(
                p.ocp.args.StandardRestore(make(p), **options)))

    CALLS["standard_target_" + name] = call


bad_standard_target("string", lambda p: dict(standard_tree(), a="text"))
bad_standard_target("opaque", lambda p: dict(standard_tree(), a=Opaque()))
bad_standard_target("none", lambda p: dict(standard_tree(), a=None))
bad_standard_target("placeholder", lambda p: dict(standard_tree(), a=...))
bad_standard_target("placeholders", lambda p: ...)
bad_standard_target("more", lambda p: dict(standard_tree(), z=np.ones(2)))
bad_standard_target("list", lambda p: list(standard_tree().values()))
bad_standard_target("number", lambda p: 5)
bad_standard_target("empty", lambda p: {})
bad_standard_target("float_for_array", lambda p: dict(standard_tree(), a=1.5))
bad_standard_target("array_for_number", lambda p: dict(
    standard_tree(), b={"c": np.ones((2, 3)), "n": np.ones(2)}))
bad_standard_target("abstract_for_number", lambda p: dict(
    standard_tree(), b={"c": np.ones((2, 3)), "n": jax.ShapeDtypeStruct(
        (2,), np.int32, sharding=placed())}))
bad_standard_target("other_shape", lambda p: dict(
    standard_tree(), j=jax.ShapeDtypeStruct((4, 3), np.float32,
                                            sharding=placed())))
bad_standard_target("other_rank_padded", lambda p: dict(
    standard_tree(), j=jax.ShapeDtypeStruct((6,), np.float32,
                                            sharding=placed())), strict=False)
bad_standard_target("unplaced_numpy", lambda p: dict(
    standard_tree(), a=jax.ShapeDtypeStruct((8,), np.float32)))
bad_standard_target("uneven", lambda p: dict(
    standard_tree(), a=jax.ShapeDtypeStruct((8,), np.float32,
                                            sharding=placed(7))))


CALLS.update(
    standard_args_misplaced=lambda p: p.ocp.StandardCheckpointHandler().restore(
        p.root / "standard", p.ocp.args.StandardRestore()),
    standard_of_strings=lambda p: standard(p, name="v0"),
    standard_of_strings_target=lambda p: standard(p, GOOD_TREE(), name="v0"))


@bad
def standard_save_metadata(p):
    with p.ocp.StandardCheckpointer() as checkpointer:
        found = checkpointer.metadata(p.root / "standard").item_metadata
        checkpointer.save(p.dest, found)


@bad
def standard_save_aggregate(p):
    with p.ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(p.dest, {"a": np.ones(2)}, save_args={
            "a": p.ocp.SaveArgs(aggregate=True)})
