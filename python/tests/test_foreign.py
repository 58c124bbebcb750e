"""safetensors and npz files, exchanged with the real libraries."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import holdfast
from holdfast import _engine, errors

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
        name: np.array(a, order="F").astype(a.dtype.newbyteorder(">"))
        for name, a in state.items()
    }
    save(npz, **turned)
    expect_same(holdfast.load(npz), state)


@pytest.mark.parametrize("seed", range(10))
def test_the_libraries_read_what_holdfast_writes(
    seed: int, tmp_path: Path
) -> None:
    state = random_state(seed)
    np.savez(tmp_path / "source.npz", **state)
    tensors = tmp_path / "x.safetensors"
    holdfast.convert(tmp_path / "source.npz", tensors, format="safetensors")
    expect_same(st.load_file(tensors), state)
    npz = tmp_path / "x.npz"
    holdfast.convert(tensors, npz, format="npz")
    with np.load(npz) as read:
        members = {name: read[name] for name in read.files}
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


def test_npz_elements_are_taken_for_no_other_type(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    bits = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    arrays = {
        "bf16": bits,
        "fortran": np.asfortranarray(bits),
        "e5m2": np.arange(3).astype(ml_dtypes.float8_e5m2),
        "big": np.arange(3, dtype=">f4"),
        "text": np.array("grüße"),
        "big_text": np.array("ab", ">U4"),
        "bytes": np.array(b"ab", "S4"),
    }
    lacking = {
        "e4m3": np.arange(3).astype(ml_dtypes.float8_e4m3fn),
        "int4": np.arange(3).astype(ml_dtypes.int4),
        "raw1": np.zeros(3, "V1"),
        "raw2": np.zeros(3, "V2"),
        "texts": np.array(["a", "bc"]),
        "rows": np.array([b"a", b"bc"]),
        "dates": np.zeros(2, "M8[ns]"),
        "spans": np.zeros(2, "m8[s]"),
        "struct": np.zeros(2, [("a", "f4"), ("b", "i2")]),
        "objects": np.array([{"a": 1}], object),
        "long": np.zeros(2, np.longdouble),
    }
    for write in (np.savez, np.savez_compressed):
        write(path, **arrays, **lacking)  # type: ignore[operator]
        opened = holdfast.open(path)
        got = holdfast.load(path, select=list(arrays))
        for name in ("bf16", "fortran", "e5m2", "big"):
            want = arrays[name].astype(arrays[name].dtype.newbyteorder("="))
            assert same(got[name], want), name
        assert got["text"] == "grüße" and got["big_text"] == "ab"
        assert got["bytes"] == b"ab"
        for name in lacking:
            with pytest.raises(NotImplementedError, match=f"{name}.npy"):
                opened[name][:]
        report = holdfast.verify(path)
        assert not report and not report.damages
        assert {each.leaf for each in report.not_supported} == set(lacking)
        holdfast.convert(
            path, tmp_path / "m.safetensors", drop=list(lacking), overwrite=True
        )
        again = holdfast.load(tmp_path / "m.safetensors")
        assert same(again["bf16"], bits) and again["text"] == "grüße"


def test_a_targets_name_says_its_format(tmp_path: Path) -> None:
    holdfast.save(tmp_path / "o", {"w": np.ones(2)})
    torch_file = _engine.write_torch_file({"w": np.ones(2)})
    (tmp_path / "a.pt").write_bytes(torch_file)
    for source in ("o", "a.pt"):
        for name, found in (("m.safetensors", "safetensors"), ("m.npz", "npz")):
            target = tmp_path / name
            result = holdfast.convert(tmp_path / source, target, overwrite=True)
            assert result.format == found and target.is_file()
            assert holdfast.open(target).format == found
        for name, format in (
            ("m.safetensors", "orbax"),
            ("m.npz", "safetensors"),
            ("m.pt", None),
            ("m.pth", "dcp"),
            ("m.bin", None),
        ):
            with pytest.raises(ValueError, match=name):
                holdfast.convert(
                    tmp_path / source,
                    tmp_path / name,
                    format=format,  # type: ignore[arg-type]
                    overwrite=True,
                )
    with pytest.raises(ValueError, match="ckpt"):
        holdfast.convert(tmp_path / "a.pt", tmp_path / "m.ckpt")
    holdfast.merge(
        [tmp_path / "o"], tmp_path / "merged.safetensors", average=True
    )
    assert (tmp_path / "merged.safetensors").is_file()
    for format in ("orbax", "safetensors"):
        with pytest.raises(ValueError, match="v.safetensors"):
            holdfast.view(
                tmp_path / "m.safetensors",
                tmp_path / "v.safetensors",
                format=format,  # type: ignore[arg-type]
            )
    with pytest.raises(ValueError, match="r.safetensors"):
        holdfast.rescue(tmp_path / "o", tmp_path / "r.safetensors")


def test_shards_as_hub_libraries_read_them(tmp_path: Path) -> None:
    state = {f"w{i}": np.full(100, i, np.float32) for i in range(5)}
    holdfast.save(tmp_path / "orbax", state)
    target = tmp_path / "model"
    holdfast.convert(
        tmp_path / "orbax", target, format="safetensors", data_file_bytes=900
    )
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 2000
    read: dict[str, Any] = {}
    for file in sorted(set(index["weight_map"].values())):
        read |= st.load_file(target / file)
    expect_same(read, state)
    expect_same(holdfast.load(target), state)


def test_what_holdfast_takes_the_library_takes(tmp_path: Path) -> None:
    """Changes one byte of a header: what holdfast then accepts, the library
    accepts, too."""
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
