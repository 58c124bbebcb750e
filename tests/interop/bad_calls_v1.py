"""Calls that Orbax's v1 interface refuses; bad_calls describes what a call
is."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
from bad_calls import CALLS, GOOD_TREE, Opaque, bad, bad_v1

__all__ = ["CALLS"]  # all of them, once this module is imported


# Saves of v1.
@bad
def v1_save_twice(p):
    p.v1.save(p.dest, GOOD_TREE())
    p.v1.save(p.dest, GOOD_TREE())


bad_v1("empty_name", lambda p: GOOD_TREE(), checkpointable_name="")
bad_v1("reserved_name", lambda p: GOOD_TREE(), checkpointable_name="metrics")
bad_v1("auto_name", lambda p: GOOD_TREE(), checkpointable_name="AUTO")
bad_v1("slash_name", lambda p: GOOD_TREE(), checkpointable_name="a/b")
bad_v1("dotdot_name", lambda p: GOOD_TREE(), checkpointable_name="..")
bad_v1("int_name", lambda p: GOOD_TREE(), checkpointable_name=5)
bad_v1("metadata_not_json", lambda p: GOOD_TREE(),
       custom_metadata={"x": object()})
bad_v1("metadata_not_dict", lambda p: GOOD_TREE(), custom_metadata=5)


def save_items(p, items):
    p.v1.save_checkpointables(p.dest, items)


CALLS.update(
    v1_save_relative=lambda p: p.v1.save("relative/ckpt", GOOD_TREE()),
    v1_save_no_path=lambda p: p.v1.save(None, GOOD_TREE()),
    v1_save_below_file=lambda p: p.v1.save(
        p.root / "file" / "ckpt", GOOD_TREE()),
    v1_save_items_empty=lambda p: save_items(p, {}),
    v1_save_items_list=lambda p: save_items(p, [GOOD_TREE()]),
    v1_save_items_none=lambda p: save_items(p, {"a": None}),
    v1_save_items_opaque=lambda p: save_items(p, {"a": Opaque()}),
    v1_save_items_set=lambda p: save_items(p, {"a": {1, 2}}),
    v1_save_items_reserved=lambda p: save_items(p, {"metrics": {"a": 1}}),
    v1_save_items_empty_name=lambda p: save_items(p, {"": GOOD_TREE()}),
    v1_save_items_state_json=lambda p: save_items(
        p, {"state": {"a": True, "b": None}}),
    v1_save_items_json_with_null=lambda p: save_items(
        p, {"cfg": {"a": [1, None, True]}}),
    v1_async_bad_leaf=lambda p: p.v1.save_async(
        p.dest, {"a": np.float32(1)}).result(),
    v1_context_argument=lambda p: p.v1.Context(no_such_option=1),
    v1_option_argument=lambda p: p.v1.options.ArrayOptions.Saving(
        no_such_option=1),
    v1_option_positional=lambda p: p.v1.options.ArrayOptions.Saving(True))


@bad
def v1_async_twice(p):
    p.v1.save_async(p.dest, GOOD_TREE()).result()
    p.v1.save_async(p.dest, GOOD_TREE()).result()


@bad
def v1_negative_file_size(p):
    context = p.v1.Context()
    context.array.saving.ocdbt_target_data_file_size = -1
    with context:
        p.v1.save(p.dest, {"a": jnp.ones(3)})


def bad_storage(name, option, value, array):
    def call(p):
        context = p.v1.Context()
        setattr(context.array.saving.storage_options, option, value)
        with context:
            p.v1.save(p.dest, {"a": array})

    CALLS["v1_" + name] = call


bad_storage("tiny_chunk_bytes", "chunk_byte_size", 4, np.ones(4))
bad_storage("shard_axis", "shard_axes", (5,), np.ones((2, 2)))
bad_storage("unknown_dtype", "dtype", "nonsense", np.ones((2, 2)))


@bad
def v1_mutate_active(p):
    context = p.v1.Context()
    with context:
        context.array.saving.use_ocdbt = False


@bad
def v1_mutate_active_layout(p):
    context = p.v1.Context()
    with context:
        context.checkpoint_layout = "orbax"


@bad
def v1_unknown_layout(p):
    p.v1.Context().checkpoint_layout = "nonsense"


# Loads of v1.
def load(p, target=None, name="v1", **options):
    return p.v1.load(p.root / name, target, **options)


def load_items(p, items=None, name="v1"):
    return p.v1.load_checkpointables(p.root / name, items)


CALLS.update(
    v1_load_missing=lambda p: load(p, name="nowhere"),
    v1_load_empty=lambda p: load(p, name="empty"),
    v1_load_file=lambda p: load(p, name="file"),
    v1_load_unfinished=lambda p: load(p, name="half.orbax-checkpoint-tmp"),
    v1_load_subdirectory=lambda p: load(p, name="v1/state"),
    v1_load_bad_name=lambda p: load(p, checkpointable_name="nope"),
    v1_load_empty_name=lambda p: load(p, checkpointable_name=""),
    v1_load_reserved_name=lambda p: load(p, checkpointable_name="metrics"),
    v1_load_none_name=lambda p: load(p, checkpointable_name=None),
    v1_load_name_of_flat=lambda p: load(
        p, name="v0", checkpointable_name="state"),
    v1_load_structure=lambda p: load(p, {"a": np.zeros(8)}),
    v1_load_extra_key=lambda p: load(p, dict(GOOD_TREE(), extra=0)),
    v1_load_numpy_other_shape=lambda p: load(
        p, dict(GOOD_TREE(), a=np.zeros(3))),
    v1_load_array_as_int=lambda p: load(p, dict(GOOD_TREE(), a=5)),
    v1_load_array_as_str=lambda p: load(p, dict(GOOD_TREE(), a="x")),
    v1_load_opaque_leaf=lambda p: load(p, dict(GOOD_TREE(), a=Opaque())),
    v1_load_opaque_type=lambda p: load(p, dict(GOOD_TREE(), a=Opaque)),
    v1_load_complex_leaf=lambda p: load(p, dict(GOOD_TREE(), a=1j)),
    v1_load_items_missing=lambda p: load_items(p, {"nope": None}),
    v1_load_items_list=lambda p: load_items(p, ["state"]),
    v1_load_items_empty_name=lambda p: load_items(p, {"": None}),
    v1_load_items_reserved=lambda p: load_items(p, {"AUTO": None}),
    v1_load_items_flat=lambda p: load_items(p, name="v0"),
    v1_load_items_structure=lambda p: load_items(
        p, {"state": {"a": np.zeros(8)}}),
    v1_load_async=lambda p: p.v1.load_async(p.root / "v1"),
    v1_load_items_async=lambda p: p.v1.load_checkpointables_async(
        p.root / "v1"),
    v1_metadata_missing=lambda p: p.v1.metadata(p.root / "nowhere"),
    v1_metadata_bad_name=lambda p: p.v1.metadata(p.root / "v1", "nope"),
    v1_items_metadata_flat=lambda p: p.v1.checkpointables_metadata(
        p.root / "v0"))


@bad
def v1_load_no_metadata(p):
    (p.root / "v1" / "_CHECKPOINT_METADATA").unlink()
    p.v1.load(p.root / "v1")


@bad
def v1_load_no_tree_metadata(p):
    (p.root / "v1" / "state" / "_METADATA").unlink()
    p.v1.load(p.root / "v1")


@bad
def v1_load_root_of_steps(p):
    shutil.copytree(p.root / "v0", p.root / "steps" / "1")
    p.v1.load(p.root / "steps")


@bad
def v1_load_shape(p):
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    p.v1.load(p.root / "v1", dict(GOOD_TREE(), j=jax.ShapeDtypeStruct(
        (3, 3), np.float32, sharding=sharding)))


@bad
def v1_load_string_as_array(p):
    target = GOOD_TREE()
    target["b"]["s"] = np.zeros(3)
    p.v1.load(p.root / "v1", target)


@bad
def v1_load_json_damaged(p):
    p.v1.save_checkpointables(p.dest, {"cfg": {"a": [1, None, True]},
                                       "state": GOOD_TREE()})
    (p.dest / "cfg" / "data.json").unlink(missing_ok=True)
    p.v1.load_checkpointables(p.dest)


def without_digests(path):
    """Removes the list of checksums, which Orbax does not write, so that it
    does not reveal a change; returns `path`."""
    for digests in path.rglob("_HOLDFAST_DIGESTS"):
        digests.unlink()
    return path


CALLS.update(
    v1_merge_common_keys=lambda p: p.v1.tree.merge({"a": 1}, {"a": 2}),
    v1_merge_kinds=lambda p: p.v1.tree.merge({"a": [1]}, {"a": {"b": 2}}))


@bad
def v1_handlers_lost(p):
    path = without_digests(p.root / "v1") / "_CHECKPOINT_METADATA"
    document = json.loads(path.read_text())
    document["item_handlers"] = None
    path.write_text(json.dumps(document))
    p.v1.load(p.root / "v1")


@bad
def v1_handlers_unknown(p):
    path = without_digests(p.root / "v1") / "_CHECKPOINT_METADATA"
    path.write_text(path.read_text().replace("PyTreeHandler", "NoSuchHandler"))
    p.v1.load(p.root / "v1")


@bad
def v1_data_missing(p):
    p.v1.save(p.root / "big",
              {"w": np.random.default_rng(0).random((64, 64))})
    for data in (p.root / "big/state/ocdbt.process_0/d").iterdir():
        data.unlink()
    p.v1.load(p.root / "big")
