"""A background save stores the values at the time of the call, whatever the
program does to the arrays after the call has returned."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast

NumpyArray = np.ndarray[Any, np.dtype[Any]]

# A leaf, the expected value after a load, and a function that changes the leaf.
Case = tuple[Any, Any, Callable[[], None]]


def overwrite(array: NumpyArray) -> Callable[[], None]:
    """Returns a function that overwrites the array."""

    def run() -> None:
        assert array.flags.writeable
        np.copyto(array.view(np.ndarray), np.zeros((), array.dtype))

    return run


def plain(array: NumpyArray) -> Case:
    return array, np.array(array), overwrite(array)


class Subclass(np.ndarray):
    """A subclass of ndarray, which is saved as an array."""


def numpy_cases(directory: Path) -> dict[str, Case]:
    base = np.arange(1, 1201, dtype=np.float32)
    cases = {
        str(np.dtype(kind)): plain(np.arange(1, 40).astype(kind))
        for kind in "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 >i4 >f8".split()
    }
    cases["0d"] = plain(np.array(7.5))
    cases["c"] = plain(np.arange(1, 601).reshape(20, 30))
    cases["f"] = plain(np.asfortranarray(np.arange(1.0, 601).reshape(20, 30)))
    cases["transposed"] = plain(np.arange(1, 61).reshape(3, 4, 5).transpose())
    cases["reversed"] = plain(np.arange(1, 50)[::-1])
    cases["gaps"] = plain(base[10:900:7])
    cases["column"] = plain(base.reshape(30, 40)[:, 3])
    cases["window"] = plain(
        np.lib.stride_tricks.as_strided(base, (5, 6), (4, 8))
    )
    cases["large"] = plain(np.arange(1, (5 << 20) + 1, dtype=np.uint32))
    cases["subclass"] = plain(np.arange(1, 9).view(Subclass))
    cases["field"] = plain(np.ones(5, dtype=[("a", "<i4"), ("b", "<f8")])["b"])
    # Memory that is not aligned for the elements.
    odd = np.zeros(41, np.uint8)
    unaligned = odd[1:].view(np.float64)
    unaligned[:] = range(1, 6)
    cases["unaligned"] = plain(unaligned)
    # A read-only view of memory that can be changed through its owner.
    owner = np.arange(1, 301, dtype=np.int16)
    view = owner[5:]
    view.flags.writeable = False
    cases["read_only_view"] = (view, view.copy(), overwrite(owner))
    row = np.arange(1, 5.0)
    spread = np.broadcast_to(row, (100, 4))
    cases["broadcast"] = (spread, spread.copy(), overwrite(row))
    memory = bytearray(range(1, 65))
    of_buffer = np.frombuffer(memory, np.uint16)
    of_buffer.flags.writeable = False

    def change_buffer() -> None:
        memory[:] = bytes(64)

    cases["buffer"] = (of_buffer, of_buffer.copy(), change_buffer)
    foreign = (ctypes.c_int32 * 9)(*range(9))
    of_foreign = np.ctypeslib.as_array(foreign)
    cases["ctypes"] = (of_foreign, of_foreign.copy(), overwrite(of_foreign))
    cases.update(mapped_cases(directory))
    return cases


def mapped_cases(directory: Path) -> dict[str, Case]:
    path = directory / "mapped"
    np.arange(1, 3001, dtype=np.int32).tofile(path)
    shared = np.memmap(path, np.int32, "r+")
    reading = np.memmap(path, np.int32, "r")[100:]
    private = np.memmap(path, np.int32, "c")

    def change_file() -> None:
        with open(path, "r+b") as file:
            file.write(bytes(12000))

    return {
        "mapped": (shared, np.array(shared), overwrite(shared)),
        "mapped_read_only": (reading, np.array(reading), change_file),
        "mapped_copy_on_write": (private, np.array(private), change_file),
    }


def check(cases: dict[str, Case], ckpt: Path) -> None:
    """Saves all cases, changes every leaf right after the call, and compares
    what is loaded."""
    tree: dict[str, Any] = {
        "leaves": {name: case[0] for name, case in cases.items()},
        "list": [np.arange(3), 5, "text"],
    }
    future = holdfast.save(ckpt, tree, background=True)
    for _, _, change in cases.values():
        change()
    tree["leaves"].clear()
    tree["list"][:] = [0]
    tree.clear()
    future.result()
    loaded = holdfast.load(ckpt)
    assert set(loaded["leaves"]) == set(cases)
    for name, (_, want, _) in cases.items():
        np.testing.assert_array_equal(
            loaded["leaves"][name], want, err_msg=name
        )
    assert loaded["list"][0].tolist() == [0, 1, 2]
    assert loaded["list"][1:] == [5, "text"]


@pytest.mark.parametrize("round_number", range(3))
def test_numpy(tmp_path: Path, round_number: int) -> None:
    check(numpy_cases(tmp_path), tmp_path / "ckpt")


def test_ml_dtypes(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kinds = (
        "bfloat16 float8_e3m4 float8_e4m3fn float8_e5m2 float8_e8m0fnu "
        "float4_e2m1fn int4 int2"
    ).split()
    cases = {
        kind: plain(np.ones(33).astype(getattr(ml_dtypes, kind)))
        for kind in kinds
    }
    strided = np.arange(1, 101).astype(ml_dtypes.bfloat16)[::3]
    cases["strided"] = plain(strided)
    check(cases, tmp_path / "ckpt")


def test_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def case(tensor: Any) -> Case:
        want = tensor.detach().clone()
        if want.dtype == torch.bfloat16:
            ml_dtypes = pytest.importorskip("ml_dtypes")
            want = want.to(torch.float32).numpy().astype(ml_dtypes.bfloat16)

        def change() -> None:
            with torch.no_grad():
                tensor.zero_()

        return tensor, np.asarray(want), change

    base = torch.arange(1.0, 1001)
    parameter = torch.nn.Parameter(torch.ones(300, 5))
    optimizer = torch.optim.SGD([parameter], lr=0.5)

    def train() -> None:
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()

    want = parameter.detach().clone().numpy()
    cases: dict[str, Case] = {
        "plain": case(torch.arange(1, 40)),
        "strided": case(base[3:900:7]),
        "transposed": case(torch.ones(7, 9).t()),
        "bfloat16": case(torch.ones(50, dtype=torch.bfloat16)),
        "shared_memory": case(torch.ones(64).share_memory_()),
        "channels_last": case(
            torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
        ),
        "conjugate": (
            torch.tensor([1 + 2j, 3 - 4j]).conj(),
            np.array([1 - 2j, 3 + 4j], np.complex64),
            lambda: None,
        ),
        "parameter": (parameter, want, train),
    }
    check(cases, tmp_path / "ckpt")


def test_jax(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    add = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    donated = jax.numpy.arange(1, (1 << 20) + 1)
    deleted = jax.numpy.arange(1, 2049)
    mesh = jax.sharding.Mesh(jax.devices(), ("x",))
    spread = jax.device_put(
        np.arange(64),
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")),
    )

    def give_away() -> None:
        add(donated).block_until_ready()

    cases: dict[str, Case] = {
        "donated": (donated, np.arange(1, (1 << 20) + 1), give_away),
        "deleted": (deleted, np.arange(1, 2049), deleted.delete),
        "spread": (spread, np.arange(64), spread.delete),
    }
    check(cases, tmp_path / "ckpt")
