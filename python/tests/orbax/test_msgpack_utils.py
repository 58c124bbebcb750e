"""flax's msgpack format in memory, compared with Orbax's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from holdfast import _engine
from holdfast.orbax import msgpack_utils

ml_dtypes = pytest.importorskip("ml_dtypes")

TREES: list[Any] = [
    None,
    {"b": 1, "a": [True, None, "text", b"bytes"]},
    {"deep": {"x": (1, (2.5, "ü" * 40)), "y": []}},
    [2**k + d for k in (5, 7, 8, 15, 16, 31, 32, 63) for d in (-1, 0)],
    [-(2**k) - d for k in (5, 7, 15, 31) for d in (0, 1)] + [-(2**63)],
    [0.1, -0.0, float("inf"), 3 + 4j],
    {"t" * n: "x" * n for n in (31, 32, 255, 256, 65536)},
    {str(i): i for i in range(20)},
    [list(range(n)) for n in (15, 16, 70000)],
    [b"", b"x" * 255, b"x" * 256, b"x" * 65536],
    {
        "f32": np.arange(6, dtype=np.float32).reshape(2, 3),
        "empty": np.zeros((0, 4)),
        "scalar": np.float16(1.5),
        "zero-d": np.array(7),
        "bf16": np.arange(3).astype(ml_dtypes.bfloat16),
        "bool": np.array([True, False]),
        "large": np.arange(70000.0),
    },
]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray | np.generic):
        same_kind = type(a) is type(b) and a.dtype == b.dtype
        return same_kind and a.shape == b.shape and bool(np.all(a == b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        pairs = zip(a, b, strict=True)
        return type(a) is type(b) and all(same(*pair) for pair in pairs)
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_both_write_and_read_the_same(tree: Any) -> None:
    pytest.importorskip("orbax.checkpoint")
    from orbax.checkpoint import msgpack_utils as theirs

    data = msgpack_utils.msgpack_serialize(tree)
    assert data == theirs.msgpack_serialize(tree)
    assert same(
        msgpack_utils.msgpack_restore(data), theirs.msgpack_restore(data)
    )


def test_arrays_of_jax() -> None:
    jax = pytest.importorskip("jax")
    tree = {"b": {"c": jax.numpy.arange(3)}, "a": [jax.numpy.ones(2)]}
    data = msgpack_utils.msgpack_serialize(tree)
    assert isinstance(tree["b"]["c"], jax.Array)
    theirs = pytest.importorskip("orbax.checkpoint").msgpack_utils
    assert data == theirs.msgpack_serialize(tree)


def test_large_arrays_are_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pytest.importorskip("orbax.checkpoint").msgpack_utils
    monkeypatch.setattr(msgpack_utils, "MAX_CHUNK_SIZE", 100)
    monkeypatch.setattr(theirs, "MAX_CHUNK_SIZE", 100)
    tree = {"a": {"b": np.arange(60.0).reshape(5, 12)}, "c": np.arange(12.0)}
    data = msgpack_utils.msgpack_serialize(tree)
    assert data == theirs.msgpack_serialize(tree)
    assert b"__msgpack_chunked_array__" in data
    assert same(msgpack_utils.msgpack_restore(data), tree)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (object, "Unsupported msgpack object"),
        (np.array([object()]), "Object and structured dtypes not supported"),
    ],
)
def test_refused_values(tree: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        msgpack_utils.msgpack_serialize([tree])
    with pytest.raises(OverflowError, match="Integer value out of range"):
        msgpack_utils.msgpack_serialize(2**64)


def test_damaged_bytes() -> None:
    data = msgpack_utils.msgpack_serialize({"a": np.arange(3), "b": "text"})
    for end in range(len(data)):
        with pytest.raises(ValueError):
            msgpack_utils.msgpack_restore(data[:end])
    with pytest.raises(ValueError, match="goes on after its value"):
        msgpack_utils.msgpack_restore(data + b"\0")
    with pytest.raises(ValueError, match="no values of code 0xc1"):
        msgpack_utils.msgpack_restore(b"\xc1")
    with pytest.raises(ValueError, match="Unsupported msgpack code: 9"):
        msgpack_utils.msgpack_restore(b"\xd4\x09\x00")
    with pytest.raises(ValueError, match="too many levels"):
        msgpack_utils.msgpack_restore(b"\x91" * 2000 + b"\x00")


def test_loops_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="recursion limit exceeded"):
        _engine.msgpack_pack(loop, str)
