"""Which checkpoints holdfast.orbax.v1 finds at a path, and its errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import holdfast.orbax as ocp
from holdfast.orbax import v1
from holdfast.orbax.v1.errors import InvalidLayoutError

TREE = {"a": np.arange(3), "b": 5}


@pytest.fixture
def new(ckpt: Path) -> Path:
    v1.save(ckpt, TREE)
    return ckpt


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    path = tmp_path / "flat"
    ocp.PyTreeCheckpointer().save(path, TREE)
    return path


def causes(error: BaseException) -> list[str]:
    """Returns the classes and messages of an error's causes."""
    found = []
    cause = error.__cause__
    while cause is not None:
        found.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__
    return found


def test_flat_checkpoints_of_the_older_interface(flat: Path) -> None:
    assert v1.load(flat)["b"] == 5
    assert v1.load(flat, checkpointable_name=None)["b"] == 5
    assert v1.metadata(flat).metadata["b"] == 0
    assert v1.is_orbax_checkpoint(flat)


def test_the_older_interface_reads_the_item(new: Path) -> None:
    assert ocp.PyTreeCheckpointer().restore(new / "state")["b"] == 5


def test_auto_prefers_state_then_the_first_name(ckpt: Path) -> None:
    v1.save_checkpointables(
        ckpt, {"b": {"x": 2}, "state": {"x": 3}, "a": {"x": 1}}
    )
    assert v1.load(ckpt) == {"x": 3}
    v1.save_checkpointables(
        ckpt, {"pytree": {"x": 2}, "a": {"x": 1}}, overwrite=True
    )
    assert v1.load(ckpt) == {"x": 1}
    v1.save_checkpointables(ckpt, {"pytree": {"x": 2}}, overwrite=True)
    assert v1.load(ckpt) == {"x": 2}


def test_without_the_indicator_file(new: Path) -> None:
    (new / "orbax.checkpoint").unlink()
    assert v1.load(new)["b"] == 5


@pytest.mark.parametrize("kind", ["missing", "file", "temporary"])
def test_no_checkpoint(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"x.orbax-checkpoint-tmp{kind}"
    path = path if kind == "temporary" else tmp_path / kind
    if kind == "file":
        path.write_text("")
    elif kind == "temporary":
        path.mkdir()
    reason = {
        "missing": f"FileNotFoundError: Checkpoint path {path} does not exist.",
        "file": f"NotADirectoryError: Checkpoint path {path} is not a "
        "directory.",
        "temporary": f"ValueError: Found incomplete checkpoint at {path}.",
    }[kind]
    for call in (v1.load, v1.metadata, v1.load_checkpointables):
        with pytest.raises(InvalidLayoutError) as info:
            call(path)
        assert causes(info.value)[1] == reason
    assert not v1.is_orbax_checkpoint(path)


def test_auto_layout(new: Path, tmp_path: Path) -> None:
    context = v1.Context(checkpoint_layout="auto")
    with context:
        assert v1.load(new)["b"] == 5
        with pytest.raises(InvalidLayoutError, match="Could not auto-detect"):
            v1.load(tmp_path)


def test_marker_mode_wants_the_marker(new: Path) -> None:
    context = v1.Context()
    context.atomicity.mode = v1.options.AtomicityMode.COMMIT_FILE
    with context:
        assert v1.load(new)["b"] == 5
        (new / "commit_success.txt").unlink()
        with pytest.raises(InvalidLayoutError) as info:
            v1.load(new)
        assert causes(info.value)[-1] == (
            f"ValueError: Found incomplete checkpoint at {new}."
        )
        other = new.parent / "other"
        v1.save(other, TREE)
        assert (other / "commit_success.txt").exists()
        assert v1.load(other)["b"] == 5
        with pytest.raises(ValueError, match="already exists"):
            v1.save(other, TREE)
        v1.save(other, {"b": 6}, overwrite=True)
        assert v1.load(other) == {"b": 6}
    assert sorted(p.name for p in new.parent.iterdir()) == ["ckpt", "other"]


@pytest.mark.parametrize("name", ["", "metrics"])
def test_refused_names(new: Path, name: str) -> None:
    for call in (v1.load, v1.metadata):
        with pytest.raises(ValueError) as info:
            call(new, checkpointable_name=name)
        assert type(info.value) is ValueError
    with pytest.raises(ValueError):
        v1.load_checkpointables(new, {name: None})
