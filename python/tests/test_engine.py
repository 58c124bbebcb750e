"""The parts of the compiled module that the public interface does not show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import _engine, errors


def refuse(value: Any, path: tuple[Any, ...]) -> Any:
    raise AssertionError(f"adapt was called for {value!r} at {path}")


def build(tree: Any, **options: Any) -> _engine.Tree:
    return _engine.build_tree(tree, adapt=refuse, **options)


@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (1000, 100), (0, 4)])
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_empty_is_aligned_and_writable(shape: Any, dtype: str) -> None:
    for _ in range(20):
        array = _engine.empty(shape, np.dtype(dtype))
        assert array.shape == shape and array.dtype == dtype
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous and array.flags.writeable
        array[...] = 1


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((-1,), "int8"), ((1 << 62, 1 << 62), "int64"), ((3,), "S3")],
)
def test_empty_refuses(shape: Any, dtype: str) -> None:
    with pytest.raises(errors.HoldfastError):
        _engine.empty(shape, np.dtype(dtype))


def test_adapt_is_asked_with_the_path() -> None:
    asked = []

    def adapt(value: Any, path: tuple[Any, ...]) -> Any:
        asked.append((value, path))
        return 5

    first, second = object(), object()
    tree = {"a": [1, {"b": first}], 3.5: second}
    with pytest.raises(errors.InvalidArgumentError, match="Comparator"):
        _engine.build_tree(tree, adapt=adapt)
    del tree[3.5]
    built = _engine.build_tree(tree, adapt=adapt)
    assert asked == [(first, ("a", 1, "b"))]
    assert built.leaf_count == 2 and built.byte_count == 16


def test_adapt_must_make_something_known() -> None:
    with pytest.raises(TypeError, match="adapt returned a"):
        _engine.build_tree({"a": object()}, adapt=lambda *_: object())
    with pytest.raises(ZeroDivisionError):
        _engine.build_tree({"a": object()}, adapt=lambda *_: 1 / 0)


def test_strings_may_be_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError) as info:
        build({"a": ["text"]}, strings=False)
    assert str(info.value) == (
        "Unsupported type: <class 'str'> for key: ('a', 0)."
    )


def test_shards_must_cover_the_array_once(ckpt: Path) -> None:
    half = np.ones((2, 4), np.float32)

    def save(*origins: tuple[int, int]) -> None:
        leaf = _engine.ArrayLeaf((4, 4), [(o, half) for o in origins])
        _engine.save(str(ckpt), build({"a": leaf}))

    for bad in ([(0, 0)], [(0, 0), (1, 0)], [(0, 0), (0, 0)]):
        with pytest.raises(errors.InvalidArgumentError, match="a"):
            save(*bad)
    with pytest.raises(errors.InvalidArgumentError, match=r"\(2, 4\) at"):
        save((0, 0), (3, 0))
    assert not ckpt.exists()
    save((2, 0), (0, 0))
    loaded, _, _ = _engine.load(str(ckpt))
    assert loaded["a"].shape == (4, 4) and loaded["a"].sum() == 16


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": (2,), "shards": []},
        {"shape": (2,), "shards": [((0,), [1, 2])]},
        {"shape": (2,), "shards": [((0,), np.ones(2))], "kind": "torch"},
        {"shape": (1,) * 33, "shards": [((0,), np.ones(2))]},
    ],
)
def test_array_leaves_are_checked(arguments: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        _engine.ArrayLeaf(**arguments)


def test_nodes(ckpt: Path) -> None:
    node = _engine.Node("attributes", ["z", "a"], [1, 2])
    tree = {
        "n": node,
        "s": _engine.Node("sequence", [], [3, node]),
        "e": _engine.Node("attributes", [], []),
        "t": _engine.Node("sequence", [], []),
    }
    _engine.save(str(ckpt), build(tree))
    loaded, _, _ = _engine.load(str(ckpt))
    assert loaded["s"] == [3, {"z": 1, "a": 2}]
    assert loaded["e"] is None and loaded["t"] == ()
    names = json.loads((ckpt / "_METADATA").read_text())["tree_metadata"]
    assert list(names)[1:3] == ["('n', 'z')", "('n', 'a')"]
    with pytest.raises(errors.InvalidArgumentError, match="1 keys for 2"):
        _engine.Node("attributes", ["a"], [1, 2])
    with pytest.raises(errors.InvalidArgumentError, match="kind"):
        _engine.Node("dict", [], [])


def test_pending_save(ckpt: Path) -> None:
    with _engine.PendingSave(str(ckpt)) as pending:
        assert pending.directory == f"{ckpt}.orbax-checkpoint-tmp"
        stats = pending.save_item("state", build({"a": np.ones(10)}))
        assert stats.decoded_bytes == 80
        pending.write_file("extra/data.json", b'{"x": 1}')
        assert not ckpt.exists()
        pending.commit(
            item_handlers_json='{"state": "x"}', custom_metadata='{"c": 2}'
        )
    assert (ckpt / "extra" / "data.json").read_bytes() == b'{"x": 1}'
    record = json.loads((ckpt / "_CHECKPOINT_METADATA").read_text())
    assert record["item_handlers"] == {"state": "x"}
    assert record["custom_metadata"] == {"c": 2}
    with pytest.raises(errors.FailedPreconditionError, match="ended"):
        pending.commit()
    with pytest.raises(errors.FailedPreconditionError, match="ended"):
        pending.write_file("late", b"")
    assert _engine.verify(str(ckpt))[0] == []


@pytest.mark.parametrize("how", ["block", "discard", "drop", "raise"])
def test_pending_saves_that_are_not_committed(ckpt: Path, how: str) -> None:
    pending = _engine.PendingSave(str(ckpt))
    pending.save_item("", build({"a": np.ones(10)}))
    assert len(list(ckpt.parent.iterdir())) == 1
    if how == "block":
        with pending:
            pass
    elif how == "discard":
        pending.discard()
        pending.discard()
    elif how == "raise":
        with pytest.raises(ZeroDivisionError), pending:
            1 / 0  # noqa: B018
    del pending
    assert list(ckpt.parent.iterdir()) == []


def test_save_args(ckpt: Path) -> None:
    tree = {"a": np.ones((8, 8)), "b": 3}
    _engine.save(
        str(ckpt),
        build(tree),
        save_args={"a": ("float32", 64, ()), "b": ("int8", None, ())},
    )
    leaves = {leaf.name: leaf for leaf in _engine.Checkpoint(str(ckpt)).leaves}
    assert leaves["a"].dtype == "float32" and leaves["b"].dtype == "int8"
    assert leaves["a"].chunk_count == 4
    for bad in (
        {"a": ("str64", None, ())},
        {"nothing": (None, None, ())},
        {"a": (None, 4, ())},
    ):
        with pytest.raises(errors.InvalidArgumentError):
            _engine.save(str(ckpt), build(tree), save_args=bad, overwrite=True)


@pytest.fixture
def opened(ckpt: Path) -> _engine.Checkpoint:
    tree = {"a": np.arange(12.0).reshape(3, 4), "n": 7, "s": "text"}
    _engine.save(str(ckpt), build(tree))
    return _engine.Checkpoint(str(ckpt))


def test_read_into_fills_and_casts(opened: _engine.Checkpoint) -> None:
    column = np.zeros((3, 4), np.int16)[:, ::2]
    number = np.zeros((), np.float32)
    stats = opened.read_into(
        [(0, (0, 1), column), (0, (0, 0), np.zeros((3, 4))), (1, (), number)]
    )
    assert column.tolist() == [[1, 2], [5, 6], [9, 10]] and number == 7
    assert stats.chunk_count >= 2


@pytest.mark.parametrize(
    ("leaf", "origin", "target", "kind"),
    [
        (0, (1, 0), np.zeros((3, 4)), errors.OutOfRangeError),
        (0, (0,), np.zeros((3, 4)), errors.HoldfastError),
        (5, (0, 0), np.zeros((3, 4)), errors.OutOfRangeError),
        (2, (), np.zeros(()), errors.HoldfastError),
        (0, (0, 0), np.zeros((3, 4), ">f8"), errors.InvalidArgumentError),
        (0, (0, 0), np.zeros((3, 4), "S2"), errors.InvalidArgumentError),
        (0, (0, 0), [[0.0] * 4] * 3, errors.InvalidArgumentError),
    ],
)
def test_read_into_refuses(
    opened: _engine.Checkpoint, leaf: int, origin: Any, target: Any, kind: Any
) -> None:
    with pytest.raises(kind):
        opened.read_into([(leaf, origin, target)])
    frozen = np.zeros((3, 4))
    frozen.flags.writeable = False
    with pytest.raises(errors.InvalidArgumentError, match="read-only"):
        opened.read_into([(0, (0, 0), frozen)])


def test_what_is_known_of_leaves(opened: _engine.Checkpoint) -> None:
    assert opened.structure() == {"a": 0, "n": 1, "s": 2}
    assert opened.leaves is opened.leaves
    array, number, text = opened.leaves
    assert array.key == ("a",) and array.key_is_sequence == (False,)
    assert array.value_type == "np.ndarray" and array.dtype == "float64"
    assert number.kind == "scalar" and number.value_type == "scalar"
    assert text.kind == "string" and text.dtype is None
    assert array.problem is None and array.write_shape is None
    assert json.loads(array.array_metadata)["shape"] == [3, 4]
    assert opened.has_tree_metadata and not opened.use_zarr3
    assert opened.use_ocdbt and opened.zarr_format == 2
    assert opened.commit_timestamp_ns is not None
    with pytest.raises(errors.OutOfRangeError, match="leaf 3 of 3"):
        opened.read(3)


def test_load_wants_names_in_a_sequence(ckpt: Path) -> None:
    _engine.save(str(ckpt), build({"a": 1}))
    with pytest.raises(errors.InvalidArgumentError, match="one str"):
        _engine.load(str(ckpt), names="a")


def test_list_steps(tmp_path: Path) -> None:
    for step in (3, 20):
        _engine.save(str(tmp_path / str(step)), build({"a": step}))
    (tmp_path / "7.orbax-checkpoint-tmp").mkdir()
    steps = _engine.list_steps(str(tmp_path))
    assert [(s.step, s.committed) for s in steps][:2] == [(3, True), (20, True)]
    assert not steps[-1].committed and steps[-1].why_not
    assert steps[0].bytes > 0 and steps[0].commit_timestamp_ns


class Part:
    """An array of which this process has the given shards."""

    def __init__(self, shards: dict[int, Any], write_rows: int = 2) -> None:
        self.leaf = _engine.ArrayLeaf(
            (6, 3),
            [((row, 0), array) for row, array in shards.items()],
            kind="numpy",
            immutable=False,
            write_shape=(write_rows, 3),
            dtype=np.dtype("float32"),
        )


def build_parts(tree: Any) -> _engine.Tree:
    return _engine.build_tree(tree, adapt=lambda part, path: part.leaf)


@pytest.mark.parametrize("use_ocdbt", [True, False])
def test_parts_whose_processes_know_their_own_leaves(
    ckpt: Path, use_ocdbt: bool
) -> None:
    rows = np.arange(18, dtype=np.float32).reshape(6, 3)
    ckpt.mkdir()

    def write(rank: int, tree: Any, is_primary: bool = False) -> None:
        _engine.save_item_part(
            str(ckpt),
            build_parts(tree),
            rank=rank,
            is_primary=is_primary,
            use_ocdbt=use_ocdbt,
        )

    def finish(ranks: list[int], **options: Any) -> None:
        _engine.finish_item(
            str(ckpt), ranks=ranks, use_ocdbt=use_ocdbt, **options
        )

    whole = {"m": {"w": Part({}), "v": Part({})}, "step": 7}
    write(0, {"m.w": Part({0: rows[:2], 4: rows[4:]})})
    write(2, whole, is_primary=True)
    with pytest.raises(errors.FailedPreconditionError, match="another tree"):
        finish([0, 2])
    with pytest.raises(errors.FailedPreconditionError, match=r"m\.w.*1|m\.v"):
        finish([0, 2], has_own_trees=True)
    write(1, {"m.v": Part({0: rows}), "m.w": Part({2: rows[2:4]})})
    finish([0, 1, 2], has_own_trees=True)
    loaded, _, _ = _engine.load(str(ckpt))
    assert loaded["step"] == 7
    np.testing.assert_array_equal(loaded["m"]["w"], rows)
    np.testing.assert_array_equal(loaded["m"]["v"], rows)


def test_names_of_leaves_without_the_leaves(tmp_path: Path) -> None:
    tree = {"b": {"ß": np.ones(2)}, "a": [1, "text"]}
    holdfast.save(tmp_path / "c", tree)
    opened = _engine.Checkpoint(str(tmp_path / "c"))
    assert opened.leaf_names == [leaf.name for leaf in opened.leaves]
    assert opened.leaf_names == ["a.0", "a.1", "b.ß"]
