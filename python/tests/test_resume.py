"""Records of what determines how a run continues, and their differences."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holdfast

HAS_TORCH = importlib.util.find_spec("torch") is not None


class Batches:
    """A data iterator whose position can be saved."""

    def __init__(self, at: int = 0) -> None:
        self.at = at

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "files": ["a", "b"]}


def _torch_generator(seed: int) -> dict[str, Any]:
    """Returns torch's part of `rng`, or {} without torch."""
    if not HAS_TORCH:
        return {}
    import torch

    return {"torch": torch.Generator().manual_seed(seed)}


def _run(seed: int = 0, at: int = 5) -> dict[str, Any]:
    return {
        "step": 7,
        "rng": {
            "jax": jax.random.key(seed),
            "numpy": np.random.default_rng(seed),
            **_torch_generator(seed),
            "python": random.Random(seed),
        },
        "data": Batches(at),
        "state": {"w": jnp.arange(6, dtype=jnp.bfloat16), "rate": 0.5},
        "flags": {"dropout": 0.1},
    }


def test_a_run_that_is_the_same_is_the_same(tmp_path: Path) -> None:
    record = holdfast.resume_record(**_run())
    holdfast.save(tmp_path / "7", {"w": np.zeros(3)},
                  custom_metadata={"resume": record})
    for kept in (record, tmp_path / "7", str(tmp_path / "7")):
        report = holdfast.resume_check(kept, **_run())
        assert report, report
        assert report.first is None
        assert report.compared_count > 15


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"step": 8}, "step"),
        ({"rng": {"jax": jax.random.key(1)}}, "rng.jax"),
        ({"rng": {"numpy": np.random.default_rng(1)}}, "rng.numpy.state.inc"),
        ({"rng": {"python": random.Random(1)}}, "rng.python.state"),
        pytest.param(
            {"rng": _torch_generator(1)},
            "rng.torch.state",
            marks=pytest.mark.skipif(not HAS_TORCH, reason="needs torch"),
        ),
        ({"data": Batches(6)}, "data.state.at"),
        ({"state": {"w": jnp.ones(6, jnp.bfloat16)}}, "state.w"),
        ({"state": {"w": jnp.arange(6, dtype=jnp.float32)}}, "state.w"),
        ({"flags": {"dropout": 0.2}}, "settings.dropout"),
    ],
)
def test_what_differs_is_named_first(change: dict[str, Any], what: str) -> None:
    record = holdfast.resume_record(**_run())
    now = _run()
    for name, value in change.items():
        if isinstance(value, dict):
            now[name] = {**now[name], **value}
        else:
            now[name] = value
    report = holdfast.resume_check(record, **now)
    assert not report
    assert report.first is not None
    assert report.first.what == what, report
    assert what in str(report)


def test_versions_and_flags_come_before_what_they_explain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = holdfast.resume_record(**_run())
    record["libraries"]["jax"] = "0.0.1"
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    report = holdfast.resume_check(record, **_run(seed=1))
    named = [difference.what for difference in report.differences]
    assert named[:2] == ["libraries.jax", "flags.environment.XLA_FLAGS"]
    assert report.differences[0].recorded == "0.0.1"
    assert report.differences[0].found == jax.__version__
    assert {name.split(".")[0] for name in named[2:]} == {"rng"}


def test_what_was_not_recorded_is_not_compared() -> None:
    record = holdfast.resume_record(step=7)
    assert holdfast.resume_check(record, **_run())
    record = holdfast.resume_record(**_run())
    assert holdfast.resume_check(record, step=7)


def test_fingerprints_are_the_digests_of_what_is_stored(tmp_path: Path) -> None:
    state = {"w": np.arange(12, dtype=np.int16).reshape(3, 4).T}
    holdfast.save(tmp_path / "1", state)
    record = holdfast.resume_record(step=1, state=state)
    stored = holdfast.digest(tmp_path / "1", "w")
    assert record["state"]["w"] == f"int16[4,3] {stored}"


def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    with pytest.raises(holdfast.errors.InvalidArgumentError, match="data"):
        holdfast.resume_record(step=1, data={"data": object()})
    holdfast.save(tmp_path / "1", {"w": np.zeros(3)})
    with pytest.raises(holdfast.errors.NotFoundError, match="resume_record"):
        holdfast.resume_check(tmp_path / "1", step=1)
