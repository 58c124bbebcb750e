"""holdfast.save and load with real jax processes that share the arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from process_jobs import Job

import holdfast

pytest.importorskip("jax")

CALLS = "plain_jax_calls:"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jax") / "saved"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def two(saved: Path) -> Iterator[Job]:
    with Job(processes=2, devices=4) as job:
        job.run(CALLS + "save_all", folder=str(saved))
        yield job


@pytest.fixture(scope="module")
def four(saved: Path) -> Iterator[Job]:
    with Job(processes=4, devices=2) as job:
        job.run(CALLS + "save_all", folder=str(saved))
        yield job


def test_all_read_what_all_saved(two: Job, four: Job, saved: Path) -> None:
    two.run(CALLS + "load_all", folder=str(saved))
    four.run(CALLS + "load_all", folder=str(saved))
    two.run(CALLS + "load_alone", folder=str(saved))


def test_replicas_are_compared(four: Job, tmp_path: Path) -> None:
    four.run(CALLS + "replicas", path=str(tmp_path / "bad"))


def test_stock_orbax_reads_them(two: Job, four: Job, saved: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    found = sorted(saved.iterdir())
    assert len(found) == 12
    for path in found:
        args = {
            "params": {
                name: ocp.RestoreArgs(restore_type=np.ndarray)
                for name in ("even", "cube", "line")
            },
            "key": ocp.RestoreArgs(restore_type=np.ndarray),
            "plain": ocp.RestoreArgs(),
            "step": ocp.RestoreArgs(),
        }
        got = ocp.PyTreeCheckpointer().restore(path, restore_args=args)
        for value in got["params"].values():
            np.testing.assert_array_equal(value.ravel(), np.arange(value.size))
        assert got["step"] == 0
        assert holdfast.verify(path)


def test_processes_that_fail(two: Job, tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    two.run(CALLS + "absent", path=path)
    two.run(CALLS + "after_absent", path=path)
    two.run(CALLS + "odd_tree", path=path)
    two.run(CALLS + "save_all", folder=str(tmp_path / "after"))
