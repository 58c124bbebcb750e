"""Managers whose metrics are not numbers, and managers at a wrong path."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import orbax as ocp
from holdfast.orbax import v1

NAN = float("nan")


def _save(manager: Any, step: int, loss: Any) -> None:
    manager.save(
        step,
        args=ocp.args.StandardSave({"w": np.full(2, step)}),
        metrics={"loss": loss},
    )
    manager.wait_until_finished()


@pytest.mark.parametrize(
    ("losses", "keep", "mode", "kept", "best"),
    [
        ([1.0, NAN], 1, "min", [1], 1),
        ([3.0, 1.0, NAN, 2.0, 2.5], 2, "min", [2, 4], 2),
        ([NAN, 3.0, 1.0, 2.0], 2, "min", [3, 4], 3),
        ([0.9, NAN, 0.5, 0.6], 1, "max", [1], 1),
        ([0.9, NAN, 0.5, 0.6], 2, "max", [1, 4], 1),
        ([np.float32(2), np.float32(NAN)], 1, "min", [1], 1),
        ([NAN, NAN], 1, "min", [2], None),
        ([NAN, NAN], 1, "max", [2], None),
    ],
)
def test_nan_is_the_worst(
    tmp_path: Path,
    losses: list[float],
    keep: int,
    mode: str,
    kept: list[int],
    best: int | None,
) -> None:
    options = ocp.CheckpointManagerOptions(
        max_to_keep=keep, best_fn=lambda m: m["loss"], best_mode=mode
    )
    with ocp.CheckpointManager(tmp_path, options=options) as manager:
        for step, loss in enumerate(losses, 1):
            _save(manager, step, loss)
        assert manager.all_steps() == kept
        assert manager.best_step() == best
    with ocp.CheckpointManager(tmp_path, options=options) as manager:
        assert manager.best_step() == best


@pytest.mark.parametrize("reverse", [False, True])
def test_nan_in_a_policy(
    tmp_path: Path, reverse: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def policy(of: Any) -> Any:
        return of.BestN(
            get_metric_fn=lambda m: (m["loss"], 0), reverse=reverse, n=1
        )

    options = ocp.CheckpointManagerOptions(
        preservation_policy=policy(ocp.checkpoint_managers),
        best_fn=lambda m: m["loss"],
    )
    with (
        caplog.at_level(logging.WARNING, "holdfast"),
        ocp.CheckpointManager(tmp_path / "v0", options=options) as manager,
    ):
        for step, loss in enumerate([NAN, 2.0, NAN]):
            _save(manager, step, loss)
        assert manager.all_steps() == [1]
    assert "step 2 is NaN: it is the worst" in caplog.text
    policies = v1.training.save_decision_policies
    with v1.training.Checkpointer(
        tmp_path / "v1",
        save_decision_policy=policies.FixedIntervalPolicy(1),
        preservation_policy=policy(v1.training.preservation_policies),
    ) as checkpointer:
        for step, loss in enumerate([NAN, 2.0, NAN]):
            state = {"w": np.full(2, step)}
            checkpointer.save(step, state, metrics={"loss": loss})
        assert [c.step for c in checkpointer.checkpoints] == [1]


def test_the_best_step_of_an_address(tmp_path: Path) -> None:
    options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["loss"])
    with ocp.CheckpointManager(tmp_path, options=options) as manager:
        for step, loss in enumerate([3.0, NAN, 2.0, NAN]):
            _save(manager, step, loss)
    for address, step in (("best:loss", 2), ("best:max:loss", 0)):
        with holdfast.open(f"{tmp_path}@{address}") as checkpoint:
            assert checkpoint.path == str(tmp_path / str(step))


@pytest.mark.parametrize("place", ["5", "5/default"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_manager_at_a_step(
    tmp_path: Path, place: str, read_only: bool
) -> None:
    """A manager refuses the path of a step: it would begin a new run inside a
    committed checkpoint."""
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        args = ocp.args.StandardSave({"w": np.ones(2)})
        manager.save(5, args=args)
    path = tmp_path / "run" / place
    before = sorted(path.iterdir())
    options = ocp.CheckpointManagerOptions(read_only=read_only)
    with pytest.raises(ValueError, match="checkpoint itself.*directory above"):
        ocp.CheckpointManager(path, options=options, metadata={"a": 1})
    with pytest.raises(ValueError, match="checkpoint itself"):
        v1.training.Checkpointer(path)
    assert sorted(path.iterdir()) == before
