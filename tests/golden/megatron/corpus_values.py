"""The corpus's values: its data, its typed JSON, and its tensors, which are
torch tensors or numpy arrays."""

from __future__ import annotations

import argparse
import collections
import hashlib
import io
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

# The numpy types that hold the bits. numpy itself has no bfloat16 or float8.
NUMPY = {
    "bool": "|b1",
    "uint8": "|u1",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "float16": "<f2",
    "bfloat16": "<u2",
    "float32": "<f4",
    "float64": "<f8",
    "complex64": "<c8",
    "complex128": "<c16",
    "float8_e4m3fn": "|u1",
    "float8_e5m2": "|u1",
}

try:
    import torch
except ImportError:
    torch = None


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---- data


def hash32(index: Any, seed: int) -> Any:
    mask = np.uint64(0xFFFFFFFF)
    x = (
        index * np.uint64(0x9E3779B1)
        + np.uint64((seed * 0x85EBCA6B + 0x27D4EB2F) & 0xFFFFFFFF)
    ) & mask
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(0x2C1B3C6D)) & mask
    x ^= x >> np.uint64(12)
    x = (x * np.uint64(0x297A2D39)) & mask
    return x ^ (x >> np.uint64(15))


def formula(dtype: str, shape: list[int], seed: int) -> Any:
    index = np.arange(math.prod(shape), dtype=np.uint64)
    x, y = hash32(index, seed), hash32(index, seed ^ 0x5BD1E995)

    def wide(v: Any) -> Any:
        return ((v & np.uint64(0xFFFFF)).astype(np.int64) - 524288) / 1024.0

    narrow = ((x & np.uint64(0xFF)).astype(np.int64) - 128) / 8.0
    if dtype == "bool":
        made = (x & np.uint64(1)).astype("|b1")
    elif dtype == "int64":
        made = (x | (y << np.uint64(32))).view("<i8")
    elif dtype == "bfloat16":
        bits = narrow.astype("<f4").view("<u4")
        made = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    elif dtype == "float16":
        made = narrow.astype("<f2")
    elif dtype in ("float32", "float64"):
        made = wide(x).astype(NUMPY[dtype])
    elif dtype in ("complex64", "complex128"):
        made = (wide(x) + 1j * wide(y)).astype(NUMPY[dtype])
    else:
        width = np.dtype(NUMPY[dtype]).itemsize
        mask = np.uint64((1 << 8 * width) - 1)
        made = (x & mask).astype(f"<u{width}").view(NUMPY[dtype])
    return made.reshape(shape)


def global_data(tensor: dict[str, Any]) -> Any:
    if "hex" in tensor:
        data = np.frombuffer(
            bytes.fromhex(tensor["hex"]), NUMPY[tensor["dtype"]]
        )
        return data.reshape(tensor["global_shape"]).copy()
    return formula(tensor["dtype"], tensor["global_shape"], tensor["seed"])


def shard_data(entry: dict[str, Any], whole: Any) -> Any:
    lead = entry["prepend_axis_num"]
    offset = entry["global_offset"]
    box = tuple(offset[:lead]) + tuple(
        slice(o, o + n)
        for o, n in zip(offset[lead:], entry["local_shape"], strict=True)
    )
    # The part of a shard that is outside the global tensor is zero.
    part = np.zeros(entry["local_shape"], whole.dtype)
    found = whole[box]
    part[tuple(map(slice, found.shape))] = found
    flat = entry["flattened_range"]
    return part if flat is None else part.reshape(-1)[flat[0] : flat[1]]


def normal_nans(bits: Any) -> Any:
    """Returns bfloat16 bits with all NaNs alike.

    Megatron Core converts bfloat16 to float32 and back, which loses the
    payloads of NaNs.
    """
    bits = bits.copy()
    bits[((bits & 0x7F80) == 0x7F80) & ((bits & 0x7F) != 0)] = 0x7FC0
    return bits


# ---- tensors that the caller passes


class Arrays:
    """Makes torch tensors or numpy arrays from a dtype name and bits."""

    def __init__(self, kind: str) -> None:
        self.is_torch = kind == "torch"

    def dtype(self, name: str) -> Any:
        if self.is_torch:
            return getattr(torch, name)
        try:
            return np.dtype(name)
        except TypeError:
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, name))

    def make(self, bits: Any, name: str) -> Any:
        bits = np.ascontiguousarray(bits).reshape(bits.shape)
        if not self.is_torch:
            return bits.view(self.dtype(name))
        carrier = bits
        if NUMPY[name] == "<u2" and name != "uint16":
            carrier = bits.view("<i2")
        tensor = torch.from_numpy(carrier.copy())
        dtype = self.dtype(name)
        return tensor if tensor.dtype == dtype else tensor.view(dtype)

    def empty_of(self, shape: list[int], name: str) -> Any:
        return self.make(np.zeros(shape, NUMPY[name]), name)


