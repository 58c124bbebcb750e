"""Saves and loads torch tensors on the CPU, in torch's own memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import _torch_arrays, errors

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
]


def tensor(dtype: str) -> Any:
    base = torch.arange(24).reshape(4, 6) % 2
    return base.to(torch.float32).to(getattr(torch, dtype))


def raw(value: Any) -> bytes:
    return bytes(value.contiguous().reshape(-1).view(torch.uint8).tolist())


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(ckpt: Path, dtype: str) -> None:
    value = tensor(dtype)
    holdfast.save(ckpt, {"a": value})
    plain = holdfast.load(ckpt)["a"]
    assert plain.dtype.name == dtype and plain.tobytes() == raw(value)
    got = holdfast.load(ckpt, {"a": torch.zeros_like(value)})["a"]
    assert got.dtype == value.dtype and raw(got) == raw(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.T,
        lambda t: t[::2, 1:5],
        lambda t: t[1],
        lambda t: t[0, 0],
        lambda t: t[:1].expand(5, 6),
        lambda t: torch.conj(t.to(torch.complex64) * 1j),
    ],
)
def test_layouts(ckpt: Path, make: Any) -> None:
    value = make(torch.arange(24.0).reshape(4, 6))
    holdfast.save(ckpt, {"a": value})
    got = holdfast.load(ckpt)["a"]
    assert got.shape == tuple(value.shape)
    np.testing.assert_array_equal(got, value.resolve_conj().numpy())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_no_copy_on_the_way_out(dtype: str) -> None:
    value = tensor(dtype).T
    array = _torch_arrays.as_numpy(value)
    assert array.ctypes.data == value.data_ptr()
    back = _torch_arrays.tensor_on(array, dtype)
    assert back.data_ptr() == value.data_ptr() and back.dtype == value.dtype


def test_modules_and_gradients(ckpt: Path) -> None:
    model = torch.nn.Linear(3, 2).to(torch.bfloat16)
    holdfast.save(ckpt, dict(model.state_dict(keep_vars=True)))
    other = torch.nn.Linear(3, 2).to(torch.bfloat16)
    got = holdfast.load(ckpt, dict(other.state_dict(keep_vars=True)))
    assert isinstance(got["weight"], torch.nn.Parameter)
    assert got["weight"].requires_grad
    other.load_state_dict(got)
    assert torch.equal(other.weight, model.weight)
    got["weight"].data.zero_()  # its memory is writable


def test_meta_tensors_are_targets(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": torch.arange(6.0)})
    target = {"a": torch.empty(6, device="meta")}
    got = holdfast.load(ckpt, target)["a"]
    assert got.device.type == "cpu" and got.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(errors.InvalidArgumentError, match="float64"):
        holdfast.load(ckpt, {"a": torch.empty(6, dtype=torch.float64)})


def test_what_cannot_be_saved(ckpt: Path) -> None:
    for value, words in (
        (torch.empty(3, device="meta"), r"'p\.w'.* on the meta device"),
        (torch.eye(3).to_sparse(), r"'p\.w'.* torch.sparse_coo"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=words):
            holdfast.save(ckpt, {"p": {"w": value}})


def test_background_saves_copy_tensors(ckpt: Path) -> None:
    value = torch.ones(1000)
    future = holdfast.save(ckpt, {"a": value}, background=True)
    value.zero_()
    assert future.result().copied_bytes == 4000
    assert holdfast.load(ckpt)["a"].sum() == 1000


def test_load_as_tensors_without_a_target(tmp_path: Path) -> None:
    tree = {
        "w": torch.arange(6.0).reshape(2, 3).to(torch.bfloat16),
        "groups": [{"lr": 0.5, "ids": torch.tensor([1, 2])}],
        "step": 3,
    }
    holdfast.save(tmp_path / "c", tree)
    loaded = holdfast.load(tmp_path / "c", arrays="torch")
    assert loaded["w"].dtype == torch.bfloat16
    assert torch.equal(loaded["w"], tree["w"])
    assert torch.equal(loaded["groups"][0]["ids"], torch.tensor([1, 2]))
    assert loaded["groups"][0]["lr"] == 0.5
    assert loaded["step"] == 3


def test_load_as_tensors_refuses_what_torch_lacks(tmp_path: Path) -> None:
    import ml_dtypes

    holdfast.save(tmp_path / "c", {"w": np.zeros(3, ml_dtypes.int2)})
    with pytest.raises(errors.InvalidArgumentError, match="no arrays of int2"):
        holdfast.load(tmp_path / "c", arrays="torch")
    with pytest.raises(errors.InvalidArgumentError, match="'tensors'"):
        holdfast.load(tmp_path / "c", arrays="tensors")  # type: ignore
