"""Transformations of parameters, compared with Orbax's own."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from meshes import sharding

jax = pytest.importorskip("jax")
pytest.importorskip("orbax.checkpoint")

_PACKAGE = "experimental.model_surgery.transformations"
Case = Callable[[Any], Any]


def modules(package: str) -> Any:
    """Returns an object whose attributes are a package's transformation
    modules."""

    class Modules:
        def __getattr__(self, name: str) -> Any:
            return importlib.import_module(f"{package}.{_PACKAGE}.{name}")

    return Modules()


def params() -> dict[str, Any]:
    return {
        "params.layers.0.gate.weight": np.arange(6.0).reshape(2, 3),
        "params.layers.0.up.weight": np.arange(6.0).reshape(2, 3) + 10,
        "params.layers.1.gate.weight": np.ones((2, 3)),
        "params.layers.1.up.weight": np.zeros((2, 3)),
        "params.norm": np.arange(3, dtype=np.int32),
    }


def on_devices() -> dict[str, Any]:
    return {key: jax.numpy.asarray(v) for key, v in params().items()}


FUSE = {
    "pattern": r"^(.*)\.(gate|up)\.weight$",
    "unique_parts": ["up", "gate"],
    "fused_unique_part": "both",
}
NUMBERED = r"layers\.(\d+\.)"
NESTED = {"a": {"b": 0}, "c": {"d": 5}}

CASES: dict[str, Case] = {
    "rename": lambda m: m.renaming.rename_by_regex(
        [(r"^params\.", "state."), ("weight", "w"), ("w", "v")]
    )(params()),
    "rename two": lambda m: m.renaming.rename_by_regex([])({}, {}),
    "unflatten": lambda m: m.nesting.unflatten()(params()),
    "unflatten by": lambda m: m.nesting.unflatten("/")({"a/b": 1, "a/c": 2}),
    "unflatten like": lambda m: m.nesting.unflatten(target=NESTED)(
        {"a.b": 1, "x": 2}
    ),
    "unflatten two": lambda m: m.nesting.unflatten()({}, {}),
    "repeat": lambda m: m.repeating.repeat_by_pattern(
        pattern=r".*weight$", dimension=1, repeat_count=2
    )(params()),
    "repeat jax": lambda m: m.repeating.repeat_by_pattern(
        pattern=r".*weight$", dimension=0, repeat_count=3
    )(on_devices()),
    "repeat keys": lambda m: m.repeating.repeat_by_keys(
        target_keys=["params.norm", "gone"], dimension=0, repeat_count=2
    )(params()),
    "fuse": lambda m: m.fusing.fuse_by_pattern(**FUSE)(params()),
    "fuse jax": lambda m: m.fusing.fuse_by_pattern(**FUSE, axis=1)(
        on_devices()
    ),
    "fuse half": lambda m: m.fusing.fuse_by_pattern(**FUSE)(
        {"a.gate.weight": np.ones(2)}
    ),
    "fuse keys": lambda m: m.fusing.fuse_by_keys(
        source_keys=["params.norm", "params.norm"], target_key="n"
    )({"params.norm": np.ones(2)} | params()),
    "fuse missing keys": lambda m: m.fusing.fuse_by_keys(
        source_keys=["params.norm", "gone"], target_key="n"
    )(params()),
    "fuse two": lambda m: m.fusing.fuse_by_keys(source_keys=[], target_key="n")(
        {}, {}
    ),
    "stack": lambda m: m.stacking.stack(NUMBERED)(params()),
    "stack inplace": lambda m: left(m.stacking.stack(NUMBERED, inplace=True)),
    "stack jax": lambda m: m.stacking.stack(NUMBERED, axis=1)(on_devices()),
    "stack to devices": lambda m: m.stacking.stack(
        NUMBERED, target_sharding=sharding((2,), "x")
    )(on_devices()),
    "stack numpy to devices": lambda m: m.stacking.stack(
        NUMBERED, target_sharding=sharding((2,), "x")
    )(params()),
    "stack few": lambda m: m.stacking.stack(NUMBERED, expected_count=3)(
        params()
    ),
    "stack filled": lambda m: m.stacking.stack(
        NUMBERED,
        expected_count=4,
        filler_mapping={"up": 7.5},
        default_filler=-1,
        sort_by_size=False,
    )(params()),
    "stack filled jax": lambda m: m.stacking.stack(
        NUMBERED, expected_count=3, axis=1, default_filler=2
    )(on_devices()),
    "stack too many": lambda m: m.stacking.stack(
        NUMBERED, expected_count=1, default_filler=2
    )(params()),
    "stack gap": lambda m: m.stacking.stack(r"(\d+)", default_filler=2)(
        {"a0": np.ones(2), "a3": np.ones(2)}
    ),
    "stack groups": lambda m: m.stacking.stack(r"(a)(\d)")({"a0": 1}),
    "stack none": lambda m: m.stacking.stack(r"z(\d)")(params()),
    "stack twice": lambda m: m.stacking.stack(r"(?:a|b)x(\d)")({"ax1": 1}),
    "stack not inplace": lambda m: m.stacking.stack("", inplace=True)([]),
}


def left(transform: Any) -> Any:
    """Returns the tree that a transformation makes, and the keys that are left
    in its argument."""
    given = params()
    return [transform(given), sorted(given)]


def noted(case: Case, package: str) -> Any:
    try:
        result = case(modules(package))
    except Exception as error:
        return type(error).__name__, str(error)
    leaves, structure = jax.tree_util.tree_flatten(result)
    kinds = [type(leaf).__name__ for leaf in leaves]
    dtypes = [str(getattr(leaf, "dtype", None)) for leaf in leaves]
    placed = [str(getattr(leaf, "sharding", None)) for leaf in leaves]
    values = [np.asarray(leaf).tolist() for leaf in leaves]
    return str(structure), kinds, dtypes, placed, values


@pytest.mark.parametrize("name", CASES)
def test_both_see_the_same(name: str) -> None:
    want = noted(CASES[name], "orbax.checkpoint")
    assert noted(CASES[name], "holdfast.orbax") == want


def test_stacks_split_along_another_axis() -> None:
    """Orbax refuses such stacks: "Shape mismatch"."""
    stack = modules("holdfast.orbax").stacking.stack
    stacked = stack(NUMBERED, axis=2, target_sharding=sharding((2,), "x"))(
        on_devices()
    )
    result = stacked["params.layers.up.weight"]
    assert result.sharding == sharding((2,), "x")
    np.testing.assert_array_equal(
        result,
        np.stack([params()[f"params.layers.{i}.up.weight"] for i in (0, 1)], 2),
    )


def test_what_is_missing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        CASES["repeat keys"](modules("holdfast.orbax"))
        CASES["fuse half"](modules("holdfast.orbax"))
        CASES["unflatten like"](modules("holdfast.orbax"))
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "Could not repeat keys ['gone']. They were not found in params.",
        "Could not fuse a.both.weight. Found parts: ['gate'], expected:"
        " ['up', 'gate']",
        "The following 1 keys were missing in the checkpoint and will retain"
        " their default values: ['c.d']",
    ]
