"""Fingerprints: the engine's values compared with a second implementation in
numpy, saves that store them, loads that check them, and checks of replicas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from thread_ranks import on_all, transports

import holdfast
from holdfast import errors

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("uint64", "float16", "float32", "float64", "complex64", "complex128"),
    *("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"),
]
_MASK = (1 << 64) - 1


def mix(number: int) -> int:
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def twin(array: Any) -> str:
    """Returns the fingerprint, computed as doc/fingerprints.md defines it."""
    array = np.asarray(array)
    data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    if array.dtype == bool:
        data = (data != 0).astype(np.uint8)
    if array.dtype == ml_dtypes.int4:
        data = data & 15
    words = np.zeros(-(-data.size // 4) * 4, np.uint8)
    words[: data.size] = data
    x = words.view("<u4").astype(np.uint64)
    tag = 0
    for byte in array.dtype.name.encode():
        tag = mix(tag ^ byte)
    tag = mix(tag ^ array.ndim)
    for extent in array.shape:
        tag = mix(tag ^ extent)
    halves = []
    for half in (0, 1):
        weights = np.array(
            [mix((1 << 63) + 2 * j + half) >> 32 | 1 for j in range(1024)],
            np.uint64,
        )
        total = mix(tag ^ (half + 1))
        for block in range(-(-x.size // 1024)):
            part = x[1024 * block : 1024 * (block + 1)]
            inner = int((part * weights[: part.size]).sum(dtype=np.uint64))
            total += (mix(2 * block + half) | 1) * inner
        halves.append(total & _MASK)
    return f"{halves[1]:016x}{halves[0]:016x}"


def random_array(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    random = np.random.default_rng(seed)
    if dtype in ("bool", "int4"):
        return random.integers(0, 2, shape).astype(dtype)
    kind = np.dtype(dtype)
    data = random.bytes(int(np.prod(shape)) * kind.itemsize)
    return np.frombuffer(data, kind).reshape(shape)


def test_the_engine_agrees_with_numpy() -> None:
    for seed, dtype in enumerate(DTYPES):
        for shape in [(), (0,), (1,), (7,), (3, 5), (1023, 9), (2, 3, 4, 5)]:
            array = random_array(dtype, shape, seed)
            assert holdfast.fingerprint(array) == twin(array), (dtype, shape)
            turned = array.T
            assert holdfast.fingerprint(turned) == twin(turned)
    assert holdfast.fingerprint(-1) == twin(np.int64(-1))


def test_a_tree_gives_them_by_name() -> None:
    torch = pytest.importorskip("torch")
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    tree = {"params": {"w": w, "t": torch.ones(3)}, "step": 7, "note": "x"}
    assert holdfast.fingerprint(tree) == {
        "params.t": twin(np.ones(3, np.float32)),
        "params.w": twin(w),
        "step": twin(np.int64(7)),
    }


@pytest.mark.parametrize("compression", ["planes", "zstd", "fast", None])
@pytest.mark.parametrize("ocdbt", [True, False])
def test_saves_store_those_of_the_elements(
    ckpt: Path, compression: Any, ocdbt: bool
) -> None:
    tree = {
        dtype: random_array(dtype, (301, 17), seed)
        for seed, dtype in enumerate(DTYPES)
    }
    holdfast.save(
        ckpt,
        tree,
        compression=compression,
        ocdbt=ocdbt,
        chunk_bytes=3000,
        fingerprints=True,
    )
    want = {name: twin(array) for name, array in tree.items()}
    assert holdfast.open(ckpt).fingerprints() == want
    got = holdfast.load(ckpt, fingerprints=True)
    stats = holdfast.last_stats()
    assert stats is not None and stats.fingerprint_count == len(tree)
    assert {name: twin(array) for name, array in got.items()} == want
    assert holdfast.verify(ckpt)


def test_none_without_the_option(ckpt: Path) -> None:
    holdfast.save(ckpt, {"w": np.ones(3)})
    assert holdfast.open(ckpt).fingerprints() == {}
    holdfast.load(ckpt, fingerprints=True)
    stats = holdfast.last_stats()
    assert stats is not None and stats.fingerprint_count == 0
    assert not (ckpt / "_HOLDFAST_FINGERPRINTS").exists()


def test_beside_safetensors_and_in_the_background(ckpt: Path) -> None:
    tree = {"a": random_array("bfloat16", (64, 33), 1), "b": np.arange(5)}
    holdfast.save(
        ckpt, tree, also="safetensors", fingerprints=True, background=True
    ).result()
    want = {name: twin(array) for name, array in tree.items()}
    assert holdfast.open(ckpt).fingerprints() == want
    holdfast.load(ckpt, tree, fingerprints=True)
    stats = holdfast.last_stats()
    assert stats is not None and stats.fingerprint_count == 2


def test_what_rewrites_a_checkpoint_keeps_no_stale_ones(tmp_path: Path) -> None:
    tree = {"w": np.arange(6, dtype=np.float32), "v": np.ones(3)}
    holdfast.save(tmp_path / "a", tree, fingerprints=True)
    holdfast.convert(tmp_path / "a", tmp_path / "b")
    assert holdfast.open(tmp_path / "b").fingerprints() == {}
    changed = {**tree, "w": tree["w"] + 1}
    holdfast.save(tmp_path / "c", changed, base=tmp_path / "a")
    assert holdfast.open(tmp_path / "c").fingerprints() == {}
    holdfast.materialize(tmp_path / "c", tmp_path / "d")
    assert holdfast.open(tmp_path / "d").fingerprints() == {}
    holdfast.view(tmp_path / "a", tmp_path / "e")
    assert holdfast.open(tmp_path / "e").fingerprints() == {}
    holdfast.save(tmp_path / "f", tree, fingerprints=True)
    holdfast.save(tmp_path / "f", tree, overwrite=True)
    assert holdfast.open(tmp_path / "f").fingerprints() == {}
    for name in "abcdef":
        holdfast.load(tmp_path / name, fingerprints=True)


def test_diff_by_fingerprint(tmp_path: Path) -> None:
    tree = {"w": np.zeros(6, np.float32), "v": np.ones(3), "note": "x"}
    other = {**tree, "w": -tree["w"]}
    holdfast.save(tmp_path / "a", tree, fingerprints=True)
    holdfast.save(tmp_path / "b", other, fingerprints=True, ocdbt=False)
    assert holdfast.diff(tmp_path / "a", tmp_path / "a", by_fingerprint=True)
    found = holdfast.diff(tmp_path / "a", tmp_path / "b", by_fingerprint=True)
    assert [(leaf.name, leaf.what) for leaf in found.worst] == [("w", "bits")]
    assert holdfast.diff(tmp_path / "a", tmp_path / "b")
    holdfast.save(tmp_path / "c", tree)
    with pytest.raises(
        errors.FailedPreconditionError, match="c: leaf v has no fingerprint"
    ):
        holdfast.diff(tmp_path / "a", tmp_path / "c", by_fingerprint=True)


def state(rank: int, diverged: int) -> dict[str, Any]:
    w = np.arange(100, dtype=np.float32)
    if rank == diverged:
        w.view(np.uint32)[57] ^= 1 << 3
    return {"params": {"w": w, "v": np.ones(4)}, "step": 7}


def test_a_rank_that_has_diverged_is_named_before_it_is_written(
    ckpt: Path,
) -> None:
    groups = [holdfast.ProcessGroup(each) for each in transports(4)]

    def save(rank: int, diverged: int) -> Any:
        return holdfast.save(
            ckpt,
            state(rank, diverged),
            group=groups[rank],
            check_replicas=True,
            fingerprints=True,
        )

    for error in on_all(4, lambda rank: save(rank, 2)):
        assert isinstance(error, errors.DataLossError)
        assert (
            str(error) == "replicas differ: tensor params.w: rank 2 differs"
            " from ranks 0, 1, 3"
        )
    assert not ckpt.exists()
    for stats in on_all(4, lambda rank: save(rank, 9)):
        assert isinstance(stats, holdfast.Stats), stats
    assert holdfast.open(ckpt).fingerprints() == holdfast.fingerprint(
        state(0, 9)
    )
    counts = on_all(
        4,
        lambda rank: holdfast.check_replicas(
            state(rank, 9), group=groups[rank]
        ),
    )
    assert counts == [holdfast.ReplicaCounts(3, 12, 12)] * 4


def test_devices_of_one_process_are_compared() -> None:
    jax = pytest.importorskip("jax")
    if len(jax.devices()) < 8:
        pytest.skip("needs 8 devices")
    mesh = jax.make_mesh((4, 2), ("data", "model"))
    sharding = jax.sharding.NamedSharding(
        mesh, jax.sharding.PartitionSpec("model")
    )
    good = jax.device_put(np.arange(16.0, dtype=np.float32), sharding)
    assert holdfast.check_replicas(
        {"w": good, "key": jax.random.key(0)}, group=None
    ) == holdfast.ReplicaCounts(3, 9, 8)
    assert holdfast.fingerprint(good) == twin(good)
    parts = [shard.data for shard in good.addressable_shards]
    parts[5] = jax.device_put(
        np.asarray(parts[5]) + 1, good.addressable_shards[5].device
    )
    bad = jax.make_array_from_single_device_arrays(good.shape, sharding, parts)
    with pytest.raises(errors.DataLossError) as raised:
        holdfast.check_replicas({"w": bad}, group=None)
    assert "tensor w[" in str(raised.value) and "copy 2" in str(raised.value)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("ocdbt", [True, False])
def test_stock_orbax_reads_them(
    ckpt: Path, zarr_format: int, ocdbt: bool
) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    tree = {
        "a": {"w": random_array("bfloat16", (64, 33), 1)},
        "b": [np.arange(5), 7],
    }
    holdfast.save(
        ckpt, tree, zarr_format=zarr_format, ocdbt=ocdbt, fingerprints=True
    )
    files = {
        path: path.read_bytes() for path in ckpt.rglob("*") if path.is_file()
    }
    got = ocp.PyTreeCheckpointer().restore(ckpt)
    assert holdfast.fingerprint(got) == holdfast.open(ckpt).fingerprints()
    assert files == {
        path: path.read_bytes() for path in ckpt.rglob("*") if path.is_file()
    }


def test_memory_that_is_not_what_was_saved_is_found(ckpt: Path) -> None:
    """A stored fingerprint that differs from the array, with valid checksums,
    is an error."""
    holdfast.save(ckpt, {"w": np.arange(9)}, fingerprints=True)
    file = ckpt / "_HOLDFAST_FINGERPRINTS"
    document = json.loads(file.read_text())
    assert document == {
        "holdfast_fingerprints": 1,
        "algorithm": "holdfast-linear-1",
        "tensors": {"w": twin(np.arange(9))},
    }
    file.write_text(file.read_text().replace(twin(np.arange(9)), "0" * 32))
    with pytest.raises(errors.DataLossError, match="_HOLDFAST_FINGERPRINTS"):
        holdfast.load(ckpt, fingerprints=True)
    assert holdfast.load(ckpt)["w"][8] == 8
    # Without the list of checksums, the fingerprints file is ignored.
    (ckpt / "_HOLDFAST_DIGESTS").unlink()
    assert holdfast.load(ckpt, fingerprints=True, verify=False)["w"][8] == 8
