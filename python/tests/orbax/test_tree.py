"""holdfast.orbax.tree: plain trees, with and without jax."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import numpy as np
import pytest

from holdfast.orbax import tree

Pair = collections.namedtuple("Pair", ["mu", "nu"])

TREE = {"b": [1, Pair(2, None)], "a": {"x": 3.5, "e": {}}, "t": (4,)}
FLAT = {
    ("a", "x"): 3.5,
    ("b", "0"): 1,
    ("b", "1", "mu"): 2,
    ("t", "0"): 4,
}


def test_to_flat_dict_is_in_flatten_order() -> None:
    assert list(tree.to_flat_dict(TREE).items()) == list(FLAT.items())


def test_to_flat_dict_joins_keys() -> None:
    flat = tree.to_flat_dict(TREE, sep="/", keep_empty_nodes=True)
    assert flat == {
        "a/e": {},
        "a/x": 3.5,
        "b/0": 1,
        "b/1/mu": 2,
        "b/1/nu": None,
        "t/0": 4,
    }


def test_from_flat_dict_rebuilds_the_target() -> None:
    assert tree.from_flat_dict(FLAT, TREE) == TREE
    assert isinstance(tree.from_flat_dict(FLAT, TREE)["b"][1], Pair)


def test_from_flat_dict_nests_dicts() -> None:
    flat = {"a/x": 1, "b": 2}
    assert tree.from_flat_dict(flat, sep="/") == {"a": {"x": 1}, "b": 2}
    assert flat == {"a/x": 1, "b": 2}


def test_from_flat_dict_in_place_empties_its_argument() -> None:
    flat = {("a",): 1}
    assert tree.from_flat_dict(flat, inplace=True) == {"a": 1}
    assert flat == {}


def test_from_flat_dict_wants_the_empty_path_alone() -> None:
    with pytest.raises(ValueError, match="Empty keypath"):
        tree.from_flat_dict({(): 1, ("a",): 2})


def test_serialize_refuses_what_has_no_leaves() -> None:
    with pytest.raises(ValueError, match="Unable to uniquely reconstruct"):
        tree.serialize_tree({})


def test_deserialize_is_the_reverse() -> None:
    serialized = tree.serialize_tree(TREE, keep_empty_nodes=True)
    assert tree.deserialize_tree(serialized, TREE, True) == TREE


def test_int_keys_become_text() -> None:
    assert tree.to_flat_dict({1: 2}) == {("1",): 2}


def test_keys_that_do_not_compare() -> None:
    with pytest.raises(ValueError, match="Comparator raised exception"):
        tree.to_flat_dict({1: 0, "a": 0})


def test_is_flat_dict() -> None:
    assert tree.is_flat_dict({"a": np.ones(2)})
    assert not tree.is_flat_dict({"a": {"b": 1}})
    assert not tree.is_flat_dict([1])


def test_difference_names_what_differs() -> None:
    diff = tree.tree_difference(
        {"same": 1, "kind": 1, "left": 0}, {"same": 2, "kind": "x", "right": 0}
    )
    assert diff == {"kind": (1, "x"), "left": (0, None), "right": (None, 0)}
    assert tree.tree_difference(TREE, TREE) is None


def test_difference_of_lengths() -> None:
    assert tree.tree_difference([1], [1, 2]) == ((list, 1), (list, 2))


def test_trim_keeps_the_template_and_reports_the_rest() -> None:
    dropped: list[tuple[Any, Any]] = []
    trimmed = tree.tree_trim(
        {"a": {"x": 0}},
        {"a": {"x": 1, "y": 2}, "b": 3},
        trimmed_structure_callback=lambda path, v: dropped.append((path, v)),
    )
    assert trimmed == {"a": {"x": 1}}
    assert dropped == [(("b",), 3), (("a", "y"), 2)]


def test_plain_trees_need_no_jax(run_python: Any) -> None:
    run_python(
        "import sys\n"
        "from holdfast.orbax import tree\n"
        "t = {'b': [1, (2, None)], 'a': {}}\n"
        "flat = tree.to_flat_dict(t)\n"
        "assert flat == {('b', '0'): 1, ('b', '1', '0'): 2}, flat\n"
        "assert tree.from_flat_dict(flat, t) == t\n"
        "assert 'jax' not in sys.modules\n"
    )


def test_registered_nodes_are_walked_with_jax() -> None:
    jax = pytest.importorskip("jax")

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        step: int
        params: Any

    flat = tree.to_flat_dict({"s": State(1, [2])})
    assert flat == {("s", "step"): 1, ("s", "params", "0"): 2}
    assert tree.serialize_tree(State(1, [2])) == {"step": 1, "params": [2]}


def test_to_shape_dtype_struct() -> None:
    jax = pytest.importorskip("jax")
    struct = tree.to_shape_dtype_struct(np.ones((2, 3), np.float32))
    assert struct == jax.ShapeDtypeStruct((2, 3), np.float32)
    assert tree.to_shape_dtype_struct(5, scalar_dtype=float) == 5.0
    with pytest.raises(ValueError, match="does not have a `shape`"):
        tree.to_shape_dtype_struct("text")


def test_trim_without_strict_gives_parts() -> None:
    template = {"a": 0, "b": [0, None], "c": Pair(0, 0)}
    parts = tree.tree_trim(
        template, {"a": 1, "c": {"mu": 2}, "x": 3}, strict=False
    )
    assert parts.unsafe_structure == {
        "a": 1,
        "b": [..., None],
        "c": Pair(2, ...),
    }
    assert not parts.is_empty()
    with pytest.raises(ValueError) as info:
        _ = parts.full_structure
    assert str(info.value) == "Tree is not complete: ('b', '0')"
    rest = type(parts).like(parts, {"b": [5], "c": {"nu": 6}})
    whole = {"a": 1, "b": [5, None], "c": Pair(2, 6)}
    assert parts.overlay(rest).full_structure == whole
    assert (parts.overlay(rest) - rest) == parts
    assert parts.intersect(rest).is_empty()
    assert rest.select(("c",)).unsafe_structure == Pair(..., 6)
    with pytest.raises(ValueError, match="Mismatched templates"):
        parts.overlay(type(parts).empty({"a": 0}))
    with pytest.raises(ValueError, match="Strict overlay failed"):
        parts.overlay(parts, strict=True)
    with pytest.raises(ValueError, match="not part of the full tree"):
        type(parts).like(parts, {"z": 1})


def test_trim_tells_what_it_leaves_out() -> None:
    dropped: list[Any] = []
    tree.tree_trim(
        {"a": [0], "n": None},
        {"a": [1], "n": 2, "x": {"y": 3}},
        trimmed_structure_callback=lambda path, part: dropped.append(
            (path, part)
        ),
    )
    assert dropped == [(("x",), {"y": 3}), (("n",), 2)]
    dropped.clear()
    tree.tree_trim(
        {"p": {"mu": 0}},
        {"p": Pair(1, 2)},
        trimmed_structure_callback=lambda path, part: dropped.append(
            (path, part)
        ),
    )
    assert dropped == [(("p", ".nu"), 2)]
