"""diff, stats and merge, compared with numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import holdfast

_DTYPES = [
    "bool",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
_SHAPES: list[tuple[int, ...]] = [(), (1,), (3, 5), (67, 41)]


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _random(
    rng: np.random.Generator, name: str, shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    dtype = _dtype(name)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if name == "int4":
        return rng.integers(-8, 8, shape).astype(dtype)
    count = int(np.prod(shape))
    raw = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
    values = raw.view(dtype).reshape(shape).copy()
    values[rng.random(shape) < 0.2] = 0
    return values


def _wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the values in a dtype that holds them exactly (64 bits of
    mantissa)."""
    if np.iscomplexobj(values):
        return values.astype(np.clongdouble)
    if values.dtype.kind in "iu" or values.dtype == bool:
        return values.astype(np.longdouble)
    return values.astype(np.float64).astype(np.longdouble)


@pytest.mark.parametrize("name", _DTYPES)
def test_stats_are_those_of_numpy(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    arrays = {f"a{i}": _random(rng, name, s) for i, s in enumerate(_SHAPES)}
    holdfast.save(tmp_path / "c", arrays)
    found = holdfast.stats(tmp_path / "c", threads=2)
    with np.errstate(all="ignore"):
        for key, array in arrays.items():
            _check_stats(found[key], array)


def _check_stats(leaf: holdfast.LeafStats, array: np.ndarray[Any, Any]) -> None:
    wide = _wide(array)
    finite = wide[np.isfinite(wide)]
    assert leaf.shape == array.shape
    assert leaf.element_count == array.size
    assert leaf.finite_count == finite.size
    assert leaf.zero_count == np.count_nonzero(wide == 0)
    assert leaf.nan_count == np.count_nonzero(np.isnan(wide))
    assert leaf.infinity_count == array.size - finite.size - leaf.nan_count
    if finite.size == 0:
        assert leaf.min is None and np.isnan(leaf.mean)
        return
    if not np.iscomplexobj(array):
        assert leaf.min == finite.min()
        assert leaf.max == finite.max()
    assert leaf.absmax == pytest.approx(float(np.abs(finite).max()), rel=1e-15)
    scale = float(np.abs(finite).max())
    assert leaf.mean == pytest.approx(
        complex(finite.mean())
        if np.iscomplexobj(array)
        else float(finite.mean()),
        abs=1e-14 * scale,
    )
    assert leaf.std == pytest.approx(float(finite.std()), rel=1e-12)
    squares = (np.abs(finite) ** 2).sum()
    assert leaf.l2_norm == pytest.approx(float(np.sqrt(squares)), rel=1e-12)


@pytest.mark.parametrize("name", _DTYPES)
def test_diff_is_that_of_numpy(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a = {f"a{i}": _random(rng, name, s) for i, s in enumerate(_SHAPES)}
    b = {}
    for key, array in a.items():
        other = _random(rng, name, array.shape)
        b[key] = np.where(rng.random(array.shape) < 0.3, other, array)
        b[key] = b[key].astype(array.dtype)
    holdfast.save(tmp_path / "a", a)
    holdfast.save(tmp_path / "b", b, format="orbax-v1", compression="fast")
    found = holdfast.diff(tmp_path / "a", tmp_path / "b", atol=0.5, rtol=0.1)
    with np.errstate(all="ignore"):
        for leaf in found.leaves:
            _check_diff(leaf, a[leaf.name], b[leaf.name])


def _check_diff(
    leaf: holdfast.LeafDiff, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]
) -> None:
    x, y = _wide(a), _wide(b)
    if np.iscomplexobj(a):
        parts = [(x.real, y.real), (x.imag, y.imag)]
    else:
        parts = [(x, y)]
    same = np.ones(a.shape, bool)
    nan = np.zeros(a.shape, bool)
    for p, q in parts:
        equal = (p == q) | (np.isnan(p) & np.isnan(q))
        nan |= ~equal & (np.isnan(p) | np.isnan(q))
        same &= equal
    assert leaf.element_count == a.size
    assert leaf.different_count == np.count_nonzero(~same)
    assert leaf.nan_mismatch_count == np.count_nonzero(nan)
    if leaf.different_count:
        first = np.unravel_index(np.argmax(~same), a.shape)
        assert leaf.first_index == tuple(first)
        assert leaf.first_a.tobytes() == a[first].tobytes()
    numbers = ~same & ~nan
    error = np.abs(x - y)[numbers]
    larger = np.maximum(np.abs(x), np.abs(y))[numbers]
    if np.iscomplexobj(a):
        return  # the C++ tests cover parts that are NaN on both sides
    close = np.isfinite(larger) & (error <= 0.5 + np.longdouble(0.1) * larger)
    beyond = np.count_nonzero(nan) + np.count_nonzero(~close)
    assert abs(leaf.beyond_count - beyond) <= 0
    if error.size:
        assert leaf.max_abs_error == pytest.approx(float(error.max()))
    assert leaf.what == ("values" if beyond else "same")


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_average_is_that_of_numpy(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    dtype = _dtype(name)
    weights = [0.5, 0.25, 1.25]
    trees = [
        {"w": rng.normal(size=(40, 50)).astype(dtype), "step": 3}
        for _ in weights
    ]
    for i, tree in enumerate(trees):
        holdfast.save(tmp_path / str(i), tree)
    merged = holdfast.merge(
        [tmp_path / str(i) for i in range(3)],
        tmp_path / "soup",
        average=weights,
    )
    assert merged.leaf_count == 2
    want = sum(
        w * tree["w"].astype(np.float64)  # type: ignore[attr-defined]
        for w, tree in zip(weights, trees, strict=True)
    ) / sum(weights)
    got = holdfast.load(tmp_path / "soup")
    assert got["step"] == 3
    assert got["w"].dtype == dtype
    if name != "bfloat16":  # numpy's astype rounds twice
        assert got["w"].tobytes() == want.astype(dtype).tobytes()
    error = np.abs(got["w"].astype(np.float64) - want)
    unit = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24}
    assert (error <= unit.get(name, 0) * np.abs(want)).all()


def test_diff_follows_renames(tmp_path: Path) -> None:
    w = np.arange(6.0)
    holdfast.save(tmp_path / "a", {"old": {"w": w}, "text": "x"})
    holdfast.save(tmp_path / "b", {"new": {"w": w}, "text": "y"})
    found = holdfast.diff(tmp_path / "a", tmp_path / "b")
    assert not found
    by_name = {leaf.name: leaf for leaf in found.leaves}
    assert by_name["old.w"].renamed == "new.w"
    assert by_name["new.w"].what == "only in b"
    assert by_name["text"].first_byte == 0
    mapped = holdfast.diff(
        tmp_path / "a",
        tmp_path / "b",
        rename=[("old/(.*)", r"new/\1")],
        drop="text",
    )
    assert [leaf.what for leaf in mapped.leaves] == ["same", "only in b"]
    named = holdfast.diff(
        tmp_path / "a", tmp_path / "b", rename={"old.w": "new.w"}
    )
    assert [leaf.name for leaf in named.worst] == ["text"]


def test_diff_of_structure_ignores_values(tmp_path: Path) -> None:
    holdfast.save(tmp_path / "a", {"w": np.zeros(6)})
    holdfast.save(tmp_path / "b", {"w": np.ones(6)})
    holdfast.save(tmp_path / "c", {"w": np.zeros(7)})
    assert not holdfast.diff(tmp_path / "a", tmp_path / "b")
    assert holdfast.diff(tmp_path / "a", tmp_path / "b", only_structure=True)
    assert not holdfast.diff(
        tmp_path / "a", tmp_path / "c", only_structure=True
    )


def test_merge_puts_sources_below_prefixes(tmp_path: Path) -> None:
    holdfast.save(tmp_path / "a", {"w": np.ones(2)})
    holdfast.save(tmp_path / "b", {"w": np.zeros(2)})
    sources = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(ValueError, match="leaf w"):
        holdfast.merge(sources, tmp_path / "c")
    assert not (tmp_path / "c").exists()
    holdfast.merge({"": sources[0], "x": sources[1]}, tmp_path / "c")
    tree = holdfast.load(tmp_path / "c")
    assert tree["w"].tolist() == [1, 1]
    assert tree["x"]["w"].tolist() == [0, 0]
    holdfast.merge(sources, tmp_path / "d", prefer="last")
    assert holdfast.load(tmp_path / "d")["w"].tolist() == [0, 0]


def test_progress_and_errors(tmp_path: Path) -> None:
    holdfast.save(tmp_path / "a", {"w": np.ones(2)})
    seen: list[tuple[str, int, int]] = []
    holdfast.stats(tmp_path / "a", progress=lambda *at: seen.append(at))
    assert seen[-1] == ("stats", 16, 16)
    with pytest.raises(holdfast.errors.NotFoundError):
        holdfast.diff(tmp_path / "a", tmp_path / "none")
    with pytest.raises(ValueError, match="tolerance"):
        holdfast.diff(tmp_path / "a", tmp_path / "a", atol=-1)
