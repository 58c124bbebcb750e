"""`also="safetensors"`: saves and conversions whose files are both formats."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import holdfast

safetensors = pytest.importorskip("safetensors")
safetensors_numpy = pytest.importorskip("safetensors.numpy")


def _tree() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "params": {
            f"w{i}": rng.standard_normal((30, 50)).astype("f4")
            for i in range(3)
        },
        "flags": np.array([True, False]),
        "step": 7,
        "name": "n",
    }


def _check(folder: pathlib.Path, tree: dict[str, Any]) -> None:
    got = holdfast.load(folder)
    assert got["step"] == 7
    assert got["name"] == "n"
    face: dict[str, np.ndarray] = {}
    for file in folder.glob("*.safetensors"):
        face |= safetensors_numpy.load_file(file)
    assert face["step"] == 7
    assert np.array_equal(face["flags"], tree["flags"])
    for name, array in tree["params"].items():
        assert np.array_equal(got["params"][name], array)
        assert np.array_equal(face[f"params.{name}"], array)


@pytest.mark.parametrize("background", [False, True])
def test_save(tmp_path: pathlib.Path, background: bool) -> None:
    tree = _tree()
    if background:
        holdfast.save(
            tmp_path / "both", tree, also="safetensors", background=True
        ).result()
    else:
        holdfast.save(tmp_path / "both", tree, also="safetensors")
    _check(tmp_path / "both", tree)
    with safetensors.safe_open(
        tmp_path / "both" / "model.safetensors", "np"
    ) as file:
        assert file.metadata()["format"] == "pt"
    # A load of only the safetensors file still gives the tree.
    alone = holdfast.load(tmp_path / "both" / "model.safetensors")
    assert alone["params"].keys() == tree["params"].keys()
    assert alone["step"] == 7


def test_shards_and_overwrite(tmp_path: pathlib.Path) -> None:
    tree = _tree()
    for most in (None, 7000):
        holdfast.save(
            tmp_path / "both",
            tree,
            also="safetensors",
            data_file_bytes=most,
            overwrite=True,
        )
        _check(tmp_path / "both", tree)
    names = {path.name for path in (tmp_path / "both").iterdir()}
    assert "model.safetensors.index.json" in names
    assert "model.safetensors" not in names


def test_convert(tmp_path: pathlib.Path) -> None:
    tree = _tree()
    holdfast.save(tmp_path / "planes", tree)
    holdfast.convert(tmp_path / "planes", tmp_path / "both", also="safetensors")
    _check(tmp_path / "both", tree)


def test_refusals(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="want 'safetensors' or None"):
        holdfast.save(tmp_path / "x", _tree(), also="npz")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="cannot be compressed"):
        holdfast.save(
            tmp_path / "x", _tree(), also="safetensors", compression="zstd"
        )
    holdfast.save(tmp_path / "planes", _tree())
    with pytest.raises(ValueError, match="only Orbax's formats"):
        holdfast.convert(
            tmp_path / "planes",
            tmp_path / "x",
            format="npz",
            also="safetensors",
        )
    assert not (tmp_path / "x").exists()
