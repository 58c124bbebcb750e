"""Transforms in memory and during a restore."""

from __future__ import annotations

import collections
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import orbax as ocp
from holdfast.orbax import transform_utils
from holdfast.orbax.transform_utils import (
    RestoreTransform,
    Transform,
    apply_transformations,
)

Pair = collections.namedtuple("Pair", ["mu", "nu"])

ORIGINAL = {
    "a": 1,
    "b": {"c": 5, "d": [0, 1, 2]},
    "f": 2,
    "b1": {"c": 2},
    "b2": {"c": 3},
}


def test_keys_are_renamed_by_groups_and_values_changed() -> None:
    rules = {
        "a1": Transform(original_key="a"),
        "b": {"c": Transform(value_fn=lambda value: value * 2)},
        r"x(\d.*)": Transform(original_key=r"b\1"),
        r"(?P<top>y)/(\d)": Transform(original_key=r"b/d/\g<2>"),
        "z": Transform(multi_value_fn=lambda key, tree: key + str(tree["f"])),
    }
    new = {
        "a1": ...,
        "b": {"c": ...},
        "f": ...,
        "g": 5,
        "x1": {"c": 0},
        "x2": Pair(None, {}),
        "y": (0, 0, 0),
        "z": ...,
    }
    assert apply_transformations(ORIGINAL, rules, new) == {
        "a1": 1,
        "b": {"c": 10},
        "f": 2,
        "g": 5,
        "x1": {"c": 2},
        "x2": Pair(None, {}),
        "y": (0, 1, 2),
        "z": "z2",
    }


def test_nothing_gives_an_empty_dict() -> None:
    assert apply_transformations(ORIGINAL, {}, []) == {}
    assert apply_transformations(ORIGINAL, {}, None) == {}
    assert apply_transformations(3, {}, 0) == 3


def test_two_kinds_of_functions_are_refused_when_applied() -> None:
    rule = Transform(multi_value_fn=lambda key, tree: 0)
    rule.value_fn = abs
    with pytest.raises(ValueError, match="^Cannot provide both multi_value_fn"):
        apply_transformations(ORIGINAL, {"a": rule}, {"a": 0})


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Transform, {"original_key": "a", "use_fallback": True}),
        (Transform, {"original_key": "a", "multi_value_fn": max}),
        (Transform, {"use_fallback": True, "value_fn": abs}),
        (Transform, {"use_fallback": True, "multi_value_fn": max}),
        (Transform, {"value_fn": abs, "multi_value_fn": max}),
        (RestoreTransform, {"multi_value_fn_input_args": {}}),
    ],
)
def test_fields_that_exclude_each_other(kind: Any, fields: Any) -> None:
    with pytest.raises(AssertionError):
        kind(**fields)


def test_merge_and_intersect() -> None:
    a, b = {"x": 1, "y": [2, 3]}, {"y": [5], "e": {}}
    assert transform_utils.merge_trees(a, b) == {"x": 1, "y": {"0": 5, "1": 3}}
    assert transform_utils.merge_trees(a, b, target=a) == {"x": 1, "y": [5, 3]}
    assert transform_utils.intersect_trees(a, b) == {"y": {"0": 5}}
    assert transform_utils.intersect_trees(a, b, target=b) == b
    with pytest.raises(KeyError, match="'x'"):
        transform_utils.merge_trees(b, target=a)
    with pytest.raises(TypeError):
        transform_utils.intersect_trees()


