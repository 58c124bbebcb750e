"""Custom metadata is only the user's, whatever holdfast stores beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as stock
import pytest

import holdfast
from holdfast import errors
from holdfast import orbax as ocp
from holdfast.orbax import v1


def _state(step: int) -> dict[str, Any]:
    w = np.arange(3000, dtype=np.float32)
    return {"w": w + (np.arange(3000) % 97 == step), "step": step}


def _check(path: Path, step: int) -> None:
    for place in (path, path / "default"):
        got = holdfast.load(place)
        np.testing.assert_array_equal(got["w"], _state(step)["w"])
        assert got["step"] == step
        with holdfast.open(place) as checkpoint:
            assert sorted(leaf.name for leaf in checkpoint.leaves) == [
                "step",
                "w",
            ]


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """Returns a step that is a delta, with a user's metadata."""
    options = ocp.CheckpointManagerOptions(
        deltas=holdfast.DeltaPolicy(8), enable_async_checkpointing=False
    )
    with ocp.CheckpointManager(tmp_path / "run", options=options) as manager:
        for step in range(2):
            args = ocp.args.PyTreeSave(
                _state(step), custom_metadata={"mine": step}
            )
            manager.save(step, args=args)
    assert holdfast.open(tmp_path / "run/1").bases
    return tmp_path / "run/1"


def _metadata_of(library: Any, item: Path) -> Any:
    handler = library.Checkpointer(library.PyTreeCheckpointHandler())
    return handler.metadata(item).item_metadata.custom_metadata


def test_what_holdfast_keeps_is_not_shown(delta: Path) -> None:
    item = delta / "default"
    assert _metadata_of(ocp, item) == {"mine": 1}
    assert _metadata_of(stock, item)["mine"] == 1
    assert "holdfast.delta" in _metadata_of(stock, item)
    with ocp.CheckpointManager(
        delta.parent, item_handlers=ocp.PyTreeCheckpointHandler()
    ) as manager:
        shown = manager.item_metadata(1)
        assert shown.custom_metadata == {"mine": 1}
    assert holdfast.open(item).leaves


@pytest.mark.parametrize("nested", [False, True])
def test_metadata_of_a_delta_saved_along(
    delta: Path, tmp_path: Path, nested: bool
) -> None:
    """A program may read the metadata with Orbax and save them again."""
    stale = dict(_metadata_of(stock, delta / "default"))
    carried: Any = {"before": stale} if nested else stale
    with ocp.CheckpointManager(tmp_path / "ours") as manager:
        args = ocp.args.PyTreeSave(_state(2), custom_metadata=carried)
        manager.save(2, args=args)
    _check(tmp_path / "ours/2", 2)
    text = (tmp_path / "ours/2/default/_METADATA").read_text()
    kept = json.loads(text)["custom_metadata"]
    assert kept == (carried if nested else {"mine": 1})

    with stock.CheckpointManager(tmp_path / "theirs") as theirs:
        theirs.save(
            2, args=stock.args.PyTreeSave(_state(2), custom_metadata=carried)
        )
    _check(tmp_path / "theirs/2", 2)
    shown = _metadata_of(ocp, tmp_path / "theirs/2/default")
    assert shown == (carried if nested else {"mine": 1})


def test_a_delta_with_the_metadata_of_another(delta: Path) -> None:
    stale = dict(_metadata_of(stock, delta / "default"))
    options = ocp.CheckpointManagerOptions(
        deltas=holdfast.DeltaPolicy(8), enable_async_checkpointing=False
    )
    with ocp.CheckpointManager(delta.parent, options=options) as manager:
        args = ocp.args.PyTreeSave(_state(2), custom_metadata=stale)
        manager.save(2, args=args)
    assert len(holdfast.open(delta.parent / "2").bases) == 2
    _check(delta.parent / "2", 2)
    assert _metadata_of(ocp, delta.parent / "2/default") == {"mine": 1}


def test_a_delta_made_whole(delta: Path, tmp_path: Path) -> None:
    holdfast.convert(delta, tmp_path / "whole")
    stale = _metadata_of(stock, tmp_path / "whole" / "default")
    assert "holdfast.delta_result" in stale
    assert _metadata_of(ocp, tmp_path / "whole" / "default") == {"mine": 1}
    v1.save(tmp_path / "v1", _state(3), custom_metadata=dict(stale))
    assert v1.metadata(tmp_path / "v1").custom_metadata == {"mine": 1}


