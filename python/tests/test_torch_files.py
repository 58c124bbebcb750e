"""torch.save files: random values, exchanged with real torch."""

from __future__ import annotations

import argparse
import collections
import io
import json
import pathlib
import pickle
import random
from typing import Any

import numpy as np
import pytest

from holdfast import _engine, errors
from holdfast._pickle_record import PickleRecord

torch = pytest.importorskip("torch")

DTYPES = [
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32",
    "int64", "uint8", "uint16", "uint32", "uint64", "bool", "complex64",
    "complex128", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


def bits_of(tensor: Any) -> bytes:
    """Returns the bytes of the elements in C order."""
    if tensor.numel() == 0:
        return b""
    flat = tensor.detach().contiguous().flatten().view(torch.uint8)
    return bytes(flat.numpy().tobytes())


def make_tensor(array: Any, dtype: str) -> Any:
    tensor = torch.from_numpy(array)
    wanted = getattr(torch, dtype)
    return tensor if tensor.dtype == wanted else tensor.view(wanted)


def take_tensor(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return None
    name = str(value.dtype)[len("torch.") :]
    value = value.detach()
    if name == "bfloat16":
        return value.view(torch.int16).numpy(), name
    if name.startswith("float8"):
        return value.view(torch.uint8).numpy(), name
    return value.numpy(), name


def random_tensor(source: random.Random) -> Any:
    dtype = getattr(torch, source.choice(DTYPES))
    shape = [source.randrange(5) for _ in range(source.randrange(4))]
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    width = torch.empty(0, dtype=dtype).element_size()
    limit = 2 if dtype == torch.bool else 256
    raw = [source.randrange(limit) for _ in range(count * width)]
    tensor = torch.tensor(raw, dtype=torch.uint8).view(dtype).reshape(shape)
    if len(shape) > 1 and source.random() < 0.5:
        tensor = tensor.transpose(0, 1)
    return tensor


def random_value(source: random.Random, depth: int) -> Any:
    """Draws None, a number, a string, a tensor, or a container of such
    values."""
    makers = [
        lambda: None,
        lambda: source.random() < 0.5,
        lambda: source.randrange(-(2 ** source.randrange(1, 100)), 2**70),
        lambda: source.choice([0.1, -0.0, 1e300, float("inf"), 5e-324]),
        lambda: source.choice(["", "é", "a\ud800", "\U0001f600\n"]),
        lambda: bytes(source.randrange(256) for _ in range(3)),
        lambda: complex(1, -2),
        lambda: torch.Size([1, 2]),
        lambda: torch.bfloat16,
        lambda: random_tensor(source),
    ]
    if depth == 0:
        return source.choice(makers)()
    inner = [random_value(source, depth - 1) for _ in range(4)]
    containers = [
        lambda: inner,
        lambda: tuple(inner),
        lambda: {f"k{i}": value for i, value in enumerate(inner)},
        lambda: dict(enumerate(inner)),
        lambda: collections.OrderedDict(b=inner[0], a=inner[1]),
        lambda: {source.randrange(100) for _ in range(3)},
    ]
    return source.choice(makers + 3 * containers)()


def check_same(want: Any, got: Any) -> None:
    assert type(want) is type(got)
    if isinstance(want, torch.Tensor):
        assert want.dtype == got.dtype
        assert want.shape == got.shape
        assert bits_of(want) == bits_of(got)
    elif isinstance(want, dict):
        assert list(want) == list(got)
        for key in want:
            check_same(want[key], got[key])
    elif isinstance(want, (list, tuple)):
        assert len(want) == len(got)
        for a, b in zip(want, got, strict=True):
            check_same(a, b)
    elif isinstance(want, set):
        assert want == got
    else:
        assert repr(want) == repr(got)


def torch_file(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


@pytest.mark.parametrize("seed", range(40))
def test_both_ways(seed: int) -> None:
    value = random_value(random.Random(seed), 3)
    file = torch_file(value)
    read = _engine.read_torch_file(file, make_tensor)
    check_same(value, read)
    written = _engine.write_torch_file(read, take_tensor)
    check_same(value, torch.load(io.BytesIO(written), weights_only=True))
    # Equal values have the same canonical text.
    text = _engine.torch_file_json(file)
    assert _engine.torch_file_json(written) == text
    parsed = json.loads(text)
    compact = json.dumps(parsed, sort_keys=True, separators=(",", ":"))
    assert compact == text
    old = torch_file(value, _use_new_zipfile_serialization=False)
    assert _engine.torch_file_json(old) == text


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_every_protocol(protocol: int) -> None:
    value = {
        "numbers": [0, -1, 255, 65536, 2**31, -(2**63), 2**200, 0.1, 1j],
        "texts": ["", "é", "a\nb", "\ud800"],
        "bytes": [b"", b"\0\xff", bytearray(b"x")],
        "containers": [(), (1,), {}, {1: 2}, {1, 2}, frozenset({3})],
        "array": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "swapped": np.arange(3, dtype=">i4"),
        "words": np.array(["ab", "c"]),
        "scalar": np.float32(3.5),
        "space": argparse.Namespace(x=1),
        "ordered": collections.OrderedDict(b=1, a=2),
    }
    got = _engine.read_pickle(pickle.dumps(value, protocol))
    assert list(got) == list(value)
    for key, want in value.items():
        if isinstance(want, np.ndarray):
            assert np.array_equal(got[key], want)
            assert got[key].dtype == want.dtype.newbyteorder("=")
        else:
            assert repr(got[key]) == repr(want)


def test_other_classes_are_records() -> None:
    value = [pathlib.PurePosixPath("/a/b"), collections.deque([1])]
    path, deque = _engine.read_torch_file(torch_file(value))
    assert isinstance(path, PickleRecord)
    assert (path.module, path.name) == ("pathlib", "PurePosixPath")
    assert path.args == ("/", "a", "b")
    assert (deque.module, deque.name) == ("collections", "deque")
    written = _engine.write_torch_file([path, deque])
    assert torch.load(io.BytesIO(written), weights_only=False) == value


def test_nothing_is_run(tmp_path: pathlib.Path) -> None:
    marker = tmp_path / "ran"

    class Acts:
        def __reduce__(self) -> Any:
            return (marker.touch, ())

    for value in (Acts(), {"deep": [Acts()]}):
        with pytest.raises(
            errors.PermissionDeniedError, match="holdfast does not run"
        ):
            _engine.read_torch_file(torch_file(value))
    assert not marker.exists()


def test_what_cannot_be_written() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        _engine.write_torch_file(loop)
    with pytest.raises(ValueError, match="object of builtins.object"):
        _engine.write_torch_file(object())
