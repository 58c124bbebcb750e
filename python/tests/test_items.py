"""A call that names an item gets this item or an error, never all items."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import holdfast
import holdfast.orbax as ocp

TREE = {"w": np.arange(6.0), "n": 3}


def bare(folder: pathlib.Path) -> pathlib.Path:
    holdfast.save(folder / "c", TREE)
    return folder / "c"


def composite(folder: pathlib.Path) -> pathlib.Path:
    with ocp.CheckpointManager(folder / "run") as manager:
        manager.save(
            3,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(TREE),
                words=ocp.args.JsonSave({"a": 1}),
            ),
        )
        manager.wait_until_finished()
    return folder / "run" / "3"


def item_of_json(folder: pathlib.Path) -> pathlib.Path:
    return composite(folder) / "words"


def item_of_a_tree(folder: pathlib.Path) -> pathlib.Path:
    return composite(folder) / "state"


def root(folder: pathlib.Path) -> pathlib.Path:
    return composite(folder).parent


def root_of_bare_steps(folder: pathlib.Path) -> pathlib.Path:
    for step in range(2):
        holdfast.save(folder / "run" / str(step), TREE)
    return folder / "run"


def version_1(folder: pathlib.Path) -> pathlib.Path:
    holdfast.save(folder / "c", TREE, format="orbax-v1")
    return folder / "c"


def of_another_format(name: str) -> Callable[[pathlib.Path], pathlib.Path]:
    def make(folder: pathlib.Path) -> pathlib.Path:
        suffix = {"safetensors": ".safetensors", "npz": ".npz"}.get(name, "")
        target = folder / f"c{suffix}"
        holdfast.convert(bare(folder / "from"), target, format=name)
        return target

    return make


def manifest(folder: pathlib.Path) -> pathlib.Path:
    return bare(folder) / "manifest.ocdbt"


def delta(folder: pathlib.Path) -> pathlib.Path:
    holdfast.save(folder / "run" / "0", TREE)
    holdfast.save(folder / "run" / "1", TREE, base=0)
    return folder / "run" / "1"


PLACES = {
    place.__name__: place
    for place in (
        bare,
        composite,
        item_of_json,
        item_of_a_tree,
        root,
        root_of_bare_steps,
        version_1,
        manifest,
        delta,
    )
} | {
    name: of_another_format(name)
    for name in ("safetensors", "npz", "dcp", "torch-dist", "megatron-zarr")
}

CALLS: dict[str, Callable[[pathlib.Path, pathlib.Path], Any]] = {
    "load": lambda path, out: holdfast.load(path, item="nope"),
    "open": lambda path, out: holdfast.open(path, item="nope"),
    "verify": lambda path, out: holdfast.verify(path, item="nope"),
    "convert": lambda path, out: holdfast.convert(
        path, out, format="orbax", item="nope"
    ),
    "view": lambda path, out: holdfast.view(path, out, item="nope"),
}


@pytest.mark.parametrize("place", sorted(PLACES))
@pytest.mark.parametrize("call", sorted(CALLS))
def test_an_item_that_is_not_there(
    tmp_path: pathlib.Path, place: str, call: str
) -> None:
    path = PLACES[place](tmp_path)
    out = tmp_path / "out"
    with pytest.raises(holdfast.errors.NotFoundError, match='Item "nope"'):
        CALLS[call](path, out)
    assert not out.exists()


def test_items_that_are_there(tmp_path: pathlib.Path) -> None:
    step = composite(tmp_path)
    for path in (step, step.parent):
        assert np.array_equal(holdfast.load(path, item="state")["w"], TREE["w"])
        assert json.loads(holdfast.load(path, item="words")) == {"a": 1}
        assert holdfast.verify(path, item="state").ok
    with pytest.raises(
        holdfast.errors.NotFoundError,
        match='the items "metrics|state", "words"',
    ):
        holdfast.load(step, item="nope")
    with pytest.raises(holdfast.errors.NotFoundError, match="no name"):
        holdfast.load(step / "state", item="state")


def test_a_root_gives_the_newest_step_with_the_item(
    tmp_path: pathlib.Path,
) -> None:
    step = composite(tmp_path)
    holdfast.save(step.parent / "4", TREE)
    assert holdfast.open(step.parent, item="state").step == 3


def test_the_base_of_an_items_delta_may_be_bare(
    tmp_path: pathlib.Path,
) -> None:
    """A delta of a step without items stays readable."""
    path = delta(tmp_path)
    assert np.array_equal(holdfast.load(path)["w"], TREE["w"])
