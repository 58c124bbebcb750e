"""Writes the golden files beside this script with the real libraries.

usage: make.py          (needs numpy, ml_dtypes, torch and safetensors)

Byte i of a tensor is (7 * i + 3) % 251, whatever the dtype; element i of a
bool tensor is i % 2.
"""

import pathlib

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

HERE = pathlib.Path(__file__).parent
TORCH = [
    "float32", "float16", "bfloat16", "float64", "int8", "int16", "int32",
    "int64", "uint8", "uint16", "uint32", "uint64", "bool", "complex64",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn_x2",
]  # fmt: skip
NUMPY = [
    "float32", "float16", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128",
]  # fmt: skip


def raw(count: int) -> np.ndarray:
    return ((7 * np.arange(count) + 3) % 251).astype(np.uint8)


def torch_tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    count = int(np.prod(shape))
    if name == "bool":
        return (torch.arange(count) % 2).to(torch.bool).reshape(shape)
    dtype = getattr(torch, name)
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.from_numpy(raw(count * size)).view(dtype).reshape(shape)


def numpy_array(name: str, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    if name == "bool":
        return (np.arange(count) % 2).astype(bool).reshape(shape)
    size = np.dtype(name).itemsize
    return raw(count * size).view(name).reshape(shape)


def main() -> None:
    tensors = {f"t.{name}": torch_tensor(name, (3, 4)) for name in TORCH}
    tensors["scalar"] = torch.tensor(3.5)
    tensors["empty"] = torch.zeros(0, 5)
    safetensors.torch.save_file(
        tensors, HERE / "torch.safetensors", metadata={"format": "pt"}
    )
    arrays = {name: numpy_array(name, (2, 3, 2)) for name in NUMPY[:13]}
    safetensors.numpy.save_file(arrays, HERE / "numpy.safetensors")
    arrays = {f"c.{name}": numpy_array(name, (3, 4)) for name in NUMPY}
    for name in ("float32", "int16", "complex64"):
        value = numpy_array(name, (3, 4))
        arrays[f"f.{name}"] = np.asfortranarray(value)
        arrays[f"big.{name}"] = value.astype(value.dtype.newbyteorder(">"))
    arrays["scalar"] = np.float64(3.5)
    arrays["empty"] = np.zeros((0, 5), np.float32)
    arrays["text"] = np.array(["a", "bcd"])
    arrays["time"] = np.array([0, 1], "M8[ns]")
    np.savez(HERE / "stored.npz", **arrays)
    np.savez_compressed(HERE / "deflated.npz", **arrays)
    objects = {"objects": np.array([{"a": 1}], object), "fine": np.arange(3)}
    np.savez(HERE / "objects.npz", **objects)


if __name__ == "__main__":
    main()