def test_a_tree_of_another_item(tmp_path: Path) -> None:
    """holdfast's record of the tree is ignored if it does not fit the
    arrays."""
    leaf = {"key": ["gone"], "kind": "bytes", "stored": "gone"}
    tree = {"version": 1, "partial": True, "leaves": [leaf]}
    with stock.PyTreeCheckpointer() as theirs:
        theirs.save(
            tmp_path / "theirs",
            args=stock.args.PyTreeSave(
                _state(1), custom_metadata={"holdfast.tree": tree}
            ),
        )
    np.testing.assert_array_equal(
        holdfast.load(tmp_path / "theirs")["w"], _state(1)["w"]
    )
    assert len(holdfast.open(tmp_path / "theirs").leaves) == 2


def test_numbers_of_array_libraries(tmp_path: Path) -> None:
    jnp = pytest.importorskip("jax.numpy")
    options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["loss"])
    metrics = {
        "loss": np.float32(0.5),
        "jax": jnp.float32(2),
        "low": jnp.bfloat16(3),
        "n": np.int64(4),
        "big": 2**100,
    }
    read = {"loss": 0.5, "jax": 2.0, "low": 3.0, "n": 4, "big": 2**100}
    with ocp.CheckpointManager(tmp_path / "v0", options=options) as manager:
        args = ocp.args.StandardSave({"w": np.ones(2)})
        manager.save(0, args=args, metrics=metrics)
        manager.wait_until_finished()
        assert manager.metrics(0) == read
        manager.reload()
        assert manager.best_step() == 0
    checkpointer = v1.training.Checkpointer(tmp_path / "v1")
    checkpointer.save(0, {"w": np.ones(2)}, metrics=metrics)
    checkpointer.close()
    assert v1.training.Checkpointer(tmp_path / "v1").latest.metrics == read


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"a": [1, np.ones(3)]}, r"metrics\['a'\]\[1\]: .*ndarray.*tolist"),
        ({"a": {np.int64(1): 2}}, r"metrics\['a'\]: the key .*str\(key\)"),
        ({"a": {1: 2, "1": 3}}, r"metrics\['a'\]: the keys 1 and '1'"),
    ],
)
def test_metrics_that_are_no_json(
    tmp_path: Path, metrics: Any, words: str
) -> None:
    options = ocp.CheckpointManagerOptions(best_fn=lambda m: 1)
    with ocp.CheckpointManager(tmp_path, options=options) as manager:
        with pytest.raises(TypeError, match=words):
            args = ocp.args.StandardSave({"w": np.ones(2)})
            manager.save(0, args=args, metrics=metrics)
            manager.wait_until_finished()


def test_integers_beyond_64_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(42).bit_generator.state
    seeds = {"seed": -(2**200), "rng": rng}
    holdfast.save(tmp_path / "a", {"w": np.ones(2)}, custom_metadata=seeds)
    assert holdfast.open(tmp_path / "a").custom_metadata == seeds
    with ocp.PyTreeCheckpointer() as checkpointer:
        args = ocp.args.PyTreeSave({"w": np.ones(2)}, custom_metadata=seeds)
        checkpointer.save(tmp_path / "b", args=args)
    assert _metadata_of(ocp, tmp_path / "b") == seeds
    assert _metadata_of(stock, tmp_path / "b") == seeds
    for save in (
        lambda tree: holdfast.save(tmp_path / "c", tree),
        lambda tree: ocp.PyTreeCheckpointer().save(tmp_path / "c", tree),
        lambda tree: ocp.StandardCheckpointer().save(tmp_path / "c", tree),
        lambda tree: v1.save(tmp_path / "c", tree),
    ):
        with pytest.raises(ValueError, match="more than 64 bits; save it as"):
            save({"w": np.ones(2), "seed": seeds["seed"]})
        assert not (tmp_path / "c").exists()


def test_keys_of_several_types(tmp_path: Path) -> None:
    tree = {"m": {1: np.ones(2), "a": np.ones(2)}}
    words = "1 .*'a' .*do not compare: give all keys"
    with pytest.raises(errors.InvalidArgumentError, match=words):
        holdfast.save(tmp_path / "c", tree)


@pytest.mark.parametrize("path", ["~/x", "file:///tmp/x"])
def test_paths_that_lead_elsewhere(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written to or read from a directory called "~"."""
    monkeypatch.chdir(tmp_path)
    tree = {"w": np.ones(2)}
    words = "expands|absolute|path of this machine"
    for call in (
        lambda: holdfast.save(path, tree),
        lambda: holdfast.load(path),
        lambda: holdfast.open(path),
        lambda: holdfast.steps(path),
        lambda: holdfast.convert(path, tmp_path / "y"),
        lambda: ocp.StandardCheckpointer().save(path, tree),
        lambda: ocp.StandardCheckpointer().restore(path),
        lambda: ocp.CheckpointManager(path),
        lambda: v1.save(path, tree),
        lambda: v1.load(path),
        lambda: v1.training.Checkpointer(path),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert list(tmp_path.iterdir()) == []
