"""v1's safetensors layout: handmade files, and comparisons with real Orbax."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.orbax import v1
from holdfast.orbax.v1 import training
from holdfast.orbax.v1.errors import InvalidLayoutError

ml_dtypes = pytest.importorskip("ml_dtypes")

NAMES = {
    "BOOL": np.bool_,
    "I8": np.int8,
    "U8": np.uint8,
    "I16": np.int16,
    "U16": np.uint16,
    "I32": np.int32,
    "U32": np.uint32,
    "I64": np.int64,
    "U64": np.uint64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "BF16": ml_dtypes.bfloat16,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
}


def file_of(tensors: dict[str, tuple[str, Any]], metadata: Any = None) -> bytes:
    """Returns the bytes of a safetensors file with tensors {name: (name of the
    dtype in the format, array)}."""
    header: dict[str, Any] = {}
    if metadata is not None:
        header["__metadata__"] = metadata
    data = b""
    for name, (dtype, array) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    return with_header(header, data)


def with_header(header: Any, data: bytes = bytes(64)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def context(layout: str = "safetensors") -> Any:
    return v1.Context(checkpoint_layout=layout)


WEIGHTS = {
    "b.c": ("I64", np.array(3)),
    "a": ("F32", np.arange(6, dtype=np.float32).reshape(2, 3)),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "m.safetensors").write_bytes(file_of(WEIGHTS, {"k": "v"}))
    return path


def test_dtypes(tmp_path: Path) -> None:
    random_bytes = np.random.default_rng(3).integers(0, 255, 240, np.uint8)
    tensors = {
        name.lower(): (
            name,
            np.ones((2, 3), np.bool_)
            if name == "BOOL"
            else random_bytes.view(dtype)[:6].reshape(2, 3),
        )
        for name, dtype in NAMES.items()
    }
    path = tmp_path / "all.safetensors"
    path.write_bytes(file_of(tensors))
    with context():
        got = v1.load(path)
        described = v1.metadata(path).metadata
    assert list(got) == list(tensors)
    for name, (kind, array) in tensors.items():
        assert got[name].dtype == np.dtype(NAMES[kind])
        assert got[name].tobytes() == array.tobytes()
        assert described[name].shape == (2, 3)
        assert np.dtype(described[name].dtype) == got[name].dtype
        got[name][...] = 0  # is writable


def test_files_and_directories(folder: Path) -> None:
    other = {"z": ("U8", np.zeros((0, 3), np.uint8))}
    (folder / "n.safetensors").write_bytes(file_of(other, {"k": "w"}))
    (folder / "m.safetensors.index.json").write_text("{}")
    with context():
        got = v1.load(folder)
        metadata = v1.metadata(folder)
        one = v1.load(folder / "m.safetensors", checkpointable_name="any")
    assert list(got) == ["b.c", "a", "z"] and list(one) == ["b.c", "a"]
    assert got["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert got["b.c"].shape == () and got["b.c"] == 3
    assert got["z"].shape == (0, 3)
    assert metadata.custom_metadata == {"k": "w"}
    newest = max(int(f.stat().st_mtime) for f in folder.glob("*.safetensors"))
    assert metadata.commit_timestamp_nsecs == newest
    assert metadata.init_timestamp_nsecs is None
    with context("auto"):
        assert list(v1.load(folder)) == ["b.c", "a", "z"]
        assert list(v1.load(folder / "n.safetensors")) == ["z"]


def test_load_async(folder: Path) -> None:
    with context():
        response = v1.load_async(folder)
        seen: list[Any] = []
        response.on_complete(seen.append)
        got = response.result(timeout=60)
        assert got["a"].shape == (2, 3) and seen == [got]
        with pytest.raises(InvalidLayoutError):
            v1.load_async(folder / "no")
    for layout in ("orbax", "auto"):
        with context(layout), pytest.raises(NotImplementedError) as info:
            v1.load_async(folder)
        assert str(info.value) == (
            "Asynchronous loading only supported for SAFETENSORS checkpoint "
            f"layout, not CheckpointLayout.{layout.upper()}."
        )


def test_what_is_not_supported(folder: Path) -> None:
    tree = {"a": np.ones(2)}
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: v1.save(folder / "x", tree), "Saving to Safetensors format"),
        (
            lambda: v1.save_checkpointables(folder / "x", {"a": tree}),
            "Saving to Safetensors format is not supported yet.",
        ),
        (
            lambda: v1.save_async(folder / "x", tree).result(),
            "Saving to Safetensors format is not supported yet.",
        ),
        (
            lambda: v1.load_checkpointables(folder),
            "SafetensorsLayout does not support `.load_checkpointables`. Use "
            "`.load` instead.",
        ),
        (
            lambda: v1.checkpointables_metadata(folder),
            "SafetensorsLayout does not support `.checkpointables_metadata`. "
            "Use `.metadata` instead.",
        ),
    ]
    with context():
        for call, text in calls:
            with pytest.raises(NotImplementedError) as info:
                call()
            assert text in str(info.value)
        with pytest.raises(ValueError, match="already exists"):
            v1.save(folder, tree)
    assert [each.name for each in folder.iterdir()] == ["m.safetensors"]


def test_the_steps_of_a_run_are_orbax_whatever_the_layout(
    tmp_path: Path,
) -> None:
    with context(), training.Checkpointer(tmp_path / "run") as run:
        run.save(1, {"a": np.ones(2)})
    assert v1.load(tmp_path / "run" / "1")["a"].tolist() == [1, 1]


def test_paths_that_are_none(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "x.txt").write_text("text")
    for name, reason in {
        "no": "Path {} is neither a file nor a directory or does not exist.",
        "empty": "Directory {} does not contain any '.safetensors' files.",
        "x.txt": "Failed to interpret path {} as a SafeTensors checkpoint. A "
        "SafeTensors checkpoint must be a file with the '.safetensors' suffix.",
    }.items():
        path = folder / name
        for call in (v1.load, v1.metadata):
            with context(), pytest.raises(InvalidLayoutError) as info:
                call(path)
            assert str(info.value).startswith(
                f"Could not recognize the checkpoint at {path} as a valid "
                "Safetensors checkpoint."
            )
            assert str(info.value.__cause__) == reason.format(path)
        with context("auto"), pytest.raises(InvalidLayoutError) as info:
            v1.load(path)
        assert str(info.value) == (
            f"Could not auto-detect checkpoint layout at {path}. Tried "
            "layouts: ['orbax', 'safetensors']."
        )


# Files that stock Orbax refuses, with its messages; {} is the file's path.
REFUSED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "Could not read header size from {}."),
    "short": (b"\1\0\0", "Could not read header content from {}."),
    "cut header": (
        with_header({"a": entry("U8", [1], 0, 1)})[:20],
        "Could not read header content from {}.",
    ),
    "no JSON": (
        with_header(b"{no"),
        "Expecting property name enclosed in double quotes: line 1 column 2 "
        "(char 1)",
    ),
    "dtype": (
        with_header({"a": entry("F99", [1], 0, 4)}),
        "Unsupported dtype in SafeTensors header: 'F99'",
    ),
    "no dtype": (
        with_header({"a": {"shape": [1], "data_offsets": [0, 4]}}),
        "Unsupported dtype in SafeTensors header: 'dtype'",
    ),
    "dtype of others": (
        with_header({"a": entry("F8_E8M0", [1], 0, 1)}),
        "Unsupported dtype in SafeTensors header: 'F8_E8M0'",
    ),
    "cut": (
        file_of(WEIGHTS)[:-3],
        "SafeTensors file {} is truncated: its header declares tensor data "
        f"through byte {len(file_of(WEIGHTS))}, but the file is only "
        f"{len(file_of(WEIGHTS)) - 3} bytes.",
    ),
}
# Wrong files that stock Orbax accepts, or fails on by accident.
LIES: dict[str, Any] = {
    "list": [1],
    "number": {"a": 1},
    "size": {"a": entry("F32", [3], 0, 4)},
    "backwards": {"a": entry("F32", [1], 8, 4)},
    "negative": {"a": entry("F32", [1], -4, 0)},
    "negative shape": {"a": entry("F32", [-1], 0, 4)},
    "no offsets": {"a": {"dtype": "F32", "shape": [1]}},
    "no shape": {"a": {"dtype": "F32", "data_offsets": [0, 4]}},
    "overlap": {
        "a": entry("F32", [1], 0, 4),
        "b": entry("F32", [1], 0, 4),
    },
    "huge": {"a": entry("F32", [1 << 62, 1 << 62], 0, 4)},
}


@pytest.mark.parametrize("kind", REFUSED)
def test_damage_that_orbax_refuses(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c.safetensors"
    content, text = REFUSED[kind]
    path.write_bytes(content)
    for call in (v1.load, v1.metadata):
        with context(), pytest.raises(ValueError) as info:
            call(path)
        assert str(info.value) == text.format(path)


@pytest.mark.parametrize("kind", LIES)
def test_damage_that_orbax_reads_past(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c.safetensors"
    path.write_bytes(with_header(LIES[kind]))
    with context(), pytest.raises(ValueError, match="c.safetensors"):
        v1.load(path)


def test_names_of_several_files(folder: Path) -> None:
    twice = {"a": ("U8", np.zeros(1, np.uint8))}
    (folder / "n.safetensors").write_bytes(file_of(twice))
    for call in (v1.load, v1.metadata):
        with context(), pytest.raises(ValueError) as info:
            call(folder)
        assert str(info.value) == "Duplicate tensor a found in multiple files."


def test_options(
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast._log._said", set())
    made = context()
    made.safetensors.read_chunk_bytes = 0
    with made, pytest.raises(ValueError) as info:
        v1.load(folder)
    assert str(info.value) == "read_chunk_bytes must be positive, got 0."
    made = context()
    made.memory.read_concurrent_bytes = 1
    made.safetensors.max_over_read_ratio = 2.0
    caplog.clear()
    with made:
        for _ in range(2):
            assert v1.load(folder)["a"].sum() == 15
    assert caplog.messages == [
        "The option SafetensorsOptions.max_over_read_ratio has no effect: only"
        " the needed bytes are read."
    ]


def test_abstract_trees(folder: Path) -> None:
    jax = pytest.importorskip("jax")
    struct = jax.ShapeDtypeStruct
    with context():
        got = v1.load(folder, {"a": struct((2, 3), np.float32)})
        assert list(got) == ["a"] and isinstance(got["a"], jax.Array)
        assert got["a"].sharding.is_fully_replicated
        assert len(got["a"].sharding.device_set) == len(jax.devices())
        cast = v1.load(folder, {"a": struct((2, 3), np.int8)})["a"]
        assert cast.dtype == np.int8 and cast.tolist() == [[0, 1, 2], [3, 4, 5]]
        everything = v1.load(folder, v1.metadata(folder))
        assert sorted(everything) == ["a", "b.c"]
        assert v1.load(folder, {}) == {}
        for abstract, kind, text in (
            (
                {"a": struct((3, 2), np.float32)},
                ValueError,
                "Shape mismatch: abstract state has (3, 2), the checkpoint has "
                "(2, 3).",
            ),
            (
                {"zz": struct((3, 2), np.float32)},
                KeyError,
                "\"Tensor 'zz' not found in Safetensors checkpoint.\"",
            ),
            (
                {"b": {"c": struct((), np.int64)}},
                ValueError,
                "The PyTree is not a flat dictionary.",
            ),
            (
                [struct((), np.int64)],
                ValueError,
                "The PyTree is not a flat dictionary.",
            ),
            (
                {"a": None},
                ValueError,
                "The PyTree is not a flat dictionary.",
            ),
        ):
            with pytest.raises(kind) as info:
                v1.load(folder, abstract)
            assert str(info.value) == text
        with pytest.raises(TypeError, match="Unsupported abstract leaf type"):
            v1.load(folder, {"a": object()})


def shardings() -> list[Any]:
    import jax

    devices = np.array(jax.devices())
    line = jax.sharding.Mesh(devices, ("x",))
    square = jax.sharding.Mesh(devices.reshape(2, -1), ("x", "y"))
    spec = jax.sharding.PartitionSpec
    named = jax.sharding.NamedSharding
    return [
        None,
        named(line, spec()),
        named(line, spec("x")),
        named(square, spec("y", "x")),
        named(square, spec(None, "y")),
        named(square, spec(("x", "y"))),
        jax.sharding.SingleDeviceSharding(devices[1]),
    ]


def test_random_files_as_orbax_reads_them(tmp_path: Path) -> None:
    """Loads complete and sharded arrays: they are the same, on the same
    devices, as with Orbax."""
    jax = pytest.importorskip("jax")
    ocp = pytest.importorskip("orbax.checkpoint.experimental.v1")
    chosen = random.Random(8)
    kinds = [kind for kind in NAMES if kind not in ("F64", "I64", "U64")]
    with_orbax = ocp.Context(checkpoint_layout="safetensors")
    for round_ in range(6):
        folder = tmp_path / str(round_)
        folder.mkdir()
        abstract = {}
        for part in range(chosen.randint(1, 3)):
            tensors = {}
            for i in range(chosen.randint(0, 5)):
                kind = chosen.choice(kinds)
                shape = tuple(
                    chosen.choice([8, 16]) for _ in range(chosen.randint(0, 3))
                )
                values = np.random.default_rng(i).integers(0, 2, shape)
                name = f"{part}.{i}"
                tensors[name] = (kind, np.asarray(values).astype(NAMES[kind]))
                sharding = chosen.choice(
                    [
                        each
                        for each in shardings()
                        if each is None
                        or len(getattr(each, "spec", ())) <= len(shape)
                    ]
                )
                abstract[name] = jax.ShapeDtypeStruct(
                    shape,
                    chosen.choice([NAMES[kind], np.float32, np.int32]),
                    sharding=sharding,
                )
            (folder / f"{part}.safetensors").write_bytes(
                file_of(tensors, chosen.choice([None, {"part": str(part)}]))
            )
        for wanted in (None, abstract):
            with with_orbax:
                theirs = ocp.load(folder, wanted)
            with context():
                ours = v1.load(folder, wanted)
            assert list(ours) == list(theirs)
            for name, array in theirs.items():
                assert type(ours[name]) is type(array)
                assert ours[name].dtype == array.dtype
                np.testing.assert_array_equal(
                    np.asarray(ours[name]), np.asarray(array)
                )
                if wanted is not None:
                    assert ours[name].sharding.is_equivalent_to(
                        array.sharding, array.ndim
                    )
        with with_orbax:
            described = ocp.metadata(folder)
        with context():
            mine = v1.metadata(folder)
        assert mine.metadata == described.metadata
        assert mine.custom_metadata == described.custom_metadata
        assert mine.commit_timestamp_nsecs == described.commit_timestamp_nsecs


def test_a_set_that_lacks_a_file(tmp_path: Path) -> None:
    for number, name in ((1, "a"), (3, "c")):
        path = tmp_path / f"model-{number:05}-of-00003.safetensors"
        path.write_bytes(file_of({name: ("I64", np.arange(number))}))
    with context():
        for call in (v1.load, v1.metadata):
            with pytest.raises(ValueError, match="00002-of-00003"):
                call(tmp_path)
    middle = tmp_path / "model-00002-of-00003.safetensors"
    middle.write_bytes(file_of({"b": ("I64", np.arange(2))}))
    with context():
        assert sorted(v1.load(tmp_path)) == ["a", "b", "c"]


def test_parts_of_tensors_are_put_together(tmp_path: Path) -> None:
    whole = np.arange(12).reshape(6, 2)
    for number, rows in ((1, slice(0, 4)), (2, slice(4, 6))):
        offsets = json.dumps({"w": {"saved_offsets": [rows.start, 0]}})
        path = tmp_path / f"shard-{number:05}-model-00001-of-00001.safetensors"
        path.write_bytes(
            file_of({"w": ("I64", whole[rows])}, {"DCP_SHARDING_INFO": offsets})
        )
    with context():
        np.testing.assert_array_equal(v1.load(tmp_path)["w"], whole)


def test_a_pointer_in_place_of_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\nsize 9\n")
    for place in (path, tmp_path):
        with context(), pytest.raises(ValueError, match="Git LFS"):
            v1.load(place)
