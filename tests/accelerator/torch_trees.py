"""Trees of torch tensors for the checks, and comparisons of trees."""

from __future__ import annotations

import filecmp
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import holdfast

DTYPES = [
    dtype
    for name in (
        "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16"
        " bfloat16 float32 float64 complex64 complex128 float8_e4m3fn"
        " float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
    ).split()
    if isinstance(dtype := getattr(torch, name, None), torch.dtype)
]

# Each makes a tensor with other strides from a contiguous one of (24, 36).
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "columns": lambda x: x[:, 5:17],
    "every_second": lambda x: x[::2, 1::3],
    "offset": lambda x: x.reshape(-1)[7:],
    "expanded": lambda x: x[:, :1].expand(24, 50),
    "repeated_row": lambda x: x[3].expand(9, 36),
    "permuted": lambda x: x.reshape(4, 6, 36).permute(2, 0, 1),
    "of_rank_5": lambda x: x.reshape(2, 3, 4, 6, 6).permute(4, 1, 3, 0, 2),
    "scalar": lambda x: x[5, 7],
    "one": lambda x: x[:1, :1],
}


def elements(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> Any:
    """Returns a CPU tensor of random bits (of numbers, where not every bit
    pattern may be stored unchanged)."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_complex:
        real = torch.float32 if dtype == torch.complex64 else torch.float64
        parts = torch.randn((*shape, 2), generator=generator, dtype=real)
        return torch.view_as_complex(parts)
    bits = torch.randint(
        0,
        256,
        (*shape[:-1], shape[-1] * dtype.itemsize),
        generator=generator,
        dtype=torch.uint8,
    )
    return bits.view(dtype)


def layouts(device: str) -> dict[str, dict[str, Any]]:
    """Returns {dtype: {layout: tensor}}, the same for every device."""
    tree = {}
    for seed, dtype in enumerate(DTYPES):
        base = elements(dtype, (24, 36), seed).to(device)
        leaves = {name: make(base) for name, make in LAYOUTS.items()}
        if dtype.is_complex:
            leaves["conjugated"] = base.conj()
            leaves["conjugated_transposed"] = base.conj().t()
            leaves["negated"] = base.conj().imag
        tree[str(dtype).removeprefix("torch.")] = leaves
    return tree


def large(device: str, pretend: bool) -> dict[str, Any]:
    """Returns tensors that need several chunks and several pinned buffers."""
    rows = 64 if pretend else 3000
    base = elements(torch.bfloat16, (rows, 8192), 1).to(device)
    return {
        "plain": base,
        "transposed": base.t(),
        "columns": base[:, 100:7777],
        "float32": elements(torch.float32, (rows, 1111), 2).to(device),
        "cube": base.reshape(rows, 64, 128).permute(1, 2, 0),
    }


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor's elements as bytes, in C order, on the host."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    return plain.contiguous().reshape(-1).view(torch.uint8)


def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Returns {"a.b": leaf} of nested dicts."""
    if not isinstance(tree, dict):
        return {prefix.removeprefix("."): tree}
    return {
        name: leaf
        for key, value in tree.items()
        for name, leaf in flat(value, f"{prefix}.{key}").items()
    }


def same_tensors(got: Any, want: Any, device: str = "") -> None:
    """Asserts that the trees have the same bits; with `device`, that the
    tensors of `got` are there."""
    got, want = flat(got), flat(want)
    assert got.keys() == want.keys(), got.keys() ^ want.keys()
    for name, wanted in want.items():
        mine = got[name]
        assert isinstance(mine, torch.Tensor), (name, type(mine))
        if device:
            home = torch.device(device)
            assert mine.device == home, f"{name} is on {mine.device}"
        assert mine.dtype == wanted.dtype, (name, mine.dtype, wanted.dtype)
        assert mine.shape == wanted.shape, (name, mine.shape, wanted.shape)
        count = int((bits(mine) != bits(wanted)).sum())
        assert count == 0, f"{name}: {count} bytes differ"


def on_host(tree: Any) -> Any:
    """Returns the tree on the CPU, with the strides that it has."""
    if isinstance(tree, dict):
        return {key: on_host(value) for key, value in tree.items()}
    return tree.cpu()


def load_on(path: pathlib.Path, device: str, **options: Any) -> Any:
    """Loads torch tensors onto a device, and says so if this is not there."""
    try:
        return holdfast.load(path, arrays="torch", device=device, **options)
    except TypeError as error:
        if "device" not in str(error):
            raise
        raise AssertionError(
            "not there: holdfast.load has no argument `device`"
        ) from None


def same_files(mine: pathlib.Path, other: pathlib.Path) -> None:
    """Asserts that two checkpoints without a database have the same files, up
    to the times that some record."""
    with_times = {"_CHECKPOINT_METADATA", "_HOLDFAST_DIGESTS"}
    with_times.add("commit_success.txt")
    names = _files(mine)
    assert names == _files(other), names ^ _files(other)
    for name in sorted(names - with_times):
        assert filecmp.cmp(mine / name, other / name, shallow=False), (
            f"{name} differs from the file of the CPU's path"
        )


def _files(root: pathlib.Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file()
    }


def damage(root: pathlib.Path) -> None:
    """Flips a bit in the middle of a checkpoint's largest file."""
    largest = max(
        (path for path in root.rglob("*") if path.is_file()),
        key=lambda path: path.stat().st_size,
    )
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 4
    largest.write_bytes(data)


def error_of(function: Callable[[], Any]) -> Exception:
    """Returns what `function` raises. Raises AssertionError if it does not."""
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("no error was raised")


def as_numpy_bits(array: Any) -> bytes:
    return np.ascontiguousarray(np.asarray(array)).tobytes()
