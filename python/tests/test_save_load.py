"""Round trips of the plain API: every kind of Python and numpy leaf and
container, and every option of `save`."""

from __future__ import annotations

import collections
import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import holdfast
from holdfast import errors

FLOATS = ["float16", "float32", "float64"]
INTS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
ML_DTYPES = [
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "int4",
    "int2",
    "float4_e2m1fn",
]


def assert_same(got: Any, want: Any) -> None:
    """Checks that types and values are equal at all levels."""
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert list(got) == sorted(want)
        for key in want:
            assert_same(got[key], want[key])
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)
    elif isinstance(want, np.ndarray):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert got.tobytes() == np.ascontiguousarray(want).tobytes()
    else:
        assert got == want or (got != got and want != want)


def round_trip(path: Path, tree: Any, **options: Any) -> Any:
    holdfast.save(path, tree, **options)
    return holdfast.load(path)


@pytest.mark.parametrize("dtype", ["bool", *INTS, *FLOATS])
def test_numpy_dtypes(ckpt: Path, dtype: str) -> None:
    rng = np.random.default_rng(1)
    array = rng.integers(0, 2 if dtype == "bool" else 100, (5, 7))
    tree = {"a": array.astype(dtype)}
    assert_same(round_trip(ckpt, tree), tree)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_dtypes(ckpt: Path, dtype: str) -> None:
    tree = {"a": (np.arange(6) * (1 - 2j)).astype(dtype).reshape(2, 3)}
    assert_same(round_trip(ckpt, tree), tree)


@pytest.mark.parametrize("dtype", ML_DTYPES)
def test_ml_dtypes(ckpt: Path, dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([0, 1, 1, 0, 1, 0]).astype(getattr(ml_dtypes, dtype))
    tree = {"a": values.reshape(2, 3)}
    assert_same(round_trip(ckpt, tree), tree)


def test_python_and_numpy_scalars_strings_and_empties(ckpt: Path) -> None:
    tree = {
        "bool": True,
        "int": -(2**63),
        "large": 2**64 - 1,
        "float": float("nan"),
        "text": "Grüße\x00 \U0001f600",
        "none": None,
        "empty": [{}, [], (), ""],
        "f4": np.float32(1.5),
        "i2": np.int16(-3),
        "c8": np.complex64(1 + 2j),
    }
    got = round_trip(ckpt, tree)
    # numpy numbers are restored as Python numbers, as in Orbax.
    want = {**tree, "f4": 1.5, "i2": -3, "c8": 1 + 2j}
    assert_same(got, dict(sorted(want.items())))


def test_what_orbax_has_no_scalar_for_becomes_a_0d_array(ckpt: Path) -> None:
    tree = {"b": np.bool_(True), "c": 1 - 2j, "z": np.array(7, "int32")}
    got = round_trip(ckpt, tree)
    assert_same(
        got,
        {
            "b": np.array(True),
            "c": np.array(1 - 2j),
            "z": np.array(7, "int32"),
        },
    )
    assert holdfast.load(ckpt, {"b": np.bool_(0), "c": 0j, "z": 0}) == {
        "b": np.True_,
        "c": 1 - 2j,
        "z": 7,
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a.T,
        np.asfortranarray,
        lambda a: a[::-1, ::-2],
        lambda a: a[:, 1:4],
        lambda a: np.broadcast_to(a[0], (6, 8)),
        lambda a: np.lib.stride_tricks.sliding_window_view(a[0], 3),
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: a[2],
        lambda a: a[1, 2],
    ],
)
@pytest.mark.parametrize("background", [False, True])
def test_any_layout_of_memory(ckpt: Path, make: Any, background: bool) -> None:
    base = np.arange(48, dtype=np.int32).reshape(6, 8)
    array = np.asarray(make(base))
    before = array.copy()
    array.flags.writeable = False
    done = holdfast.save(ckpt, {"a": array}, background=background)
    base[...] = -1 if background else base
    if isinstance(done, holdfast.Future):
        done.result()
    got = holdfast.load(ckpt)["a"]
    assert got.dtype == before.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, before)


class Point(NamedTuple):
    z: Any
    a: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    z: Any
    a: Any = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "derived", True)


class Attributes(dict):  # type: ignore[type-arg]
    """A user's subclass of dict."""


def containers() -> dict[str, Any]:
    ones = np.ones(2, np.float32)
    return {
        "named": Point(ones * 1, {"x": 2}),
        "dataclass": Frozen(ones * 2),
        "ordered": collections.OrderedDict(z=5, a=ones * 6),
        "default": collections.defaultdict(list, {"k": [ones * 7]}),
        "own": Attributes(b=8, a=9),
        "tuple": (10, (11, ones * 12)),
    }


