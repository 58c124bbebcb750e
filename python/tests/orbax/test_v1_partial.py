"""Partial saves, by holdfast only and together with Orbax."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast.orbax import v1 as ours

FIRST = {"a": np.arange(500.0), "n": {"x": np.ones(3)}, "s": "text"}
SECOND = {"b": np.arange(3), "n": {"y": 4}, "t": "other", "e": {}}
THIRD = {"c": [np.arange(2), 7]}
WHOLE = {
    "a": np.arange(500.0),
    "n": {"x": np.ones(3), "y": 4},
    "s": "text",
    "b": np.arange(3),
    "t": "other",
    "e": {},
    "c": [np.arange(2), 7],
}


def check(tree: Any) -> None:
    np.testing.assert_equal(tree, WHOLE)


@pytest.mark.parametrize("use_ocdbt", [True, False])
def test_three_saves(tmp_path: Path, use_ocdbt: bool) -> None:
    path = tmp_path / "c"
    context = ours.Context()
    context.array.saving.use_ocdbt = use_ocdbt
    with context:
        ours.partial.save(path, FIRST, custom_metadata={"q": 1, "p": 0})
        response = ours.partial.save_async(path, SECOND)
        ours.partial.save(path, THIRD, custom_metadata={"q": 2})
        assert response.result() is None
        assert os.listdir(tmp_path) == ["c.partial_save"]
        ours.partial.finalize(path)
    assert os.listdir(tmp_path) == ["c"]
    check(ours.load(path))
    assert ours.metadata(path).custom_metadata == {"q": 2, "p": 0}
    assert holdfast.verify(path).ok
    handlers = json.loads((path / "_CHECKPOINT_METADATA").read_text())
    assert list(handlers["item_handlers"]) == ["state"]
    handler = handlers["item_handlers"]["state"]
    assert handler.endswith("handler.StatefulCheckpointableHandler")


def test_what_was_saved_before_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    ours.partial.save(path, {"b": np.arange(3), "n": {"x": 1}})
    before = os.listdir(tmp_path / "c.partial_save")
    for tree, key in (
        ({"b": 1}, "('b',)"),
        ({"b": {"z": 1}}, "('b', 'z')"),
        ({"new": 1, "n": 1}, "('n',)"),
        ({"n": {"x": 2}}, "('n', 'x')"),
    ):
        with pytest.raises(Exception, match="REPLACEMENT") as info:
            ours.partial.save(path, tree)
        assert type(info.value).__name__ == "PartialSaveReplacementError"
        assert f'Key "{key}" was found' in str(info.value)
    for tree in ({}, {"w": object()}):
        with pytest.raises(ValueError):
            ours.partial.save(path, tree)
    assert os.listdir(tmp_path / "c.partial_save") == before
    assert os.listdir(tmp_path) == ["c.partial_save"]
    ours.partial.finalize(tmp_path / "c.partial_save")
    np.testing.assert_equal(ours.load(path), {"b": np.arange(3), "n": {"x": 1}})


def test_what_exists_and_what_does_not(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with pytest.raises(FileNotFoundError, match=r"c\.partial_save"):
        ours.partial.finalize(path)
    ours.save(path, {"a": 1})
    with pytest.raises(FileExistsError, match="already exists"):
        ours.partial.save(path, {"b": 1})
    with pytest.raises(FileExistsError, match="already exists"):
        ours.partial.finalize(path)


def test_saves_that_ran_at_once_with_one_leaf(tmp_path: Path) -> None:
    """Two programs save the same leaf at the same time, so that neither sees
    the other's part."""
    path = tmp_path / "c"
    ours.partial.save(path, {"a": np.arange(3)})
    os.rename(tmp_path / "c.partial_save", tmp_path / "aside")
    ours.partial.save(path, {"a": np.arange(4)})
    session = tmp_path / "c.partial_save"
    for part in (tmp_path / "aside").iterdir():
        part.rename(session / part.name)
    with pytest.raises(Exception, match="REPLACEMENT"):
        ours.partial.finalize(path)
    assert not path.exists() and len(os.listdir(session)) == 2


def test_a_snapshot(tmp_path: Path) -> None:
    array = np.arange(1 << 16)
    response = ours.partial.save_async(tmp_path / "c", {"a": array})
    array[:] = 0
    response.result()
    ours.partial.finalize(tmp_path / "c")
    np.testing.assert_array_equal(
        ours.load(tmp_path / "c")["a"], np.arange(1 << 16)
    )


def test_a_failing_finalize_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c"
    ours.partial.save(path, FIRST)
    ours.partial.save(path, SECOND)
    ours.partial.save(path, THIRD)
    parts = sorted((tmp_path / "c.partial_save").iterdir())
    metadata = parts[-1] / "state" / "_METADATA"
    text = metadata.read_text()
    metadata.write_text("{")
    with pytest.raises(ValueError, match="Failed to read metadata"):
        ours.partial.finalize(path)
    assert os.listdir(tmp_path) == ["c.partial_save"]
    metadata.write_text(text)
    ours.partial.finalize(path)
    check(ours.load(path))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "who", ["hho", "oho", "ooh", "hoh", "hhh"], ids=lambda who: who
)
def test_with_orbax(tmp_path: Path, who: str) -> None:
    """`who` names the package ("h" for holdfast, "o" for Orbax) of the two
    saves and of the finalization."""
    orbax = pytest.importorskip("orbax.checkpoint")
    first, second, last = (ours if w == "h" else orbax.v1 for w in who)
    path = tmp_path / "c"
    first.partial.save(path, FIRST, custom_metadata={"q": 1})
    second.partial.save(path, {"b": np.arange(3), "n": {"y": 4}})
    last.partial.finalize(path)
    want = {**FIRST, "b": np.arange(3), "n": {"x": np.ones(3), "y": 4}}
    for ocp in (ours, orbax.v1):
        np.testing.assert_equal(ocp.load(path), want)
        assert ocp.metadata(path).custom_metadata == {"q": 1}
    assert os.listdir(tmp_path) == ["c"]


def test_the_next_save_waits_for_the_one_before(tmp_path: Path) -> None:
    gate = threading.Event()
    context = ours.Context()
    context.asynchronous.post_finalization_callback = lambda: (
        gate.wait() and None
    )
    with context:
        first = ours.partial.save_async(tmp_path / "c", {"a": 1})
    opener = threading.Timer(0.05, gate.set)
    opener.start()
    with pytest.raises(Exception, match="REPLACEMENT"):
        ours.partial.save(tmp_path / "c", {"a": 2})
    assert first.result() is None
    opener.join()
