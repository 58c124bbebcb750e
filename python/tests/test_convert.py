"""`holdfast.convert`: arguments and results. The engine has its own tests."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import holdfast


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "source"
    tree = {
        "params": {
            "w": np.arange(12, dtype=np.float32).reshape(3, 4),
            "b": np.ones(4, np.float32),
        },
        "step": 7,
        "names": ["a", "b"],
    }
    holdfast.save(path, tree, durable=False)
    return path


def test_there_and_back(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    there = tmp_path / "new.safetensors"
    done = holdfast.convert(source, there, format="safetensors", durable=False)
    assert done.format == "safetensors"
    assert done.leaf_count == 5
    assert done.decoded_bytes == done.checked_bytes == 64
    assert done.leaves == [] and done.notes == []
    assert not done.resumed and done.resume_text == ""
    assert holdfast.digest(there) == holdfast.digest(source)
    back = tmp_path / "back"
    assert holdfast.convert(there, back, format="orbax").format == "orbax"
    assert holdfast.digest(back) == holdfast.digest(source)
    assert holdfast.load(back)["names"] == ["a", "b"]


def test_rules(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "t"
    done = holdfast.convert(
        source,
        target,
        select="params",
        drop=["*.b", "nothing"],
        rename=[(r"params/(.*)", r"model/\1")],
        cast={"*": np.float64},
    )
    assert [(leaf.leaf, leaf.new_name, leaf.what) for leaf in done.leaves] == [
        ("names.0", None, "left out"),
        ("names.1", None, "left out"),
        ("params.b", None, "left out"),
        ("params.w", "model.w", "renamed; cast to float64"),
        ("step", None, "left out"),
    ]
    assert done.notes == ["drop nothing: matches no leaf"]
    loaded = holdfast.load(target)["model"]["w"]
    assert loaded.dtype == np.float64
    np.testing.assert_array_equal(loaded, np.arange(12.0).reshape(3, 4))
    literal = holdfast.convert(
        source, tmp_path / "u", rename={"params.w": "params.weight"}
    )
    assert [leaf.new_name for leaf in literal.leaves] == ["params.weight"]


def test_errors(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "t"
    with pytest.raises(ValueError, match="both be named x"):
        holdfast.convert(source, target, rename=[(r"params/.", "x")])
    with pytest.raises(ValueError, match="matches no leaf"):
        holdfast.convert(source, target, drop="lost", strict=True)
    with pytest.raises(ValueError, match="format: got 'tar'"):
        holdfast.convert(source, target, format="tar")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no dtype 'float3'"):
        holdfast.convert(source, target, cast={"*": "float3"})
    assert not target.exists()
    holdfast.convert(source, target)
    with pytest.raises(holdfast.errors.AlreadyExistsError):
        holdfast.convert(source, target)
    holdfast.convert(source, target, overwrite=True)


def test_progress(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    calls: list[tuple[str, int, int]] = []
    holdfast.convert(
        source,
        tmp_path / "t.safetensors",
        format="safetensors",
        progress=lambda *call: calls.append(call),
    )
    assert calls and all(done <= total for _, done, total in calls)