def test_containers_are_stored_as_dicts_and_lists(ckpt: Path) -> None:
    ones = np.ones(2, np.float32)
    got = round_trip(ckpt, containers())
    assert set(got) == set(containers())
    assert got["named"]["a"] == {"x": 2}
    np.testing.assert_array_equal(got["dataclass"]["z"], ones * 2)
    assert got["ordered"]["z"] == 5
    np.testing.assert_array_equal(got["default"]["k"][0], ones * 7)
    assert got["own"] == {"a": 9, "b": 8}
    assert got["tuple"][:1] == [10] and got["tuple"][1][0] == 11


def test_containers_come_back_with_a_target(ckpt: Path) -> None:
    tree = containers()
    holdfast.save(ckpt, tree)
    got = holdfast.load(ckpt, tree)
    for key, value in tree.items():
        assert type(got[key]) is type(value), key
    assert list(got) == list(tree)  # the target's own order
    assert got["default"].default_factory is list
    assert got["dataclass"].derived  # type: ignore[attr-defined]
    assert list(got["ordered"]) == ["z", "a"]


def test_classes_of_attrs(ckpt: Path) -> None:
    attrs = pytest.importorskip("attrs")
    cls = attrs.make_class("Slotted", ["z", "a"], slots=True)
    tree = {"attrs": cls(np.ones(2, np.float32) * 3, [4])}
    got = round_trip(ckpt, tree)["attrs"]
    assert got["a"] == [4]
    np.testing.assert_array_equal(got["z"], tree["attrs"].z)
    restored = holdfast.load(ckpt, tree)["attrs"]
    assert type(restored) is cls and restored.a == [4]
    np.testing.assert_array_equal(restored.z, tree["attrs"].z)


def test_order_of_leaves_is_jax_order(ckpt: Path) -> None:
    tree = {
        "point": Point(1, 2),
        "ints": {10: 1, 2: 2},
        "bools": {True: 1, False: 2},
        "ordered": collections.OrderedDict(z=5, a=6),
        "frozen": Frozen(1, 2),
    }
    holdfast.save(ckpt, tree)
    record = json.loads((ckpt / "_METADATA").read_text())
    order = [
        tuple(key["key"] for key in leaf["key_metadata"])
        for leaf in record["tree_metadata"].values()
    ]
    assert order == [
        ("bools", "False"),
        ("bools", "True"),
        ("frozen", "z"),
        ("frozen", "a"),
        ("ints", "2"),
        ("ints", "10"),
        ("ordered", "z"),
        ("ordered", "a"),
        ("point", "z"),
        ("point", "a"),
    ]


@pytest.mark.parametrize("tree", [np.arange(3.0), [1, [2]], 5])
def test_roots_that_are_no_dict(ckpt: Path, tree: Any) -> None:
    assert_same(round_trip(ckpt, tree), tree)


@pytest.mark.parametrize("format", ["orbax", "orbax-v1"])
@pytest.mark.parametrize("zarr_format", [None, 2, 3])
@pytest.mark.parametrize("ocdbt", [True, False])
@pytest.mark.parametrize("compression", ["zstd", "fast", None])
def test_formats(
    ckpt: Path,
    format: str,
    zarr_format: int | None,
    ocdbt: bool,
    compression: Any,
) -> None:
    tree = {
        "a": np.arange(3000, dtype=np.float32).reshape(30, 100),
        "b": {"c": 3, "d": "text"},
    }
    got = round_trip(
        ckpt,
        tree,
        format=format,
        zarr_format=zarr_format,
        ocdbt=ocdbt,
        compression=compression,
        chunk_bytes=1000,
        data_file_bytes=4000 if ocdbt else None,
        threads=2,
        memory_bytes=5000,
        durable=False,
    )
    assert_same(got, tree)
    opened = holdfast.open(ckpt)
    assert opened.format == format
    assert opened["a"].chunks < (30, 100)


def test_random_trees_survive(tmp_path: Path) -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        tree = {"root": random_tree(rng, 4)}
        path = tmp_path / str(seed)
        holdfast.save(path, tree, durable=False)
        got = holdfast.load(path)
        assert_same(got, listed(tree))
        assert_same(holdfast.load(path, got), got)


def random_tree(rng: np.random.Generator, depth: int) -> Any:
    kind = rng.integers(0, 6 if depth else 3)
    if kind == 0:
        shape = tuple(rng.integers(1, 5, rng.integers(0, 4)))
        dtype = rng.choice(["float32", "int8", "uint16", "complex64", "bool"])
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    if kind == 1:
        return [True, 3, 2.5, "text", None][rng.integers(0, 5)]
    if kind == 2:
        return [{}, [], ()][rng.integers(0, 3)]
    children = [random_tree(rng, depth - 1) for _ in range(rng.integers(1, 5))]
    if kind == 3:
        return children
    if kind == 4:
        return tuple(children)
    letters = "abc/~' \\\"é"
    keys = [
        "".join(rng.choice(list(letters), rng.integers(1, 6))) + str(i)
        for i in range(len(children))
    ]
    # Orbax uses a string leaf's name as a JSON pointer, in which "~" is
    # special.
    return {k.replace("~", "-"): c for k, c in zip(keys, children, strict=True)}


