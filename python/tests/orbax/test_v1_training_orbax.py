"""Compares holdfast's training.Checkpointer with Orbax's: programs see the same
with both, and each continues the runs of the other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import training_cases

from holdfast.orbax import v1 as ours

orbax = pytest.importorskip("orbax.checkpoint")


def outcome(ocp: Any, name: str, root: Path) -> list[Any]:
    root.mkdir()
    notes = training_cases.Notes(root)
    training_cases.CASES[name](ocp, notes)
    return notes.lines


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", training_cases.CASES)
def test_both_see_the_same(name: str, tmp_path: Path) -> None:
    want = outcome(orbax.v1, name, tmp_path / "orbax")
    got = outcome(ours, name, tmp_path / "holdfast")
    for i, (ours_saw, orbax_saw) in enumerate(zip(got, want, strict=False)):
        assert ours_saw == orbax_saw, f"{name}, note {i}"
    assert len(got) == len(want)


def state_of(step: int) -> dict[str, Any]:
    return {
        "w": np.arange(1000.0) * step,
        "opt": [np.full(7, step, np.int32), step],
    }


def check_state(state: Any, step: int) -> None:
    np.testing.assert_array_equal(state["w"], np.arange(1000.0) * step)
    np.testing.assert_array_equal(state["opt"][0], np.full(7, step))
    assert state["opt"][1] == step


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", ["orbax", "holdfast"])
def test_a_run_goes_on_with_the_other(first: str, tmp_path: Path) -> None:
    """The packages take turns, every five steps, in a run of 20 steps with
    pruning."""
    packages = [orbax.v1, ours] if first == "orbax" else [ours, orbax.v1]
    root = tmp_path / "run"
    for begin in range(0, 20, 5):
        ocp = packages[begin // 5 % 2]
        policies = ocp.training.preservation_policies
        with ocp.training.Checkpointer(
            root,
            preservation_policy=policies.AnyPreservationPolicy(
                [policies.LatestN(3), policies.EveryNSteps(6)]
            ),
            custom_metadata={"begun by": first},
        ) as run:
            if begin:
                assert run.latest.step == begin - 1
                assert run.latest.metrics == {"loss": 1 / begin}
                for known in run.checkpoints:
                    check_state(run.load(known), known.step)
            for step in range(begin, begin + 5):
                response = run.save_async(
                    step,
                    state_of(step),
                    metrics={"loss": 1 / (step + 1)},
                    force=True,
                )
                assert response.result()
            run.wait()
            steps = [known.step for known in run.checkpoints]
            last = begin + 4
            kept = {s for s in range(last + 1) if s % 6 == 0 or s > last - 3}
            assert set(steps) == kept
    names = {n for n in os.listdir(root) if not n.startswith(".")}
    assert names == {"metadata", "0", "6", "12", "17", "18", "19"}
    for ocp in packages:
        with ocp.training.Checkpointer(root) as run:
            assert run.root_metadata().custom_metadata == {"begun by": first}
            check_state(run.load(12), 12)
