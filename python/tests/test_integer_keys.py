"""Dicts with integer keys: holdfast restores integers, and Orbax still reads
the files."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import errors

TREE = {
    "state": {
        10: {"m": np.arange(3.0), "n": 1},
        2: {"m": np.ones(2), "n": 2},
        -7: {"m": np.zeros(1), "n": {0: "zero", 2**40: None}},
    },
    "groups": [{"ids": [0, 1]}, {5: 1.5}],
    "texts": {"2": 1, "10": 2},
}


def keys_of(tree: Any) -> Any:
    """Returns the tree's keys with their types, without values."""
    if isinstance(tree, dict):
        return [(type(key).__name__, key, keys_of(tree[key])) for key in tree]
    if isinstance(tree, (list, tuple)):
        return [keys_of(child) for child in tree]
    return None


def ordered(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: ordered(tree[key]) for key in sorted(tree)}
    return [ordered(each) for each in tree] if isinstance(tree, list) else tree


def texted(tree: Any) -> Any:
    """Returns the tree as Orbax restores it: all keys are strings, sorted as
    strings."""
    if isinstance(tree, dict):
        pairs = {str(key): texted(child) for key, child in tree.items()}
        return {key: pairs[key] for key in sorted(pairs)}
    return [texted(each) for each in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("format", ["orbax", "orbax-v1"])
def test_integers_stay_integers(ckpt: Path, format: str) -> None:
    holdfast.save(ckpt, TREE, format=format)
    got = holdfast.load(ckpt)
    got = got["state"] if format == "orbax-v1" and "groups" not in got else got
    assert keys_of(got) == keys_of(ordered(TREE))
    np.testing.assert_array_equal(got["state"][2]["m"], np.ones(2))
    assert holdfast.open(ckpt)["state.10.m"].shape == (3,)


def test_what_is_no_plain_dict(ckpt: Path) -> None:
    tree = {
        "ordered": collections.OrderedDict([(3, 1), (1, 2)]),
        "default": collections.defaultdict(int, {7: 1}),
        "counter": collections.Counter({30: 1, 80: 2}),
        "numpy": {np.int64(4): 1},
        "bools": {True: 1, False: 2},
        "floats": {1.5: 1, 2.0: 2},
    }
    holdfast.save(ckpt, tree)
    got = holdfast.load(ckpt)
    assert got == {
        "ordered": {3: 1, 1: 2},
        "default": {7: 1},
        "counter": {30: 1, 80: 2},
        "numpy": {4: 1},
        "bools": {"True": 1, "False": 2},
        "floats": {"1.5": 1, "2.0": 2},
    }
    again = holdfast.load(ckpt, tree)
    assert again == tree and again["counter"].most_common(1) == [(80, 2)]


def test_the_keys_of_a_target_rule(tmp_path: Path) -> None:
    integers, texts = {"a": {1: 1, 12: 2}}, {"a": {"1": 1, "12": 2}}
    holdfast.save(tmp_path / "integers", integers)
    holdfast.save(tmp_path / "texts", texts)
    for name in ("integers", "texts"):
        for target in (integers, texts):
            assert holdfast.load(tmp_path / name, target) == target
    assert holdfast.load(tmp_path / "texts") == texts
    with pytest.raises(errors.InvalidArgumentError, match=r"a\.3"):
        holdfast.load(tmp_path / "integers", {"a": {1: 1, 12: 2, 3: 0}})
    part = holdfast.load(tmp_path / "integers", select=["a.12"])
    assert part == {"a": {12: 2}}


def test_two_keys_of_one_name_are_refused(ckpt: Path) -> None:
    class One(int):
        def __str__(self) -> str:
            return "1"

    for tree in ({1: 1, One(2): 2}, collections.OrderedDict({1: 1, "1": 2})):
        with pytest.raises(ValueError, match="are one name"):
            holdfast.save(ckpt, tree)


def test_only_integers_are_marked(tmp_path: Path) -> None:
    holdfast.save(tmp_path / "plain", {"a": {"1": 1}, "b": [1, 2]})
    plain = (tmp_path / "plain/_METADATA").read_text()
    assert "holdfast" not in plain
    holdfast.save(tmp_path / "marked", {"a": {1: 1}})
    record = json.loads((tmp_path / "marked/_METADATA").read_text())
    entry = record["tree_metadata"]["('a', '1')"]["key_metadata"]
    assert entry == [
        {"key": "a", "key_type": 2},
        {"key": "1", "key_type": 2, "holdfast_key": "int"},
    ]


def test_a_mark_on_a_text_is_damage(ckpt: Path) -> None:
    holdfast.save(ckpt, {"a": {1: 1}})
    (ckpt / "_HOLDFAST_DIGESTS").unlink()
    metadata = ckpt / "_METADATA"
    text = metadata.read_text()
    for key in ("one", "01", "+1", "1.0", "", "9" * 30):
        metadata.write_text(text.replace('"key": "1"', f'"key": "{key}"'))
        with pytest.raises(errors.DataLossError, match="not an integer"):
            holdfast.load(ckpt, verify=False)


@pytest.mark.parametrize(
    "format", ["orbax", "orbax-v1", "safetensors", "npz", "dcp", "torch-dist"]
)
def test_conversions_keep_them(tmp_path: Path, format: str) -> None:
    holdfast.save(tmp_path / "first", TREE)
    there = tmp_path / ("there.npz" if format == "npz" else "there")
    holdfast.convert(tmp_path / "first", there, format=format)
    holdfast.convert(there, tmp_path / "back", format="orbax")
    for path in (there, tmp_path / "back"):
        got = holdfast.load(path)
        assert keys_of(got) == keys_of(ordered(TREE)), path


def test_renamed_leaves_keep_the_kinds_of_their_last_keys(
    tmp_path: Path,
) -> None:
    holdfast.save(tmp_path / "first", {"a": {1: {"m": 1.0}, 2: {"m": 2.0}}})
    holdfast.convert(
        tmp_path / "first",
        tmp_path / "second",
        format="orbax",
        rename=[("a/(.*)", r"b/\1")],
    )
    assert holdfast.load(tmp_path / "second") == {
        "b": {1: {"m": 1.0}, 2: {"m": 2.0}}
    }


def test_the_drop_in_gives_texts_as_orbax_does(tmp_path: Path) -> None:
    drop_in = pytest.importorskip("holdfast.orbax")
    holdfast.save(tmp_path / "ours", TREE)
    got = drop_in.PyTreeCheckpointer().restore(tmp_path / "ours")
    assert keys_of(got) == keys_of(texted(TREE))
    assert list(got["state"]) == sorted(got["state"])
    drop_in.PyTreeCheckpointer().save(tmp_path / "drop_in", TREE)
    assert "holdfast" not in (tmp_path / "drop_in/_METADATA").read_text()
    assert keys_of(holdfast.load(tmp_path / "drop_in")) == keys_of(texted(TREE))


def test_stock_orbax_reads_them(tmp_path: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    holdfast.save(tmp_path / "a", TREE)
    got = ocp.PyTreeCheckpointer().restore(tmp_path / "a")
    assert keys_of(ordered(got)) == keys_of(texted(TREE))
    np.testing.assert_array_equal(got["state"]["10"]["m"], np.arange(3.0))
    metadata = ocp.PyTreeCheckpointHandler().metadata(tmp_path / "a")
    assert metadata["state"]["-7"]["m"].shape == (1,)
    restored = ocp.PyTreeCheckpointer().restore(
        tmp_path / "a",
        args=ocp.args.PyTreeRestore(
            {"texts": {"2": 0, "10": 0}}, partial_restore=True
        ),
    )
    assert restored == {"texts": {"2": 1, "10": 2}}


def test_orbax_v1_reads_them(tmp_path: Path) -> None:
    v1 = pytest.importorskip("orbax.checkpoint.experimental.v1")
    holdfast.save(tmp_path / "v1", TREE, format="orbax-v1")
    got = v1.load_pytree(str(tmp_path / "v1"), checkpointable_name="state")
    assert set(got["state"]) == {"10", "2", "-7"}