def listed(tree: Any) -> Any:
    """Returns the tree as it loads without a target: tuples as lists, dicts
    sorted."""
    if isinstance(tree, dict):
        return {key: listed(tree[key]) for key in sorted(tree)}
    if isinstance(tree, (list, tuple)) and tree:
        return [listed(item) for item in tree]
    return tree


def test_loaded_arrays_are_the_callers_own(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": np.zeros(5), "b": np.zeros(5)})
    first = holdfast.load(ckpt)
    first["a"][:] = 1
    assert first["b"].sum() == 0
    assert holdfast.load(ckpt)["a"].sum() == 0


def test_keys_select_leaves_and_subtrees(ckpt: Path) -> None:
    holdfast.save(ckpt, {"p": {"w": 1, "v": 2}, "pq": 3, "s": [4, 5]})
    assert holdfast.load(ckpt, select="p") == {"p": {"w": 1, "v": 2}}
    assert holdfast.load(ckpt, select=["p.w", "pq"]) == {"p": {"w": 1}, "pq": 3}
    with pytest.raises(errors.NotFoundError, match="nothing"):
        holdfast.load(ckpt, select=["nothing"])


def test_overwrite_and_custom_metadata(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": 1}, custom_metadata={"run": [1, "x"]})
    with pytest.raises(errors.AlreadyExistsError) as info:
        holdfast.save(ckpt, {"a": 2})
    assert str(info.value) == f"Destination {ckpt} already exists."
    assert isinstance(info.value, FileExistsError)
    assert holdfast.open(ckpt).custom_metadata == {"run": [1, "x"]}
    holdfast.save(ckpt, {"a": 2}, overwrite=True)
    assert holdfast.load(ckpt) == {"a": 2}
    assert holdfast.open(ckpt).custom_metadata is None


def test_steps_of_a_manager(tmp_path: Path) -> None:
    root = tmp_path / "run"
    for step in (10, 2):
        holdfast.save(root / str(step), {"step": step})
    assert holdfast.steps(root) == [2, 10]
    assert holdfast.load(root) == {"step": 10}
    assert holdfast.load(root, step=2) == {"step": 2}
    assert holdfast.open(root).step == 10


def test_stats(ckpt: Path) -> None:
    tree = {"a": np.zeros(100_000, np.float32)}
    saved = holdfast.save(ckpt, tree)
    assert saved is holdfast.last_stats()
    assert saved.decoded_bytes == 400_000
    assert 0 < saved.stored_bytes < 400_000
    assert set(saved.phase_seconds) >= {"plan", "transfer", "sync", "commit"}
    assert saved.memory_bytes_peak > 0
    holdfast.load(ckpt)
    loaded = holdfast.last_stats()
    assert loaded is not None and loaded.decoded_bytes == 400_000
    assert 0 < loaded.stored_bytes < 400_000


def test_progress_reaches_the_end(
    ckpt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = {"a": np.zeros(1_000_000, np.float32)}
    calls: list[tuple[str, int, int]] = []
    holdfast.save(ckpt, tree, progress=lambda *call: calls.append(call))
    phase, done, total = max(calls, key=lambda call: call[1])
    assert phase == "write" and done >= total == 4_000_000
    calls.clear()
    holdfast.load(ckpt, progress=lambda *call: calls.append(call))
    assert calls[-1][1:] == (4_000_000, 4_000_000)
    holdfast.load(ckpt, progress=True)
    assert "load" in capsys.readouterr().err
    with pytest.raises(TypeError, match="progress"):
        holdfast.load(ckpt, progress="yes")  # type: ignore[arg-type]


def test_an_exception_of_progress_cancels(ckpt: Path) -> None:
    def refuse(phase: str, done: int, total: int) -> None:
        raise LookupError("enough")

    tree = {f"a{i}": np.zeros(1 << 20, np.float32) for i in range(40)}
    with pytest.raises(LookupError, match="enough"):
        holdfast.save(ckpt, tree, progress=refuse, threads=1)
    assert list(ckpt.parent.iterdir()) == []


def test_path_like_and_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    path = tmp_path / name
    holdfast.save(path, {"a": 1})
    assert holdfast.load(str(path)) == {"a": 1}
    with pytest.raises(TypeError):
        holdfast.load(3)  # type: ignore[arg-type]


def test_values_inside_nodes_count_as_stored(ckpt: Path) -> None:
    saved = holdfast.save(ckpt, {"a": np.zeros(5, np.int8)}, compression=None)
    assert saved.stored_bytes == 5
