"""ArrayCheckpointHandler: one array or number in one directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ocp


def save(path: Path, item: Any, **kwargs: Any) -> None:
    with ocp.Checkpointer(ocp.ArrayCheckpointHandler()) as checkpointer:
        checkpointer.save(path, args=ocp.args.ArraySave(item, **kwargs))


def restore(path: Path, **kwargs: Any) -> Any:
    handler = ocp.ArrayCheckpointHandler()
    return handler.restore(path, args=ocp.args.ArrayRestore(**kwargs))


def test_array_is_zarr_2_without_a_database(ckpt: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    save(ckpt, array)
    metadata = json.loads((ckpt / "checkpoint" / ".zarray").read_text())
    assert metadata["zarr_format"] == 2 and metadata["chunks"] == [2, 3]
    assert not (ckpt / "manifest.ocdbt").exists()
    restored = restore(ckpt)
    assert restored.dtype == np.float32
    np.testing.assert_array_equal(restored, array)


@pytest.mark.parametrize("number", [5, 2.5, True])
def test_numbers_come_back_as_such(ckpt: Path, number: Any) -> None:
    save(ckpt, number)
    restored = restore(ckpt)
    assert restored == number and type(restored) is type(number)


def test_dtypes_of_save_and_restore(ckpt: Path) -> None:
    args = ocp.SaveArgs(dtype=np.dtype("float32"))
    save(ckpt, np.arange(3.0), save_args=args)
    assert restore(ckpt).dtype == np.float32
    wanted = ocp.RestoreArgs(restore_type=np.ndarray, dtype=np.dtype("int8"))
    restored = restore(ckpt, restore_args=wanted)
    assert restored.dtype == np.int8 and restored.tolist() == [0, 1, 2]


def test_without_tree_metadata(ckpt: Path) -> None:
    save(ckpt, np.arange(4))
    for name in ("_METADATA", "_HOLDFAST_DIGESTS"):
        (ckpt / name).unlink()
    np.testing.assert_array_equal(restore(ckpt), np.arange(4))


def test_sharded_jax_array(ckpt: Path) -> None:
    jax = pytest.importorskip("jax")
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    sharding = jax.sharding.NamedSharding(mesh, spec)
    array = jax.device_put(np.arange(16, dtype=np.int32), sharding)
    save(ckpt, array)
    restored = restore(
        ckpt, restore_args=ocp.ArrayRestoreArgs(sharding=sharding)
    )
    assert restored.sharding == sharding
    np.testing.assert_array_equal(restored, np.arange(16))


@pytest.mark.parametrize("item", [{"a": 1}, "text", None, [1]])
def test_refuses_what_is_no_array(ckpt: Path, item: Any) -> None:
    with pytest.raises(TypeError) as info:
        save(ckpt, item)
    assert str(info.value) == f"Unsupported type: {type(item)}."
    assert list(ckpt.parent.iterdir()) == []


def test_another_item_in_the_directory(ckpt: Path) -> None:
    ocp.PyTreeCheckpointer().save(ckpt, {"a": np.ones(2)})
    with pytest.raises(ValueError):
        restore(ckpt)
