"""CheckpointManager with `deltas`, which stores only what has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as stock
import pytest

import holdfast
from holdfast import orbax as ocp

EVERY = 4


def _state(step: int) -> dict[str, Any]:
    bits = np.random.default_rng(0).integers(0, 1 << 14, (64, 50), np.uint16)
    for number in range(1, step + 1):
        bits += np.random.default_rng(number).random(bits.shape) < 0.02
    return {
        "params": {"w": jnp.asarray(bits).view(jnp.bfloat16)},
        "frozen": jnp.arange(1000.0),
        "opt": (np.full(5, step), step),
    }


def _same(got: Any, step: int) -> None:
    def compare(a: Any, b: Any) -> None:
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()

    jax.tree.map(compare, got, _state(step))


def _manager(root: Path, **options: Any) -> Any:
    return ocp.CheckpointManager(
        root,
        options=ocp.CheckpointManagerOptions(
            deltas=holdfast.DeltaPolicy(EVERY), **options
        ),
    )


def _bases(path: Path) -> list[str]:
    return [Path(base).name for base in holdfast.open(path).bases]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("args", [ocp.args.StandardSave, ocp.args.PyTreeSave])
def test_steps_come_back(tmp_path: Path, is_async: bool, args: Any) -> None:
    with _manager(tmp_path, enable_async_checkpointing=is_async) as manager:
        for step in range(6):
            assert manager.save(step, args=args(_state(step)))
    assert [_bases(tmp_path / str(step)) for step in range(6)] == [
        [],
        ["0"],
        ["1", "0"],
        ["2", "1", "0"],
        [],
        ["4"],
    ]
    is_standard = args is ocp.args.StandardSave
    restore = (
        ocp.args.StandardRestore if is_standard else ocp.args.PyTreeRestore
    )
    with _manager(tmp_path) as manager:
        for step in manager.all_steps():
            _same(manager.restore(step, args=restore(_state(0))), step)
            tree = manager.restore(step, args=restore())
            assert isinstance(tree["frozen"], jax.Array)
            _same(tree | {"opt": tuple(tree["opt"])}, step)
        # A new manager continues the chain; one without `deltas` reads it.
        assert manager.save(6, args=args(_state(6)))
    assert _bases(tmp_path / "6") == ["5", "4"]
    with ocp.CheckpointManager(tmp_path) as manager:
        _same(manager.restore(6, args=restore(_state(0))), 6)
        assert manager.save(7, args=args(_state(7)))
    assert _bases(tmp_path / "7") == []


def test_items_beside_each_other(tmp_path: Path) -> None:
    with _manager(tmp_path, best_fn=lambda metrics: metrics["loss"]) as manager:
        for step in range(3):
            manager.save(
                step,
                metrics={"loss": step},
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(_state(step)),
                    other=ocp.args.PyTreeSave({"v": np.full(9, step)}),
                    json=ocp.args.JsonSave({"at": step}),
                ),
            )
        for step in range(3):
            restored = manager.restore(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(_state(0)),
                    other=ocp.args.PyTreeRestore(),
                    json=ocp.args.JsonRestore(),
                ),
            )
            _same(restored["state"], step)
            np.testing.assert_array_equal(restored["other"]["v"], step)
            assert restored["json"] == {"at": step}
    whole = holdfast.load(tmp_path / "2")
    assert sorted(whole) == ["json", "metrics", "other", "state"]
    assert whole["metrics"] == '{"loss": 2}'
    np.testing.assert_array_equal(whole["other"]["v"], 2)
    assert holdfast.verify(tmp_path / "2").ok


def test_metadata_are_those_of_a_whole_step(tmp_path: Path) -> None:
    with _manager(tmp_path / "deltas") as manager:
        for step in range(2):
            manager.save(step, args=ocp.args.StandardSave(_state(step)))
        manager.wait_until_finished()
        delta = manager.item_metadata(1)
        whole = manager.item_metadata(0)
    assert jax.tree.structure(delta) == jax.tree.structure(whole)
    for got, want in zip(
        jax.tree.leaves(delta), jax.tree.leaves(whole), strict=True
    ):
        assert type(got) is type(want)
        if hasattr(want, "shape"):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            assert got.sharding == want.sharding


def test_bases_of_steps_that_stay_stay(tmp_path: Path) -> None:
    with _manager(tmp_path, max_to_keep=1) as manager:
        for step in range(7):
            manager.save(step, args=ocp.args.StandardSave(_state(step)))
        assert list(manager.all_steps()) == [6]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["4", "5", "6"]
    with _manager(tmp_path) as manager:
        _same(manager.restore(6, args=ocp.args.StandardRestore(_state(0))), 6)


def test_a_base_that_is_gone_is_named(tmp_path: Path) -> None:
    with _manager(tmp_path) as manager:
        for step in range(3):
            manager.save(step, args=ocp.args.StandardSave(_state(step)))
    (tmp_path / "0").rename(tmp_path / "elsewhere")
    with _manager(tmp_path) as manager:
        with pytest.raises(ValueError, match="a delta whose base is needed"):
            manager.restore(2, args=ocp.args.StandardRestore(_state(0)))
        # The run continues with a full step.
        manager.save(3, args=ocp.args.StandardSave(_state(3)))
        _same(manager.restore(3, args=ocp.args.StandardRestore(_state(0))), 3)


def test_stock_orbax_restores_anchors_and_materialized_steps(
    tmp_path: Path,
) -> None:
    with _manager(tmp_path) as manager:
        for step in range(2):
            manager.save(step, args=ocp.args.StandardSave(_state(step)))
    for step in range(2):
        if step == 1:
            holdfast.materialize(tmp_path / "1")
        with stock.CheckpointManager(tmp_path) as manager:
            _same(
                manager.restore(
                    step, args=stock.args.StandardRestore(_state(0))
                ),
                step,
            )


def test_a_policy_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="want 1 or more"):
        holdfast.DeltaPolicy(anchor_every=0)
