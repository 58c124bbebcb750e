"""`holdfast.view`: what it refers to, what it copies, and what it refuses."""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import pytest

import holdfast

safetensors = pytest.importorskip("safetensors.numpy")


def _model(folder: pathlib.Path) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    model = {
        f"layers.{i}.w": rng.standard_normal((6, 4)).astype("f4")
        for i in range(3)
    }
    model["embed"] = rng.standard_normal((10, 4)).astype("f4")
    folder.mkdir()
    safetensors.save_file(model, folder / "model.safetensors")
    return model


def test_refers_to_everything(tmp_path: pathlib.Path) -> None:
    model = _model(tmp_path / "model")
    result = holdfast.view(tmp_path / "model", tmp_path / "view")
    assert result.leaf_count == result.referred_leaf_count == 4
    assert result.referred_bytes == sum(a.nbytes for a in model.values())
    assert result.source_file_count == 1
    assert result.copied == []
    got = holdfast.load(tmp_path / "view")
    assert got.keys() == model.keys()
    for name, array in model.items():
        assert np.array_equal(got[name], array)
    assert (tmp_path / "view" / "model.safetensors").is_symlink()


def test_recipe_forwards_and_back(tmp_path: pathlib.Path) -> None:
    model = _model(tmp_path / "model")
    recipe = tmp_path / "recipe.json"
    recipe.write_text(
        json.dumps(
            {
                "recipe": 1,
                "rules": [
                    {"from": "embed", "to": "params.embed"},
                    {
                        "from": "layers.{layer}.w",
                        "to": "params.kernel",
                        "axes": "(heads d) i -> i layer heads d",
                    },
                ],
            }
        )
    )
    with pytest.raises(ValueError, match="heads and d"):
        holdfast.view(tmp_path / "model", tmp_path / "view", recipe=recipe)
    assert not (tmp_path / "view").exists()
    result = holdfast.view(
        tmp_path / "model",
        tmp_path / "view",
        recipe=recipe,
        sizes={"heads": 2},
        copy=False,
    )
    assert result.referred_leaf_count == 2
    got = holdfast.load(tmp_path / "view")["params"]["kernel"]
    want = np.stack([model[f"layers.{i}.w"] for i in range(3)])
    want = want.reshape(3, 2, 3, 4).transpose(3, 0, 1, 2)
    assert np.array_equal(got, want)
    back = tmp_path / "back.safetensors"
    holdfast.convert(
        tmp_path / "view",
        back,
        format="safetensors",
        recipe=recipe,
        reverse=True,
    )
    for name, array in safetensors.load_file(back).items():
        assert np.array_equal(array, model[name])


def test_copies_and_refusals(tmp_path: pathlib.Path) -> None:
    _model(tmp_path / "model")
    result = holdfast.view(
        tmp_path / "model", tmp_path / "view", cast={"embed": "float16"}
    )
    (copied,) = result.copied
    assert (copied.leaf, copied.why) == ("embed", "cast to float16")
    with pytest.raises(ValueError, match="would have to be copied"):
        holdfast.view(
            tmp_path / "model",
            tmp_path / "other",
            cast={"embed": "float16"},
            copy=False,
        )
    with pytest.raises(holdfast.errors.AlreadyExistsError):
        holdfast.view(tmp_path / "model", tmp_path / "view")
    with pytest.raises(NotImplementedError, match="one is in a file system"):
        holdfast.view("s3://bucket/model", tmp_path / "other")
    with pytest.raises(holdfast.errors.NotFoundError, match="llama-to-flax"):
        holdfast.view(tmp_path / "model", tmp_path / "other", recipe="no-such")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(holdfast.errors.DataLossError, match="is gone"):
        holdfast.load(tmp_path / "view")


def test_recipes_are_shipped() -> None:
    assert "llama-to-flax" in holdfast.recipes()


def test_as_safetensors(tmp_path: pathlib.Path) -> None:
    tree = {"w": np.arange(40000, dtype="f4").reshape(200, 200), "name": "x"}
    holdfast.save(tmp_path / "both", tree, also="safetensors")
    result = holdfast.view(
        tmp_path / "both", tmp_path / "model", format="safetensors"
    )
    assert result.referred_bytes == 160_000
    assert [file.name for file in sorted((tmp_path / "model").iterdir())] == [
        "_HOLDFAST_DIGESTS",
        "model.safetensors",
    ]
    got = safetensors.load_file(tmp_path / "model" / "model.safetensors")
    assert np.array_equal(got["w"], tree["w"])
    loaded = holdfast.load(tmp_path / "model")
    assert loaded["name"] == "x"
    holdfast.save(tmp_path / "raw", tree, compression=None)
    with pytest.raises(ValueError, match="convert it to safetensors"):
        holdfast.view(tmp_path / "raw", tmp_path / "no", format="safetensors")
    assert not (tmp_path / "no").exists()


def test_as_safetensors_keeps_checksums(tmp_path: pathlib.Path) -> None:
    tree = {"w": np.arange(40000, dtype="f4").reshape(200, 200)}
    holdfast.save(tmp_path / "both", tree, also="safetensors")
    holdfast.view(tmp_path / "both", tmp_path / "model", format="safetensors")
    file = tmp_path / "both" / "model.safetensors"
    before = file.stat()
    data = bytearray(file.read_bytes())
    data[-99] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    for path in (tmp_path / "model", tmp_path / "model" / "model.safetensors"):
        with pytest.raises(holdfast.errors.DataLossError, match="differ"):
            holdfast.load(path)


def test_materialize(tmp_path: pathlib.Path) -> None:
    model = _model(tmp_path / "model")
    holdfast.view(tmp_path / "model", tmp_path / "view")
    with holdfast.open(tmp_path / "view") as view:
        assert view.sources == [str(tmp_path / "model" / "model.safetensors")]
    other = holdfast.materialize(
        tmp_path / "view", tmp_path / "own", compression=None
    )
    assert other.target == str(tmp_path / "own")
    phases = []
    same = holdfast.materialize(
        tmp_path / "view", progress=lambda phase, *_: phases.append(phase)
    )
    assert same.target == str(tmp_path / "view")
    assert same.checked_bytes == sum(a.nbytes for a in model.values())
    assert "check" in phases
    (tmp_path / "model" / "model.safetensors").unlink()
    for path in (tmp_path / "own", tmp_path / "view"):
        assert holdfast.verify(path).ok
        for name, array in holdfast.load(path).items():
            assert np.array_equal(array, model[name])
        with pytest.raises(ValueError, match="neither a view nor"):
            holdfast.materialize(path)
