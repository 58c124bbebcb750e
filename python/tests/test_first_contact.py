"""Other tools' checkpoints as users have them: T5X's, incomplete sets of files,
Git LFS pointers."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import errors

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def write_zarr(directory: Path, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Writes the array as T5X does; returns the spec that T5X stores."""
    directory.mkdir(parents=True)
    metadata = {
        "zarr_format": 2,
        "shape": list(array.shape),
        "chunks": list(array.shape),
        "dtype": array.dtype.str,
        "fill_value": None,
        "order": "C",
        "filters": None,
        "compressor": {"id": "gzip", "level": 1},
    }
    (directory / ".zarray").write_text(json.dumps(metadata))
    chunk = ".".join("0" * array.ndim)
    (directory / chunk).write_bytes(gzip.compress(array.tobytes()))
    return {
        "driver": "zarr",
        "dtype": str(array.dtype),
        "kvstore": {"driver": "file", "path": directory.name + "/"},
        "metadata": {
            "chunks": list(array.shape),
            "shape": list(array.shape),
            "compressor": {"id": "gzip", "level": 1},
        },
    }


def write_t5x(directory: Path) -> dict[str, Any]:
    """Writes a T5X checkpoint; returns its tree."""
    msgpack = pytest.importorskip("msgpack")
    kernel = np.arange(15, dtype=np.float32).reshape(5, 3)
    bias = np.arange(3, dtype=np.float32)
    old = write_zarr(directory / "state.v", bias + 1)
    del old["kvstore"]["path"], old["metadata"]
    old["path"] = "state.v"
    cast = write_zarr(directory / "state.m", bias + 2)
    tree = {
        "version": 3,
        "optimizer": {
            "target": {
                "kernel": write_zarr(directory / "target.kernel", kernel),
                "bias": write_zarr(directory / "target.bias", bias),
            },
            "state": {
                "step": 100,
                "v": old,
                "m": {"driver": "cast", "dtype": "bfloat16", "base": cast},
            },
        },
    }
    (directory / "checkpoint").write_bytes(msgpack.packb(tree))
    return {
        "version": 3,
        "optimizer": {
            "target": {"kernel": kernel, "bias": bias},
            "state": {"step": 100, "v": bias + 1, "m": bias + 2},
        },
    }


def test_the_arrays_of_t5x_are_arrays(tmp_path: Path) -> None:
    want = write_t5x(tmp_path / "checkpoint_100")
    got = holdfast.load(tmp_path / "checkpoint_100")
    np.testing.assert_equal(got, want)
    # The root of T5X checkpoints can be loaded, too.
    np.testing.assert_equal(holdfast.load(tmp_path), want)
    assert holdfast.verify(tmp_path / "checkpoint_100").ok
    target = tmp_path / "t5.safetensors"
    holdfast.convert(tmp_path / "checkpoint_100", target)
    np.testing.assert_array_equal(
        holdfast.load(target)["optimizer"]["target"]["kernel"],
        want["optimizer"]["target"]["kernel"],
    )


def test_what_t5x_says_of_an_array_has_to_be_there(tmp_path: Path) -> None:
    msgpack = pytest.importorskip("msgpack")
    source = tmp_path / "t5x"
    spec = write_zarr(source / "w", np.ones((2, 3), np.float32))
    for change, message in (
        ({"metadata": {"shape": [3, 2]}}, r"want \(3, 2\)|want \[3,2\]"),
        ({"kvstore": {"driver": "file", "path": "gone/"}}, "gone"),
        ({"kvstore": {"driver": "file", "path": "../w"}}, "cannot be in"),
        ({"kvstore": {"driver": "file", "path": "/"}}, "cannot be in"),
        ({"driver": "n5"}, 'driver "n5"'),
    ):
        tree = {"w": {**spec, **change}}
        (source / "checkpoint").write_bytes(msgpack.packb(tree))
        with pytest.raises((errors.HoldfastError, OSError, ValueError)) as e:
            holdfast.load(source)
        assert e.match(message)
        with pytest.raises((errors.HoldfastError, OSError, ValueError)):
            holdfast.convert(source, tmp_path / "out.safetensors")


def test_a_model_without_one_of_its_files(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    model = tmp_path / "model"
    model.mkdir()
    for number, name in ((1, "a"), (3, "c")):
        numpy.save_file(
            {name: np.full(2, number, np.float32)},
            model / f"model-{number:05}-of-00003.safetensors",
        )
    for call in (
        lambda: holdfast.load(model),
        lambda: holdfast.open(model),
        lambda: holdfast.convert(model, tmp_path / "out", format="orbax"),
    ):
        with pytest.raises(errors.DataLossError, match="00002-of-00003"):
            call()
    assert not holdfast.verify(model).ok
    # A rescue returns the leaves that exist.
    rescued = holdfast.rescue(model, tmp_path / "rescued")
    assert [lost.file for lost in rescued.lost] == [
        "model-00002-of-00003.safetensors"
    ]
    assert sorted(holdfast.load(tmp_path / "rescued")) == ["a", "c"]


def test_files_of_torch_without_one_of_them(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = tmp_path / "model"
    model.mkdir()
    for number in (1, 3):
        torch.save(
            {f"w{number}": torch.full((2,), float(number))},
            model / f"pytorch_model-{number:05}-of-00003.bin",
        )
    with pytest.raises(errors.DataLossError, match="00002-of-00003.bin"):
        holdfast.load(model)
    assert not holdfast.verify(model).ok
    rescued = holdfast.rescue(model, tmp_path / "rescued")
    assert [lost.file for lost in rescued.lost] == [
        "pytorch_model-00002-of-00003.bin"
    ]
    got = holdfast.load(tmp_path / "rescued")
    assert sorted(got) == ["w1", "w3"] and got["w3"][0] == 3


def test_safetensors_that_torch_wrote_in_shards(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    hf_storage = pytest.importorskip("torch.distributed.checkpoint.hf_storage")
    dcp = torch.distributed.checkpoint
    state = {"w": torch.arange(6.0).reshape(3, 2), "b": torch.ones(4)}
    dcp.save(
        state,
        storage_writer=hf_storage.HuggingFaceStorageWriter(
            str(tmp_path / "m"), save_distributed=True
        ),
    )
    assert os.listdir(tmp_path / "m") == [
        "shard-00001-model-00001-of-00001.safetensors"
    ]
    got = holdfast.load(tmp_path / "m")
    assert sorted(got) == ["b", "w"]
    np.testing.assert_array_equal(got["w"], state["w"].numpy())


def test_a_folder_of_hugging_face_with_one_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    torch.save({"lr": 1}, tmp_path / "training_args.bin")
    (tmp_path / "config.json").write_text("{}")
    assert list(holdfast.load(tmp_path)) == ["w"]


def test_the_error_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text(POINTER)
    (tmp_path / "run/global_step5").mkdir(parents=True)
    (tmp_path / "run/global_step5/mp_rank_00_model_states.pt").touch()
    os.symlink("gone", tmp_path / "latest")
    for name, message in (
        ("model.safetensors", "Git LFS pointer"),
        ("run/global_step5", "mp_rank_00_model_states.pt"),
        ("run", "global_step5"),
        ("latest", "a link to gone"),
    ):
        for call in (holdfast.load, holdfast.open, holdfast.verify):
            with pytest.raises(FileNotFoundError, match=message):
                call(tmp_path / name)
