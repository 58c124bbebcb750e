"""CheckpointManager on real jax processes on this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ml_dtypes")
pytest.importorskip("jax")

sys.path.insert(0, str(Path(__file__).parents[1]))

from process_jobs import Job  # noqa: E402

import holdfast  # noqa: E402

F = "manager_functions:"


@pytest.fixture(scope="module")
def two() -> Iterator[Job]:
    with Job(2, modules=Path(__file__).parent) as job:
        yield job


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"enable_async_checkpointing": False},
        {"mode": "COMMIT_FILE"},
        {"cleanup_tmp_directories": True, "step_prefix": "s"},
    ],
)
def test_train(two: Job, ckpt: Path, options: dict[str, Any]) -> None:
    results = two.run(
        F + "train", path=str(ckpt), count=4, max_to_keep=2, **options
    )
    assert results == [[[True] * 4, [2, 3], []]] * 2
    prefix = "s_" if "step_prefix" in options else ""
    names = {f"{prefix}2", f"{prefix}3", "metadata"}
    assert set(os.listdir(ckpt)) == names
    step = ckpt / f"{prefix}3"
    assert {p.name for p in step.iterdir() if p.is_dir()} == {
        "data",
        "key",
        "tree",
    }
    restored = holdfast.load(step / "tree")  # in a single process
    np.testing.assert_array_equal(restored["numpy"], np.arange(3) + 3)
    np.testing.assert_array_equal(restored["w"].flat[:3], [3, 4, 5])


def test_delete(two: Job, ckpt: Path) -> None:
    two.run(F + "train", path=str(ckpt), count=3)
    assert (
        two.run(F + "delete", path=str(ckpt), step=1) == [[[0, 2], False]] * 2
    )
    assert sorted(os.listdir(ckpt)) == ["0", "2", "metadata"]


def test_a_process_that_fails(two: Job, ckpt: Path) -> None:
    """All processes get the error, nothing is left, and the run goes on."""
    results = two.run(F + "fail", path=str(ckpt))
    for good, failure, again, steps in results:
        assert good and again and steps == [1, 3]
        assert "no room here" in failure
    assert sorted(os.listdir(ckpt)) == ["1", "3"]


def test_own_directories(two: Job, ckpt: Path) -> None:
    results = two.run(F + "own_directories", path=str(ckpt))
    assert results == [[[0, 1, 2], ["1"]], [[1, 2, 3], ["1"]]]


def test_the_primary_decides(two: Job, ckpt: Path) -> None:
    results = two.run(F + "decide", path=str(ckpt))
    assert [json.loads(saved) for saved in results] == [[True] * 3] * 2
