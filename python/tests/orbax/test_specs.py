"""Specs: their JSON, errors, and what they open. tests/interop/run_specs.py
compares them with real Orbax's."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ocp
from holdfast.orbax.serialization import handles, ts_utils

FLOAT32 = np.dtype("float32")


def write_spec(root: Path, **options: Any) -> Any:
    values: dict[str, Any] = {
        "global_shape": (4, 6),
        "write_shape": (4, 6),
        "dtype": FLOAT32,
        "use_ocdbt": True,
    }
    return ts_utils.ArrayWriteSpec(str(root), "p.w", **(values | options))


def test_constants() -> None:
    assert ts_utils.PROCESS_SUBDIR_PREFIX == "ocdbt.process_"
    assert ts_utils.REPLICA_SUBDIR_SUFFIX == "replica_"
    assert (ts_utils.ZARR_VER2, ts_utils.ZARR_VER3) == ("zarr", "zarr3")
    assert ts_utils.DEFAULT_DRIVER == ts_utils.FILE_DRIVER == "file"
    assert ts_utils.STORE_ARRAY_DATA_EQUAL_TO_FILL_VALUE is True
    assert ocp.serialization.ts_utils is ts_utils
    assert ocp.serialization.get_ts_context is ts_utils.get_ts_context


def test_process_directories() -> None:
    spec = ts_utils.build_kvstore_tspec("/a", process_id=7)
    assert spec["base"]["path"] == "/a/ocdbt.process_7/"
    assert spec == ts_utils.build_kvstore_tspec_for_merge(
        "/a", "ocdbt.process_7"
    )
    assert str(ts_utils.OcdbtProcessSpec("x", True)) == (
        "ocdbt.process_replica_x"
    )
    with pytest.raises(
        ValueError,
        match=r"^process_id must conform to \[A-Za-z0-9\]\+ pattern, got a_b$",
    ):
        ts_utils.build_kvstore_tspec("/a", process_id="a_b")


def test_write_options_are_added_in_place() -> None:
    spec: dict[str, Any] = {"driver": "ocdbt", "base": "gs://bucket/a"}
    ts_utils.add_ocdbt_write_options(spec)
    assert spec["target_data_file_size"] == 400 << 20
    assert spec["config"]["manifest_kind"] == "single"
    assert spec["assume_config"] is True
    with pytest.raises(
        ValueError, match="must be >= 0, where 0 means no limit"
    ):
        ts_utils.add_ocdbt_write_options(spec, -1)


def test_older_builder() -> None:
    build = ts_utils._build_ts_zarr_shard_and_chunk_metadata
    metadata = build((8,), (4,), True, FLOAT32, (2,), (1,))
    assert metadata["chunk_grid"]["configuration"]["chunk_shape"] == (2,)
    codec = metadata["codecs"][0]["configuration"]
    assert codec["chunk_shape"] == (1,)
    for shapes, text in {
        ((3,), None): "write_chunk_shape=(3,) is not a divisor of"
        " shard_shape=(4,)",
        ((2,), (4,)): "read_chunk_shape=(4,) is not a divisor of"
        " write_chunk_shape=(2,)",
    }.items():
        with pytest.raises(ValueError) as caught:
            build((8,), (4,), True, FLOAT32, *shapes)
        assert str(caught.value) == text


@pytest.mark.parametrize("use_ocdbt", [True, False])
@pytest.mark.parametrize("use_zarr3", [True, False])
def test_arrays_by_spec(
    tmp_path: Path, use_ocdbt: bool, use_zarr3: bool
) -> None:
    spec = write_spec(
        tmp_path,
        use_ocdbt=use_ocdbt,
        use_zarr3=use_zarr3,
        target_dtype=np.dtype("int16"),
    ).json
    value = np.arange(24, dtype=np.float32).reshape(4, 6) + 0.75
    array = handles.open_spec(spec, create=True)
    assert isinstance(array, handles.ArrayHandle)
    array.write(value)
    array.commit()
    read = ts_utils.ArrayReadSpec(
        str(tmp_path), "p.w", use_zarr3, use_ocdbt=use_ocdbt
    ).json
    opened = handles.open_spec(read)
    assert isinstance(opened, handles.ArrayHandle)
    assert opened.dtype == np.dtype("int16")
    assert np.array_equal(opened.read(), value.astype(np.int16))
    assert np.array_equal(
        opened.read((1, 2), (2, 3)), value.astype(np.int16)[1:3, 2:5]
    )
    with pytest.raises(IndexError, match="is not within the array's shape"):
        opened.read((3, 0), (2, 6))
    with pytest.raises(FileExistsError):
        handles.open_spec(spec, create=True)


def test_key_value_store(tmp_path: Path) -> None:
    spec = ts_utils.build_kvstore_tspec(str(tmp_path / "db"))

    async def run() -> None:
        store = await ts_utils.open_kv_store(spec, ts_utils.get_ts_context())
        await store.write("b", b"2")
        await store.write(b"a", "1")
        await store.write("c", None)
        assert (await store.read("a")).value == b"1"
        await store.commit()
        store = await ts_utils.open_kv_store(spec, None)
        assert await store.list() == [b"a", b"b"]
        assert (await store.read("c")).state == "missing"

    asyncio.run(run())


def test_parameter_files(tmp_path: Path) -> None:
    check = ts_utils.assert_parameter_files_exist
    with pytest.raises(FileNotFoundError) as caught:
        asyncio.run(check(tmp_path / "w", None))
    assert str(caught.value) == (
        f"Individual parameter subdirectory not found at path: {tmp_path}/w."
    )
    with pytest.raises(FileNotFoundError, match=r"/\.zarray\. In many cases"):
        asyncio.run(check(tmp_path, None))
    (tmp_path / "x.json").write_text("{}")
    asyncio.run(check(tmp_path, "x.json", True))


def test_context_and_debug_data() -> None:
    context = ts_utils.get_ts_context(
        use_ocdbt=False, data_copy_concurrency_limit=2
    )
    assert context.spec.to_json() == {
        "file_io_concurrency": {"limit": 128},
        "data_copy_concurrency": {"limit": 2},
    }
    with pytest.raises(ValueError, match="but received: 0"):
        ts_utils.get_ts_context(file_io_concurrency_limit=0)
    info = ocp.type_handlers.ParamInfo(name="w", parent_dir=Path("/a"))
    data = json.loads(ts_utils.print_ts_debug_data("k", [info]))
    assert data[-2:] == [{"key": "k"}, {"infos": ["w"]}]
    assert data[0]["name"] == "/holdfast/io/bytes_read"


def test_stores_that_come_later_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TENSORSTORE_GCS_BACKEND", "gcs_grpc")
    with pytest.raises(
        NotImplementedError,
        match='KvStore driver "gcs_grpc" is not part of this release yet',
    ):
        handles.open_spec(
            ts_utils.ArrayReadSpec(
                "gs://bucket/a", "w", False, use_ocdbt=True
            ).json
        )
