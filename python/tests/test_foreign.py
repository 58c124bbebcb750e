"""safetensors and npz: against the real libraries, both ways."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import holdfast
from holdfast import errors

st = pytest.importorskip("safetensors.numpy")

NAMES = [
    "float32", "float16", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "bool", "complex64",
]  # fmt: skip


def random_array(
    random: np.random.Generator, name: str
) -> np.ndarray[Any, Any]:
    shape = tuple(random.integers(0, 6, random.integers(0, 4)))
    dtype = np.dtype(name)
    count = int(np.prod(shape))
    if name == "bool":
        return random.integers(0, 2, shape).astype(bool)
    raw = random.integers(0, 256, count * dtype.itemsize).astype(np.uint8)
    return raw.view(dtype).reshape(shape)


def random_state(seed: int) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    return {
        f"layer.{i}.{random.choice(['w', 'ß', 'a b'])}": random_array(
            random, str(random.choice(NAMES))
        )
        for i in range(int(random.integers(0, 12)))
    }


def same(a: Any, b: Any) -> bool:
    return bool(
        a.dtype == b.dtype
        and a.shape == b.shape
        and np.ascontiguousarray(a).tobytes()
        == np.ascontiguousarray(b).tobytes()
    )


def expect_same(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert sorted(got) == sorted(want)
    for name in want:
        assert same(got[name], want[name]), name


@pytest.mark.parametrize("seed", range(20))
def test_reads_what_the_libraries_write(seed: int, tmp_path: Path) -> None:
    state = random_state(seed)
    file = tmp_path / "x.safetensors"
    st.save_file(state, file)
    expect_same(holdfast.load(file), state)
    npz = tmp_path / "x.npz"
    save = np.savez if seed % 2 else np.savez_compressed
    save(npz, **state)
    expect_same(holdfast.load(npz), state)
    turned = {
        name: np.asfortranarray(a).astype(a.dtype.newbyteorder(">"))
        for name, a in state.items()
    }
    save(npz, **turned)
    expect_same(holdfast.load(npz), state)


@pytest.mark.parametrize("seed", range(10))
def test_the_libraries_read_what_holdfast_writes(
    seed: int, tmp_path: Path
) -> None:
    state = random_state(seed)
    holdfast.save(tmp_path / "orbax", state)
    tensors = tmp_path / "x.safetensors"
    holdfast.convert(tmp_path / "orbax", tensors, format="safetensors")
    expect_same(st.load_file(tensors), state)
    npz = tmp_path / "x.npz"
    holdfast.convert(tmp_path / "orbax", npz, format="npz")
    with np.load(npz) as read:
        members = {n: read[n] for n in read.files if not n.endswith(".json")}
    expect_same(members, state)


def test_without_a_sidecar_the_bytes_are_those_of_the_library(
    tmp_path: Path,
) -> None:
    state = random_state(3)
    source = tmp_path / "a.safetensors"
    st.save_file(state, source, metadata={"format": "pt"})
    target = tmp_path / "b.safetensors"
    holdfast.convert(source, target, format="safetensors")
    assert target.read_bytes() == source.read_bytes()


def test_trees_come_back_whole(tmp_path: Path) -> None:
    tree = {
        "params": {"w": np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)},
        "opt": [np.arange(3, dtype=np.complex128), {"step": 7, "rate": 0.5}],
        "f8": np.arange(4).astype(ml_dtypes.float8_e4m3b11fnuz),
        "i4": np.arange(4).astype(ml_dtypes.int4),
        "name": "run",
        "none": None,
        "empty": {},
    }
    holdfast.save(tmp_path / "orbax", tree)
    want = holdfast.load(tmp_path / "orbax")
    for format, name in (("safetensors", "x.safetensors"), ("npz", "x.npz")):
        target = tmp_path / name
        holdfast.convert(tmp_path / "orbax", target, format=format)
        got = holdfast.load(target)
        assert same(got["params"]["w"], want["params"]["w"])
        assert same(got["opt"][0], want["opt"][0])
        assert same(got["f8"], want["f8"])
        assert same(got["i4"], want["i4"])
        assert got["opt"][1] == {"step": 7, "rate": 0.5}
        assert (got["name"], got["none"], got["empty"]) == ("run", None, {})


def test_shards_as_hub_libraries_read_them(tmp_path: Path) -> None:
    state = {f"w{i}": np.full(100, i, np.float32) for i in range(5)}
    holdfast.save(tmp_path / "orbax", state)
    target = tmp_path / "model"
    holdfast.convert(
        tmp_path / "orbax", target, format="safetensors", shard_bytes=900
    )
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 2000
    read: dict[str, Any] = {}
    for file in sorted(set(index["weight_map"].values())):
        read |= st.load_file(target / file)
    expect_same(read, state)
    expect_same(holdfast.load(target), state)


def test_what_holdfast_takes_the_library_takes(tmp_path: Path) -> None:
    """Whatever one byte of a header becomes."""
    random = np.random.default_rng(7)
    state = {"a": np.arange(4, dtype=np.int16), "b": np.ones(3, np.float32)}
    good = bytearray(st.save(state))
    length = struct.unpack("<Q", good[:8])[0]
    file = tmp_path / "x.safetensors"
    taken = 0
    for _ in range(600):
        bad = bytearray(good)
        at = int(random.integers(0, 8 + length))
        bad[at] = int(random.choice(list(b'0123456789"{}[],: abUF')))
        file.write_bytes(bad)
        try:
            ours = holdfast.load(file)
        except errors.HoldfastError:
            continue
        theirs = st.load_file(file)
        expect_same(ours, theirs)
        taken += 1
    assert taken > 10