STORED = {
    "params": {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.arange(3, dtype=np.float32),
    },
    "extra": np.ones(4, dtype=np.int32),
    "step": 7,
    "empty": {},
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Returns an item in which each array has a directory."""
    path = tmp_path / "item"
    path.mkdir()
    _handler().save(path, args=ocp.args.PyTreeSave(STORED))
    return path


def _handler() -> Any:
    return ocp.PyTreeCheckpointHandler(use_ocdbt=False)


def _restore(path: Path, *args: Any, **kwargs: Any) -> Any:
    restore_args = ocp.args.PyTreeRestore(*args, **kwargs)
    return _handler().restore(path, args=restore_args)


def _remove(directory: Path, *names: str) -> None:
    for name in names:
        shutil.rmtree(directory / name)


def test_what_no_rule_needs_is_not_read(directory: Path) -> None:
    _remove(directory, "params.b", "extra")
    restored = _restore(
        directory,
        {"v": 0, "step": 0, "new": "kept", "extra": "fallback"},
        {
            "v": ocp.RestoreArgs(dtype=np.float64),
            "step": ocp.RestoreArgs(),
            "extra": ocp.RestoreArgs(),
        },
        {
            "v": Transform(
                original_key="params/w", value_fn=lambda value: value.T
            ),
            "extra": Transform(use_fallback=True),
        },
    )
    assert restored.keys() == {"v", "step", "new", "extra"}
    np.testing.assert_array_equal(restored["v"], STORED["params"]["w"].T)
    assert restored["v"].dtype == np.float64
    assert restored["step"] == 7
    assert (restored["new"], restored["extra"]) == ("kept", "fallback")


def test_a_needed_leaf_that_is_gone_is_an_error(directory: Path) -> None:
    _remove(directory, "params.w")
    with pytest.raises(FileNotFoundError, match="Individual parameter subdir"):
        _restore(
            directory,
            {"v": 0},
            {"v": ocp.RestoreArgs()},
            {"v": Transform(original_key="params/w")},
        )


def test_multi_value_fn_reads_its_inputs_alone(directory: Path) -> None:
    _remove(directory, "extra", "step")
    calls = []

    def combine(key: str, tree: Any, args: Any) -> Any:
        calls.append((key, args, type(tree["extra"]).__name__))
        return tree["params"]["w"] + tree["params"]["b"]

    args = ocp.RestoreArgs(restore_type=np.ndarray)
    restored = _restore(
        directory,
        {"sum": 0},
        {"sum": args},
        {
            "sum": RestoreTransform(
                multi_value_fn=combine,
                multi_value_fn_input_args={"params/.*": ocp.RestoreArgs()},
            )
        },
    )
    np.testing.assert_array_equal(
        restored["sum"], STORED["params"]["w"] + STORED["params"]["b"]
    )
    assert calls == [("sum", args, "ValueMetadataEntry")]


def test_defaults_may_come_from_the_item(directory: Path) -> None:
    _remove(directory, "step", "extra")
    restored = _restore(
        directory,
        {"step": 1, "params": {"b": "item"}},
        {"step": ocp.RestoreArgs(), "params": {"b": ocp.RestoreArgs()}},
        {"params/b": Transform(use_fallback=True)},
        transforms_default_to_original=False,
    )
    assert restored["step"] == 1
    np.testing.assert_array_equal(
        restored["params"]["b"], STORED["params"]["b"]
    )


def test_legacy_transform_fn_moves_parameters(directory: Path) -> None:
    _remove(directory, "extra", "params.b")
    seen = []

    def move(item: Any, structure: Any, infos: Any) -> Any:
        seen.append((item, infos["params"]["w"].name))
        return (
            {"v": structure["params"]["w"], "s": structure["step"]},
            {"v": infos["params"]["w"], "s": infos["step"]},
        )

    restored = _restore(directory, {"v": 0, "s": 0}, legacy_transform_fn=move)
    assert seen == [({"v": 0, "s": 0}, "params.w")]
    assert restored["s"] == 7
    np.testing.assert_array_equal(restored["v"], STORED["params"]["w"])


def test_missing_chunks_are_fill_values(directory: Path) -> None:
    (directory / "_HOLDFAST_DIGESTS").unlink()  # with it, the loss is an error
    for chunk in (directory / "params.w").glob("[0-9]*"):
        chunk.unlink()
    with pytest.raises(ValueError, match="NOT_FOUND"):
        _restore(directory)
    restored = _restore(
        directory,
        {"params": {"w": 0}},
        {"params": {"w": ocp.RestoreArgs()}},
        {},
    )
    np.testing.assert_array_equal(restored["params"]["w"], np.zeros((2, 3)))


def test_a_type_handler_reads_its_leaves(directory: Path) -> None:
    class Box:
        pass

    class BoxHandler(ocp.type_handlers.TypeHandler):
        def typestr(self) -> str:
            return "Box"

        async def metadata(self, infos: Any) -> Any:
            raise NotImplementedError

        async def serialize(
            self, values: Any, infos: Any, args: Any = None
        ) -> Any:
            raise NotImplementedError

        async def deserialize(self, infos: Any, args: Any = None) -> Any:
            pairs = zip(infos, args, strict=True)
            return [f"{info.name} {arg.dtype}" for info, arg in pairs]

    registry = ocp.type_handlers.create_type_handler_registry(
        (Box, BoxHandler()), (int, ocp.type_handlers.ScalarHandler())
    )
    handler = ocp.PyTreeCheckpointHandler(type_handler_registry=registry)
    restored = handler.restore(
        directory,
        args=ocp.args.PyTreeRestore(
            {"v": 0, "step": 0},
            {
                "v": ocp.RestoreArgs(restore_type=Box, dtype="int8"),
                "step": ocp.RestoreArgs(restore_type=int),
            },
            {"v": Transform(original_key="params/w")},
        ),
    )
    assert restored == {"v": "params.w int8", "step": 7}
