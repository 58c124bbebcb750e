"""`holdfast.load(target=...)`: structure, kinds, dtypes, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import holdfast
from holdfast import errors


class Pair(NamedTuple):
    x: Any
    y: Any


TREE = {
    "p": {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": [1, 2.5]},
    "flag": True,
    "name": "run",
    "none": None,
    "pair": Pair(np.int64(3), ()),
}


@pytest.fixture
def saved(ckpt: Path) -> Path:
    holdfast.save(ckpt, TREE)
    return ckpt


def test_kinds_of_leaves(saved: Path) -> None:
    target = {**TREE, "pair": Pair(np.int64(0), ())}
    got = holdfast.load(saved, target)
    assert got["p"]["w"] is not TREE["p"]["w"]
    np.testing.assert_array_equal(got["p"]["w"], TREE["p"]["w"])
    assert got["p"]["b"] == [1, 2.5]
    assert got["flag"] is True and got["none"] is None
    assert got["name"] == "run"
    assert type(got["pair"]) is Pair and type(got["pair"].x) is np.int64
    assert got["pair"] == Pair(3, ())


def test_the_target_is_not_touched(saved: Path) -> None:
    target = {**TREE, "p": {"w": np.zeros((2, 3), np.float32), "b": [0, 0.0]}}
    holdfast.load(saved, target)
    assert target["p"]["w"].sum() == 0 and target["p"]["b"] == [0, 0.0]


def test_ellipsis_leaves_out(saved: Path) -> None:
    got = holdfast.load(
        saved,
        {"p": ..., "flag": False, "name": ..., "none": ..., "pair": ...},
    )
    assert got == {
        "p": ...,
        "flag": True,
        "name": ...,
        "none": ...,
        "pair": ...,
    }


def test_keys_restrict_what_the_target_must_have(saved: Path) -> None:
    got = holdfast.load(saved, {"p": {"b": [0, ...]}}, select=["p.b.0"])
    assert got == {"p": {"b": [1, ...]}}
    with pytest.raises(errors.InvalidArgumentError, match=r"flag"):
        holdfast.load(saved, {"flag": True}, select=["p.b"])


def test_a_stored_array_is_a_target(saved: Path) -> None:
    opened = holdfast.open(saved)
    got = holdfast.load(saved, {"p": {"w": opened["p.w"]}}, select="p.w")
    np.testing.assert_array_equal(got["p"]["w"], TREE["p"]["w"])


def message(saved: Path, target: Any, **options: Any) -> str:
    with pytest.raises(errors.InvalidArgumentError) as info:
        holdfast.load(saved, target, **options)
    return str(info.value)


def test_all_differences_of_structure_are_told(saved: Path) -> None:
    target = {
        **{key: TREE[key] for key in ("flag", "none")},
        "p": {"w": {"inner": 1}, "b": [0, 0, 0]},
        "name": "",
        "more": {"a": [1, 2]},
    }
    text = message(saved, target)
    assert "in the target but not in the checkpoint" in text
    assert "more.a.0, more.a.1" in text and "p.b.2" in text
    assert "in the checkpoint but not in the target: pair.x, pair.y" in text
    assert "p.w (a leaf in the checkpoint, a dict in the target)" in text


def test_long_lists_of_differences_are_cut(ckpt: Path) -> None:
    holdfast.save(ckpt, {f"k{i:02d}": i for i in range(30)})
    text = message(ckpt, {"k00": 0})
    assert "k01, k02" in text and "k10 and 19 more" in text
    assert "k11" not in text


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"a": [1, 2]}, r"a \(a dict in the checkpoint, a list in the target"),
        ({"a": 5}, r"a \(a dict in the checkpoint, a leaf in the target"),
        ({"a": None}, "in the checkpoint but not in the target: a.b"),
        ({"a": {}}, "in the checkpoint but not in the target: a.b"),
        ([1], "the root"),
    ],
)
def test_container_against_leaf(ckpt: Path, target: Any, words: str) -> None:
    holdfast.save(ckpt, {"a": {"b": 1}})
    with pytest.raises(errors.InvalidArgumentError, match=words):
        holdfast.load(ckpt, target)


def test_empties_match_by_being_empty(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": Pair(1, 2)._make([1, 2]), "b": (), "c": None})
    got = holdfast.load(ckpt, {"a": Pair(0, 0), "b": [], "c": {}})
    assert got == {"a": Pair(1, 2), "b": [], "c": {}}
    text = message(ckpt, {"a": Pair(0, 0), "b": [1], "c": None})
    assert "in the target but not in the checkpoint: b.0" in text


def test_shapes_must_match_always(saved: Path) -> None:
    target = {"p": {"w": np.zeros((3, 2), np.float32)}}
    for cast in (False, True):
        text = message(saved, target, select="p.w", cast=cast)
        assert text == (
            "leaf 'p.w': shape: the checkpoint has (2, 3), the target (3, 2)"
        )


def test_dtypes_must_match_unless_cast(saved: Path) -> None:
    target = {"p": {"w": np.zeros((2, 3), np.int16)}}
    assert message(saved, target, select="p.w") == (
        "leaf 'p.w': dtype: the checkpoint has float32, the target int16;"
        " cast=True casts"
    )
    got = holdfast.load(saved, target, select="p.w", cast=True)["p"]["w"]
    assert got.dtype == np.int16 and got[1, 2] == 5


@pytest.mark.parametrize(
    ("stored", "target", "cast", "want"),
    [
        (np.array(3, "u1"), 0, False, 3),
        (np.array(2.5, "f2"), 0.0, False, 2.5),
        (3, np.int64(0), False, np.int64(3)),
        (3, np.array(0), False, np.array(3)),
        (3, 0.0, False, None),
        (2.5, 0, False, None),
        (True, 0, False, None),
        (1, True, False, None),
        (3, 0.0, True, 3.0),
        (2.5, 0, True, 2),
        (1, True, True, True),
        (1 + 2j, 0j, False, 1 + 2j),
        (3, "text", False, None),
        ("text", 3, False, None),
        ("text", np.zeros(3), True, None),
    ],
)
def test_numbers(
    ckpt: Path, stored: Any, target: Any, cast: bool, want: Any
) -> None:
    holdfast.save(ckpt, {"a": stored})
    if want is None:
        text = message(ckpt, {"a": target}, cast=cast)
        assert text.startswith("leaf 'a': ")
        return
    got = holdfast.load(ckpt, {"a": target}, cast=cast)["a"]
    assert type(got) is type(want) and got == want


def test_a_target_leaf_of_no_known_kind(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": 1})
    assert "the target is a object" in message(ckpt, {"a": object()})


def test_targets_of_a_manager_and_of_damaged_data(tmp_path: Path) -> None:
    root = tmp_path / "run"
    for step in (1, 2):
        holdfast.save(root / str(step), {"a": np.full(3, step)})
    got = holdfast.load(root, {"a": np.zeros(3, int)}, step=1)
    assert got["a"].tolist() == [1, 1, 1]
    with pytest.raises(errors.NotFoundError):
        holdfast.load(root, {"a": np.zeros(3, int)}, step=3)
