"""Restores with a target: structures, shardings, shapes, dtypes."""

from __future__ import annotations

import collections
import functools
from pathlib import Path
from typing import Any

import meshes
import numpy as np
import pytest

import holdfast.orbax as ocp

jax = pytest.importorskip("jax")

Pair = collections.namedtuple("Pair", "mu nu")


class Module:
    """A class that is registered with jax as a pytree node."""

    def __init__(self, kernel: Any, children: Any) -> None:
        self.kernel = kernel
        self.children = children


jax.tree_util.register_pytree_with_keys(
    Module,
    lambda m: (
        (
            (jax.tree_util.GetAttrKey("kernel"), m.kernel),
            (jax.tree_util.GetAttrKey("children"), m.children),
        ),
        None,
    ),
    lambda _, children: Module(*children),
)


sharding = functools.partial(meshes.sharding, (4, 2))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Saves a module whose kernel has 8 rows of 6 elements, which count from
    0; returns the path."""
    path = tmp_path / "c"
    state = {
        "m": Module(
            jax.numpy.arange(48.0).reshape(8, 6),
            (Pair(np.arange(3), 2), [None, {}]),
        ),
        "step": 4,
    }
    ocp.PyTreeCheckpointer(use_ocdbt=False).save(path, state)
    return path


def restore(path: Path, *args: Any, **kwargs: Any) -> Any:
    return ocp.PyTreeCheckpointHandler().restore(
        path, args=ocp.args.PyTreeRestore(*args, **kwargs)
    )


def abstract(kernel: Any) -> Any:
    return {
        "m": Module(kernel, (Pair(np.zeros(3), 0), [None, {}])),
        "step": 0,
    }


@pytest.mark.filterwarnings("ignore:Sharding info not provided")
def test_without_target(saved: Path) -> None:
    state = restore(saved)
    assert list(state["m"]) == ["children", "kernel"]
    pair, empties = state["m"]["children"]
    assert pair["nu"] == 2 and empties == [None, {}]
    assert state["step"] == 4


def test_structure_of_the_target(saved: Path) -> None:
    target = abstract(np.zeros((8, 6), np.float32))
    args = jax.tree.map(
        lambda leaf: ocp.RestoreArgs(restore_type=type(leaf)), target
    )
    state = restore(saved, target, args)
    assert type(state["m"]) is Module
    assert type(state["m"].children[0]) is Pair
    assert state["m"].children[0].nu == 2
    np.testing.assert_array_equal(
        state["m"].kernel, np.arange(48.0).reshape(8, 6)
    )


def test_placeholder_that_is_not_stored(saved: Path) -> None:
    target = abstract(np.zeros((8, 6))) | {"extra": ...}
    target["m"].kernel = ...
    state = restore(saved, target)
    assert state["extra"] is ... and state["m"].kernel is ...
    assert state["step"] == 4


def test_only_needed_chunks_are_read(tmp_path: Path) -> None:
    path = tmp_path / "c"
    rows = np.arange(48.0, dtype=np.float32).reshape(8, 6)
    ocp.PyTreeCheckpointer(use_ocdbt=False).save(
        path,
        {"w": rows},
        save_args={"w": ocp.SaveArgs(chunk_byte_size=48, shard_axes=(0,))},
    )
    (path / "w" / "7.0").unlink()
    args = {
        "w": ocp.ArrayRestoreArgs(
            sharding=sharding("x"), global_shape=(4, 6), strict=False
        )
    }
    state = restore(path, restore_args=args)
    np.testing.assert_array_equal(state["w"], rows[:4])
    with pytest.raises(ValueError, match="7.0"):
        restore(path)


@pytest.mark.parametrize("shape", [(10, 4), (5, 9), (2, 2), (0, 6)])
def test_padding_and_truncation(saved: Path, shape: tuple[int, int]) -> None:
    stored = np.arange(48.0).reshape(8, 6)
    rows, columns = min(8, shape[0]), min(6, shape[1])
    want = np.zeros(shape)
    want[:rows, :columns] = stored[:rows, :columns]
    args = ocp.ArrayRestoreArgs(
        sharding=sharding(None, None), shape=shape, strict=False
    )
    kernel = restore(
        saved,
        {"m": {"kernel": 0}},
        {"m": {"kernel": args}},
        partial_restore=True,
    )["m"]["kernel"]
    np.testing.assert_array_equal(kernel, want)
    assert len(kernel.addressable_shards) == 8


def test_mesh_and_axes(saved: Path) -> None:
    where = sharding("x")
    args = ocp.ArrayRestoreArgs(mesh=where.mesh, mesh_axes=where.spec)
    state = restore(
        saved,
        {"m": {"kernel": 0}},
        {"m": {"kernel": args}},
        partial_restore=True,
    )
    assert state["m"]["kernel"].sharding == where


def test_no_sharding_warns(saved: Path) -> None:
    with pytest.warns(UserWarning, match="Sharding info not provided when"):
        restore(saved)


def test_metadata_as_target(saved: Path) -> None:
    metadata = ocp.PyTreeCheckpointHandler().metadata(saved)
    args = ocp.checkpoint_utils.construct_restore_args(metadata)
    assert args["m"]["kernel"].global_shape == (8, 6)
    state = restore(saved, metadata, args)
    assert state["m"]["kernel"].shape == (8, 6)
    shapes = jax.tree.map(lambda leaf: leaf.shape, metadata)
    assert shapes["m"]["kernel"] == (8, 6)
    with pytest.raises(ValueError, match="Cannot save TreeMetadata."):
        ocp.args.PyTreeSave(metadata)
    with pytest.raises(ValueError, match="Unsupported type: <class '.*Metada"):
        ocp.StandardCheckpointHandler().restore(
            saved, args=ocp.args.StandardRestore(metadata)
        )


def test_fallback_sharding(saved: Path) -> None:
    (saved / "_HOLDFAST_DIGESTS").unlink()
    file = saved / "_sharding"
    file.write_text(file.read_text().replace("cpu:0", "tpu:9"))
    handler = ocp.StandardCheckpointHandler()
    with pytest.raises(ValueError, match="Topology mismatch detected."):
        handler.restore(saved)
    fallback = sharding("x")
    state = handler.restore(
        saved, args=ocp.args.StandardRestore(fallback_sharding=fallback)
    )
    assert state["m"]["kernel"].sharding == fallback


def test_typed_keys(tmp_path: Path) -> None:
    keys = jax.random.split(jax.random.key(3), 8)
    ocp.PyTreeCheckpointer().save(tmp_path / "c", {"keys": keys})
    args = ocp.ArrayRestoreArgs(
        sharding=sharding("x"), dtype=keys.dtype, global_shape=(8,)
    )
    restored = restore(tmp_path / "c", restore_args={"keys": args})["keys"]
    assert restored.dtype == keys.dtype and restored.shape == (8,)
    np.testing.assert_array_equal(
        jax.random.key_data(restored), jax.random.key_data(keys)
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: sharding("x", None),
        lambda: sharding(("x", "y")),
        lambda: jax.sharding.SingleDeviceSharding(jax.devices()[3]),
    ],
)
def test_sharding_metadata_round_trip(make: Any) -> None:
    original = make()
    module = ocp.metadata.sharding
    metadata = module.from_jax_sharding(original)
    again = module.from_serialized_string(metadata.to_serialized_string())
    assert again.to_jax_sharding() == original


def test_sharding_over_missing_devices() -> None:
    metadata = ocp.metadata.sharding.from_jax_sharding(sharding("x"))
    metadata.device_mesh.mesh[0][0].id = 4711
    with pytest.raises(ValueError, match="The available devices are different"):
        metadata.to_jax_sharding()
    with pytest.raises(ValueError) as caught:
        ocp.metadata.SingleDeviceShardingMetadata("tpu:3").to_jax_sharding()
    assert str(caught.value) == (
        "Device tpu:3 was not found in jax.local_devices()."
    )


def texts_of(node: Any) -> Any:
    """Returns the tree with each leaf replaced by a string of its class and
    dtype."""
    if isinstance(node, dict):
        return {key: texts_of(child) for key, child in node.items()}
    if isinstance(node, list | tuple):
        return type(node)(texts_of(child) for child in node)
    dtype = getattr(node, "dtype", "")
    return f"{type(node).__name__} {dtype} {node!r}"


@pytest.mark.parametrize("use_ocdbt", [True, False])
@pytest.mark.parametrize("use_zarr3", [True, False])
def test_whole_tree_is_what_leaves_alone_are(
    tmp_path: Path, use_ocdbt: bool, use_zarr3: bool
) -> None:
    orbax = pytest.importorskip("orbax.checkpoint")
    state = {
        "arrays": [np.arange(3, dtype=np.int8), np.ones((2, 2), np.float16)],
        "half": jax.numpy.bfloat16(1.5).__array__(),
        "numbers": (1, 2.5, True, np.float32(0.1), np.uint8(7)),
        "text": "t\u00e4xt",
        "empty": {"none": None, "dict": {}, "list": [], "pair": Pair([], ())},
        "keys": {10: "ten", 9: "nine"},
    }
    path = tmp_path / "c"
    with ocp.Checkpointer(
        ocp.PyTreeCheckpointHandler(use_ocdbt=use_ocdbt, use_zarr3=use_zarr3)
    ) as checkpointer:
        checkpointer.save(path, state)
        whole = checkpointer.restore(path)
        alone = checkpointer.restore(
            path, restore_args=jax.tree.map(lambda _: ocp.RestoreArgs(), whole)
        )
    theirs = orbax.PyTreeCheckpointer().restore(path)
    assert texts_of(whole) == texts_of(alone) == texts_of(theirs)
