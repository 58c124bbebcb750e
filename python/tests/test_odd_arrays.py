"""Arrays of any bytes, in any memory layout, are restored bit for bit.

Exceptions: bools are restored as true or false, which is all that numpy shows
of them, and types smaller than a byte without their unused bits.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import holdfast
import holdfast.orbax

DTYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"),
    *("int64", "uint64", "float16", "float32", "float64"),
    *("complex64", "complex128"),
    *("int2", "int4", "bfloat16", "float4_e2m1fn", "float8_e3m4"),
    *("float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]
SUB_BYTE_BITS = {"int2": 2, "int4": 4, "float4_e2m1fn": 4}
LAYOUTS = [(2, True), (2, False), (3, True), (3, False)]


def odd_array(name: str) -> np.ndarray[Any, Any]:
    """Returns an array with every byte value, in random order."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    random = np.random.default_rng(zlib.crc32(name.encode()))
    count = 12 * 32 * dtype.itemsize
    some = np.resize(np.arange(256, dtype=np.uint8), count)
    return random.permutation(some).view(dtype).reshape(12, 32)


def in_odd_memory(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Returns views of arrays of the same dtype, in unusual memory layouts."""
    size = array.nbytes
    unaligned = np.zeros(size + 1, np.uint8)
    unaligned[1:] = array.reshape(-1).view(np.uint8)
    views = {
        "plain": array,
        "transposed": array.T,
        "backwards": array[::-1, ::-3],
        "one_row": np.broadcast_to(array[3], array.shape),
        "unaligned": unaligned[1:].view(array.dtype).reshape(array.shape),
        "zero_d": array[:1, :1].reshape(()),
    }
    if array.dtype.kind in "iufc" and array.dtype.itemsize > 1:
        views["big_endian"] = array.view(array.dtype.newbyteorder(">"))
    return views


def bits_of(array: Any) -> bytes:
    """Returns the elements' bytes in C order, little endian, as they must be
    restored."""
    array = np.asarray(array)
    name = array.dtype.name
    plain = np.array(array, order="C")
    if array.dtype.byteorder == ">":
        plain = plain.byteswap()
    data = plain.reshape(-1).view(np.uint8)
    if name == "bool":
        data = (data != 0).astype(np.uint8)
    if name in SUB_BYTE_BITS:
        mask = (1 << SUB_BYTE_BITS[name]) - 1
        sign = (data > mask) * ((mask + 1) // 2)
        data = (data & mask) | (sign if "float" in name else 0)
    return data.astype(np.uint8).tobytes()


def check(loaded: dict[str, Any], saved: dict[str, Any]) -> None:
    assert set(loaded) == set(saved)
    for key, want in saved.items():
        got = np.asarray(loaded[key])
        assert got.dtype == want.dtype.newbyteorder("="), key
        assert got.shape == want.shape, key
        # Bools are 0 or 1, and unused bits are zero.
        assert got.tobytes() == bits_of(want), key


def odd_tree() -> dict[str, Any]:
    return {
        f"{name}-{place}": array
        for name in DTYPES
        for place, array in in_odd_memory(odd_array(name)).items()
    }


@pytest.mark.parametrize("compression", ["zstd", "fast", None])
@pytest.mark.parametrize(("zarr_format", "ocdbt"), LAYOUTS)
def test_any_bytes_come_back(
    ckpt: Path, zarr_format: int, ocdbt: bool, compression: Any
) -> None:
    tree = odd_tree()
    holdfast.save(
        ckpt,
        tree,
        zarr_format=zarr_format,
        ocdbt=ocdbt,
        compression=compression,
        durable=False,
    )
    check(holdfast.load(ckpt), tree)
    opened = holdfast.open(ckpt)
    check({name: opened[name][...] for name in tree}, tree)
    assert holdfast.verify(ckpt).ok


def test_any_bytes_come_back_from_the_drop_in(ckpt: Path) -> None:
    tree = odd_tree()
    holdfast.orbax.PyTreeCheckpointer().save(ckpt, tree)
    check(holdfast.orbax.PyTreeCheckpointer().restore(ckpt), tree)


@pytest.mark.parametrize("target", ["safetensors", "npz", "dcp"])
def test_odd_bools_go_through_every_format(ckpt: Path, target: str) -> None:
    tree = in_odd_memory(odd_array("bool"))
    holdfast.save(ckpt, tree, durable=False)
    converted = ckpt.with_name("converted." + target)
    holdfast.convert(ckpt, converted, format=target)
    check(holdfast.load(converted), tree)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_odd_bools_of_numpy_are_read_as_true(tmp_path: Path, save: Any) -> None:
    tree = in_odd_memory(odd_array("bool"))
    save(tmp_path / "x.npz", **tree)
    check(holdfast.load(tmp_path / "x.npz"), tree)


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_odd_bools_that_tensorstore_wrote_are_read_as_true(
    tmp_path: Path, driver: str
) -> None:
    """TensorStore writes such bools, but then refuses to read them."""
    tensorstore = pytest.importorskip("tensorstore")
    array = odd_array("bool")
    spec = {
        "driver": driver,
        "kvstore": {"driver": "file", "path": str(tmp_path / "w")},
    }
    store = tensorstore.open(
        spec, create=True, dtype=tensorstore.bool, shape=array.shape
    ).result()
    store.write(array).result()
    check(holdfast.load(tmp_path), {"w": array})
