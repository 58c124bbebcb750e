"""holdfast.orbax.v1 with jax.Arrays over eight devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshes import sharding

jax = pytest.importorskip("jax")

from holdfast.orbax import v1  # noqa: E402

Spec = jax.sharding.PartitionSpec
VALUES = np.arange(64, dtype=np.float32).reshape(8, 8)


@pytest.fixture
def saved(ckpt: Path) -> Path:
    array = jax.device_put(VALUES, sharding((4, 2), "x", "y"))
    v1.save(ckpt, {"w": array, "k": jax.random.key(7, impl="rbg")})
    return ckpt


def test_over_other_devices(saved: Path) -> None:
    columns = sharding((8,), None, "x")
    wanted = {
        "w": jax.ShapeDtypeStruct((8, 8), np.float16, sharding=columns),
        "k": v1.PLACEHOLDER,
    }
    loaded = v1.load(saved, wanted)
    assert loaded["w"].sharding == columns
    assert loaded["w"].dtype == np.float16
    np.testing.assert_array_equal(loaded["w"], VALUES)
    assert loaded["k"] is ...


def test_shape_must_match_unless_padded(saved: Path) -> None:
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    struct = jax.ShapeDtypeStruct((10, 4), np.float32, sharding=device)
    wanted = {"w": struct, "k": ...}
    with pytest.raises(ValueError) as info:
        v1.load(saved, wanted)
    assert str(info.value).startswith(
        "Requested shape: (10, 4) is not compatible with the stored shape: "
        "(8, 8). Truncating/padding is disabled."
    )
    context = v1.Context()
    context.array.loading.enable_padding_and_truncation = True
    with context:
        padded = v1.load(saved, wanted)["w"]
    expected = np.zeros((10, 4), np.float32)
    expected[:8] = VALUES[:, :4]
    np.testing.assert_array_equal(padded, expected)


def test_abstract_mesh_takes_the_current_one(saved: Path) -> None:
    if not hasattr(jax.sharding, "set_mesh") and not hasattr(jax, "set_mesh"):
        pytest.skip("this jax has no current mesh")
    concrete = sharding((8,), "x")
    abstract = jax.sharding.NamedSharding(
        concrete.mesh.abstract_mesh, Spec("x")
    )
    struct = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=abstract)
    set_mesh = getattr(jax, "set_mesh", None) or jax.sharding.use_mesh
    with set_mesh(concrete.mesh):
        loaded = v1.load(saved, {"w": struct, "k": ...})
    assert loaded["w"].sharding.is_equivalent_to(concrete, 2)


def chunk_shape(path: Path) -> list[int]:
    text = (path / "state" / "array_metadatas" / "process_0").read_text()
    (row,) = json.loads(text)["array_metadatas"]
    chunk: list[int] = row["array_metadata"]["chunk_shape"]
    return chunk


@pytest.mark.parametrize(
    ("options", "chunk"),
    [
        ({}, [1, 8]),
        ({"use_replica_parallel": False}, [8, 8]),
        ({"max_replicas_for_replica_parallel": 2}, [4, 8]),
        ({"min_slice_bytes_for_replica_parallel": 64}, [8, 8]),
        ({"min_slice_bytes_for_replica_parallel": 32}, [1, 8]),
    ],
)
def test_replicas_share_the_writing(
    ckpt: Path, options: dict[str, Any], chunk: list[int]
) -> None:
    context = v1.Context()
    for name, value in options.items():
        setattr(context.array.saving, name, value)
    with context:
        v1.save(ckpt, {"w": jax.device_put(VALUES, sharding((8,)))})
    assert chunk_shape(ckpt) == chunk
    np.testing.assert_array_equal(v1.load(ckpt)["w"], VALUES)


def test_without_sharding_file(ckpt: Path) -> None:
    context = v1.Context()
    context.array.saving.enable_write_sharding_file = False
    with context:
        v1.save(ckpt, {"w": jax.numpy.ones(3)})
    assert not (ckpt / "state" / "_sharding").exists()
    assert v1.metadata(ckpt).metadata["w"].sharding_metadata is None


def test_deleted_array(ckpt: Path) -> None:
    array = jax.numpy.ones(3, np.float32)
    array.delete()
    with pytest.raises(RuntimeError) as info:
        v1.save(ckpt, {"w": array})
    assert str(info.value) == (
        'Array has been deleted with shape=float32[3]. (leaf "w")'
    )


def test_registered_node_is_rebuilt(ckpt: Path) -> None:
    import dataclasses

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        step: int
        params: Any

    v1.save(ckpt, State(3, {"w": np.ones(2)}))
    assert sorted(v1.load(ckpt)) == ["params", "step"]
    loaded = v1.load(ckpt, State(0, {"w": np.zeros(2)}))
    assert isinstance(loaded, State) and loaded.step == 3
