"""The files of a save, compared with the files that Orbax itself writes.

tests/interop/run_python_interop.py does this for random trees, with jax arrays.
"""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshes import sharding

import holdfast.orbax as hfo

jax = pytest.importorskip("jax")
ocp = pytest.importorskip("orbax.checkpoint")
ts = pytest.importorskip("tensorstore")

Pair = collections.namedtuple("Pair", "mu nu")

# Files that Orbax does not write, and files whose content is not fixed.
_OWN_FILES = {"_HOLDFAST_DIGESTS"}
_TIMED_FILES = {"_CHECKPOINT_METADATA", "commit_success.txt"}


def put(array: Any, shape: tuple[int, ...], *spec: Any) -> Any:
    return jax.device_put(array, sharding(shape, *spec))


def plain_tree() -> Any:
    return {
        "b": np.arange(12, dtype=np.int32).reshape(3, 4),
        "a": {"z": {}, "y": [1, 2.5, True, None], "t": (np.ones(3), ())},
        "pair": Pair(np.zeros(2, np.uint8), None),
        "ints": {5: np.float32(1.5), 12: np.int16(-1)},
        "nothing": None,
    }


def relative_files(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file()
    }


def is_database_file(name: str) -> bool:
    return "ocdbt" in name or name.startswith("d/")


def database(root: Path) -> dict[str, bytes]:
    spec = {"driver": "ocdbt", "base": f"file://{root}/"}
    store = ts.KvStore.open(spec).result()
    return {
        key.decode(): store.read(key).result().value
        for key in store.list().result()
    }


def decoded(root: Path, name: str, is_zarr3: bool) -> Any:
    spec = {
        "driver": "zarr3" if is_zarr3 else "zarr",
        "kvstore": {"driver": "ocdbt", "base": f"file://{root}/", "path": name},
    }
    return ts.open(spec).result().read().result()


def compare_files(ours: Path, theirs: Path) -> None:
    assert relative_files(ours) - _OWN_FILES == relative_files(theirs)
    for name in relative_files(theirs):
        if name not in _TIMED_FILES:
            want = (theirs / name).read_bytes()
            assert (ours / name).read_bytes() == want, name
    compare_checkpoint_metadata(ours, theirs)


def compare_checkpoint_metadata(ours: Path, theirs: Path) -> None:
    got, want = (
        json.loads((root / "_CHECKPOINT_METADATA").read_text())
        for root in (ours, theirs)
    )
    assert list(got) == list(want)
    for name in want:
        if not name.endswith("timestamp_nsecs"):
            assert got[name] == want[name], name


def compare_databases(ours: Path, theirs: Path, is_zarr3: bool) -> None:
    got_names = {n for n in relative_files(ours) if not is_database_file(n)}
    want_names = {n for n in relative_files(theirs) if not is_database_file(n)}
    assert got_names - _OWN_FILES == want_names
    for name in want_names - _TIMED_FILES:
        want = (theirs / name).read_bytes()
        assert (ours / name).read_bytes() == want, name
    compare_checkpoint_metadata(ours, theirs)
    got, wanted = database(ours), database(theirs)
    assert got.keys() == wanted.keys()
    metadata_key = "zarr.json" if is_zarr3 else ".zarray"
    for key, value in wanted.items():
        if key.endswith(metadata_key):
            assert got[key] == value, key
            name = key[: -len(metadata_key)]
            np.testing.assert_array_equal(
                decoded(ours, name, is_zarr3), decoded(theirs, name, is_zarr3)
            )


@pytest.mark.parametrize("use_zarr3", [False, True])
def test_database_as_orbax(tmp_path: Path, use_zarr3: bool) -> None:
    item = plain_tree()
    for package, name in ((hfo, "ours"), (ocp, "theirs")):
        package.PyTreeCheckpointer(use_zarr3=use_zarr3).save(
            tmp_path / name, item, custom_metadata={"k": [1, "ü"]}
        )
    compare_databases(tmp_path / "ours", tmp_path / "theirs", use_zarr3)


def test_uncompressed_files_as_orbax(tmp_path: Path) -> None:
    item = plain_tree()
    for package, name in ((hfo, "ours"), (ocp, "theirs")):
        package.PyTreeCheckpointer(use_ocdbt=False, use_compression=False).save(
            tmp_path / name, item
        )
    compare_files(tmp_path / "ours", tmp_path / "theirs")


def test_save_args_as_orbax(tmp_path: Path) -> None:
    item = {
        "chunked": np.arange(64 * 64, dtype=np.float32).reshape(64, 64),
        "rows": np.arange(64 * 64, dtype=np.float32).reshape(64, 64),
        "cast": np.linspace(-3, 3, 10),
        "sharded": put(np.arange(48.0).reshape(8, 6), (4, 2), "x", "y"),
        "scalar": 7,
        "as_is": np.ones(3),
    }

    def save_args(package: Any) -> Any:
        return {
            "chunked": package.SaveArgs(chunk_byte_size=2048),
            "rows": package.SaveArgs(chunk_byte_size=4096, shard_axes=(0,)),
            "cast": package.SaveArgs(dtype=np.dtype("float16")),
            "sharded": package.SaveArgs(
                dtype=np.dtype("float64"), chunk_byte_size=16
            ),
            "scalar": package.SaveArgs(dtype=np.dtype("float32")),
            "as_is": None,
        }

    for package, name in ((hfo, "ours"), (ocp, "theirs")):
        package.PyTreeCheckpointer(use_ocdbt=False, use_compression=False).save(
            tmp_path / name,
            args=package.args.PyTreeSave(
                item, save_args(package), custom_metadata={"about": "it"}
            ),
        )
    compare_files(tmp_path / "ours", tmp_path / "theirs")


def test_standard_save_as_orbax(tmp_path: Path) -> None:
    item = plain_tree() | {"np_bool": np.bool_(True), "f16": np.float16(2)}
    for package, name in ((hfo, "ours"), (ocp, "theirs")):
        with package.StandardCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / name, item, custom_metadata={"u": 1})
    compare_databases(tmp_path / "ours", tmp_path / "theirs", False)


def test_a_cast_to_float64_is_not_forgotten(tmp_path: Path) -> None:
    # numpy says that float64 equals None.
    args = {"a": hfo.SaveArgs(dtype=np.dtype("float64"))}
    hfo.PyTreeCheckpointer().save(
        tmp_path / "c", {"a": np.ones(2, np.float32)}, save_args=args
    )
    restored = ocp.PyTreeCheckpointer().restore(tmp_path / "c")
    assert restored["a"].dtype == np.float64


@pytest.mark.parametrize("text", ["NaN", "-Infinity"])
def test_custom_metadata_that_json_lacks(tmp_path: Path, text: str) -> None:
    metadata = {"loss": float(text), "name": "ü"}
    for package, folder in ((hfo, "ours"), (ocp, "theirs")):
        package.PyTreeCheckpointer().save(
            tmp_path / folder,
            args=package.args.PyTreeSave(
                {"a": np.ones(2)}, custom_metadata=metadata
            ),
            custom_metadata=metadata,
        )
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    item = (ours / "_METADATA").read_bytes()
    assert item == (theirs / "_METADATA").read_bytes()
    for path in (ours, theirs):
        found = hfo.PyTreeCheckpointer().metadata(path)
        assert str(found.custom_metadata) == str(metadata)
        assert str(found.item_metadata.custom_metadata) == str(metadata)
        assert hfo.PyTreeCheckpointer().restore(path)["a"].tolist() == [1, 1]
