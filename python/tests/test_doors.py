"""holdfast.fsspec and holdfast.zarr, which show checkpoints as files and as a
zarr group."""

import os
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


def _names(names: list[str]) -> set[str]:
    return {part for name in names for part in name.split("/")}


def test_names_of_leaves_stay_inside(tmp_path: pathlib.Path) -> None:
    from holdfast.zarr import CheckpointStore

    tree = {
        "../../evil": np.arange(3.0),
        "/abs": np.ones(2),
        "x//y": np.ones(1),
    }
    holdfast.save(tmp_path / "odd", tree)
    files = fsspec.filesystem("holdfast", checkpoint=str(tmp_path / "odd"))
    found = files.find("as/zarr")
    assert "as/zarr/.._/.._/evil/0" in found
    assert not _names(found) & {"", ".", ".."}
    group = zarr.open_group(CheckpointStore(str(tmp_path / "odd")), mode="r")
    np.testing.assert_array_equal(
        group[".._/.._/evil"][...], tree["../../evil"]
    )
    with pytest.raises(ValueError, match="no member can have this name"):
        files.cat_file("as/npz/arrays.npz")


def test_a_replaced_checkpoint_is_an_error(tmp_path: pathlib.Path) -> None:
    from holdfast.zarr import CheckpointStore

    path = tmp_path / "a"
    url = f"holdfast://{path}/as/npz/arrays.npz"
    files = fsspec.filesystem("holdfast", skip_instance_cache=True)
    holdfast.save(path, {"w": np.zeros(100)})
    open_before = files.open(url, block_size=16)
    store = CheckpointStore(str(path))
    zarr.open_array(store, path="w", mode="r")[...]
    zeros = files.cat_file(url)
    open_before.read(8)
    holdfast.save(path, {"w": np.ones(100)}, overwrite=True)
    with pytest.raises(holdfast.errors.DataLossError, match="replaced"):
        files.cat_file(url)
    with pytest.raises(holdfast.errors.DataLossError, match="replaced"):
        files.info(url)
    with pytest.raises(holdfast.errors.DataLossError, match="replaced"):
        zarr.open_array(store, path="w", mode="r")[...]
    files.invalidate_cache()
    ones = files.cat_file(url)
    assert len(ones) == len(zeros)
    assert ones != zeros
    # A file that was opened before does not read from its replacement.
    with pytest.raises(holdfast.errors.DataLossError, match="replaced"):
        open_before.read()


def test_an_open_file_stays_with_its_step(tmp_path: pathlib.Path) -> None:
    files = fsspec.filesystem("holdfast", skip_instance_cache=True)
    url = f"holdfast://{tmp_path}/as/npz/arrays.npz"
    holdfast.save(tmp_path / "1", {"w": np.zeros(100)})
    whole = files.cat_file(url)
    with files.open(url, block_size=16) as file:
        begin = file.read(30)
        holdfast.save(tmp_path / "2", {"w": np.ones(100)})
        files.invalidate_cache()
        assert files.cat_file(url) != whole
        assert begin + file.read() == whole


def test_stored_files_are_checked(checkpoint: str) -> None:
    files = fsspec.filesystem("holdfast", skip_instance_cache=True)
    data = next(pathlib.Path(checkpoint, "ocdbt.process_0", "d").iterdir())
    name = f"holdfast://{checkpoint}/files/ocdbt.process_0/d/{data.name}"
    good = data.read_bytes()
    assert files.cat_file(name) == good
    before = data.stat()
    bad = bytearray(good)
    bad[len(bad) // 3] ^= 1
    data.write_bytes(bad)
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(holdfast.errors.DataLossError, match="differ"):
        files.cat_file(name)
    # Links to directories are not followed.
    os.symlink(checkpoint, pathlib.Path(checkpoint, "notes"))
    files.invalidate_cache()
    assert "notes" not in _names(
        files.ls(f"holdfast://{checkpoint}/files", detail=False)
    )
