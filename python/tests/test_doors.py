"""holdfast.fsspec and holdfast.zarr: checkpoints as files and as a group."""

import pathlib
import pickle

import numpy as np
import pytest

import holdfast

fsspec = pytest.importorskip("fsspec")
zarr = pytest.importorskip("zarr")

TREE = {
    "w": np.arange(60, dtype=np.float32).reshape(12, 5),
    "n": {"b": np.arange(7, dtype=np.int16), "s": 3, "text": "words"},
}


@pytest.fixture
def checkpoint(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "7"
    holdfast.save(path, TREE, chunk_bytes=64)
    return str(path)


def test_fsspec_reads_an_archive(checkpoint: str) -> None:
    url = f"holdfast://{checkpoint}/as/npz/arrays.npz"
    with fsspec.open(url, "rb") as file:
        archive = np.load(file)
        np.testing.assert_array_equal(archive["w"], TREE["w"])
        np.testing.assert_array_equal(archive["n.b"], TREE["n"]["b"])


def test_fsspec_lists_and_finds(checkpoint: str) -> None:
    files = fsspec.filesystem("holdfast", checkpoint=checkpoint)
    assert sorted(files.ls("as", detail=False)) == [
        "as/npz",
        "as/safetensors",
        "as/zarr",
    ]
    assert "as/zarr/w/0.0" in files.find("as/zarr")
    assert files.info("as/zarr/w/.zarray")["type"] == "file"
    model = files.cat_file("as/safetensors/model.safetensors")
    assert (
        files.cat_file("as/safetensors/model.safetensors", 3, 11) == model[3:11]
    )
    assert files.cat_file("as/safetensors/model.safetensors", -5) == model[-5:]
    stored = pathlib.Path(checkpoint, "_METADATA").read_bytes()
    assert files.cat_file("files/_METADATA") == stored
    with pytest.raises(FileNotFoundError):
        files.info("as/zarr/none")
    with pytest.raises(FileNotFoundError):
        files.cat_file("files/../7/_METADATA")
    with pytest.raises(NotImplementedError):
        files.open("files/_METADATA", "wb")


def test_zarr_opens_a_group(checkpoint: str) -> None:
    from holdfast.zarr import CheckpointStore

    store = CheckpointStore(checkpoint)
    group = zarr.open_group(store, mode="r")
    assert sorted(name for name, _ in group.arrays()) == ["n.b", "n.s", "w"]
    np.testing.assert_array_equal(group["w"][3:9, ::2], TREE["w"][3:9, ::2])
    assert group["n.s"][()] == 3
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    with pytest.raises(ValueError):
        zarr.open_group(store, mode="w")


def test_xarray_and_dask_read_it(checkpoint: str) -> None:
    xarray = pytest.importorskip("xarray")
    dask_array = pytest.importorskip("dask.array")
    from holdfast.zarr import CheckpointStore

    dataset = xarray.open_zarr(CheckpointStore(checkpoint), consolidated=True)
    np.testing.assert_array_equal(dataset["w"].to_numpy(), TREE["w"])
    lazy = dask_array.from_zarr(
        zarr.open_array(CheckpointStore(checkpoint), path="w", mode="r")
    )
    assert float(lazy.sum().compute()) == float(TREE["w"].sum())


def test_damage_is_an_error_of_the_read(tmp_path: pathlib.Path) -> None:
    from holdfast.zarr import CheckpointStore

    path = tmp_path / "raw"
    holdfast.save(path, TREE, ocdbt=False, compression=None)
    store = CheckpointStore(str(path))
    chunk = path / "w" / "0.0"
    data = bytearray(chunk.read_bytes())
    data[5] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(holdfast.errors.DataLossError):
        zarr.open_array(store, path="w", mode="r")[...]