def bits_of(value: Any) -> tuple[str, Any]:
    """Returns (dtype name, bits) of a tensor."""
    if torch is not None and isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        value = value.detach().contiguous()
        if name not in ("bool",) and NUMPY[name] in ("<u2", "|u1"):
            width = {"<u2": torch.int16, "|u1": torch.uint8}[NUMPY[name]]
            value = value.view(width)
        array = value.numpy()
        return name, np.ascontiguousarray(array).view(NUMPY[name]).reshape(
            array.shape
        )
    name = str(value.dtype.name)
    carried = np.ascontiguousarray(value)
    if carried.dtype.byteorder == ">":
        carried = carried.astype(carried.dtype.newbyteorder("<"))
    return name, carried.view(NUMPY[name]).reshape(value.shape)


def describe(value: Any, is_normal: bool = False) -> dict[str, Any]:
    name, bits = bits_of(value)
    if is_normal and name == "bfloat16":
        bits = normal_nans(bits)
    return {
        "dtype": name,
        "shape": list(bits.shape),
        "sha256": sha256(bits.tobytes()),
    }


def is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (
        torch is not None and isinstance(value, torch.Tensor)
    )


# ---- typed JSON


def encoded(value: Any) -> Any:
    """Returns a Python value as the corpus's typed JSON."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, io.BytesIO):
        return {"$bytesio": value.getvalue().hex()}
    if isinstance(value, collections.OrderedDict):
        pairs = [[encoded(k), encoded(v)] for k, v in value.items()]
        return {"$odict": pairs}
    if isinstance(value, dict):
        if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: encoded(v) for k, v in value.items()}
        return {"$dict": [[encoded(k), encoded(v)] for k, v in value.items()]}
    if type(value).__name__ == "Namespace":
        return {"$namespace": {k: encoded(v) for k, v in vars(value).items()}}
    if isinstance(value, (set, frozenset)):
        items = [encoded(v) for v in value]
        return {
            "$set": sorted(items, key=lambda v: json.dumps(v, sort_keys=True))
        }
    if isinstance(value, list):
        return [encoded(v) for v in value]
    if isinstance(value, np.ndarray):
        if torch is None and getattr(value, "is_torch_tensor", False):
            return {"$tensor": with_hex(value)}
        return {
            "$ndarray": {
                "dtype": value.dtype.str,
                "shape": list(value.shape),
                "sha256": sha256(np.ascontiguousarray(value).tobytes()),
            }
        }
    if torch is not None and isinstance(value, torch.Tensor):
        return {"$tensor": with_hex(value)}
    if torch is not None and isinstance(value, torch.dtype):
        return {"$torch.dtype": str(value)}
    if isinstance(value, tuple):
        return {"$tuple": [encoded(v) for v in value]}
    return {"$unknown": repr(value)}


def with_hex(value: Any) -> dict[str, Any]:
    made = describe(value)
    name, bits = bits_of(value)
    if bits.size <= 16:
        made["hex"] = bits.tobytes().hex()
    return made


def same_without_torch(want: Any, got: Any) -> bool:
    """Whether two values are equal.

    Without torch, an ndarray counts as equal to a tensor, and the name of a
    dtype as equal to the torch dtype.
    """
    if want == got:
        return True
    if torch is not None:
        return False
    if isinstance(want, dict) and isinstance(got, dict):
        if set(want) == {"$tensor"} and set(got) <= {"$tensor", "$ndarray"}:
            inner = next(iter(got.values()))
            return bool(want["$tensor"]["sha256"] == inner["sha256"])
        return set(want) == set(got) and all(
            same_without_torch(want[k], got[k]) for k in want
        )
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got) and all(
            same_without_torch(a, b) for a, b in zip(want, got, strict=True)
        )
    if isinstance(want, dict) and set(want) == {"$torch.dtype"}:
        return want["$torch.dtype"].endswith(str(got))
    return False


def decoded(value: Any, arrays: Arrays) -> Any:
    """Returns the Python value of typed JSON."""
    if isinstance(value, list):
        return [decoded(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or not next(iter(value)).startswith("$"):
        return {k: decoded(v, arrays) for k, v in value.items()}
    ((kind, inner),) = value.items()
    pairs = (
        [(decoded(k, arrays), decoded(v, arrays)) for k, v in inner]
        if kind in ("$dict", "$odict")
        else []
    )
    makers: dict[str, Callable[[], Any]] = {
        "$tuple": lambda: tuple(decoded(v, arrays) for v in inner),
        "$dict": lambda: dict(pairs),
        "$odict": lambda: collections.OrderedDict(pairs),
        "$set": lambda: {decoded(v, arrays) for v in inner},
        "$bytes": lambda: bytes.fromhex(inner),
        "$bytesio": lambda: io.BytesIO(bytes.fromhex(inner)),
        "$float": lambda: float(inner),
        "$namespace": lambda: argparse.Namespace(
            **{k: decoded(v, arrays) for k, v in inner.items()}
        ),
        "$torch.dtype": lambda: (
            getattr(torch, inner.removeprefix("torch."))
            if torch is not None
            else inner
        ),
        "$tensor": lambda: arrays.make(
            np.frombuffer(
                bytes.fromhex(inner["hex"]), NUMPY[inner["dtype"]]
            ).reshape(inner["shape"])
            if "hex" in inner
            else np.zeros(inner["shape"], NUMPY[inner["dtype"]]),
            inner["dtype"],
        ),
        "$ndarray": lambda: np.zeros(inner["shape"], inner["dtype"]),
    }
    return makers[kind]()
