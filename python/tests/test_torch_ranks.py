"""Saves and loads DTensors with real torch.distributed processes (gloo)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ranks import run_ranks

import holdfast

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")
if not torch.distributed.is_available():
    pytest.skip("torch without torch.distributed", allow_module_level=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saves with two and with four ranks, and loads all checkpoints with four;
    returns the folder."""
    folder = tmp_path_factory.mktemp("ranks")
    run_ranks("torch_ranks.py", 2, "save_all", folder)
    run_ranks("torch_ranks.py", 4, "save_and_load", folder)
    return folder


SHAPES = {"even": (8, 12), "uneven": (5, 7), "tall": (13, 2), "thin": (3,)}


def checkpoints(folder: Path) -> list[Path]:
    found = sorted((folder / "trees").iterdir())
    assert len(found) == 12
    return found


def test_fewer_ranks_read_what_more_have_saved(saved: Path) -> None:
    run_ranks("torch_ranks.py", 2, "load_all", saved)


def test_one_process_reads_them(saved: Path) -> None:
    for path in checkpoints(saved):
        got = holdfast.load(path)
        for name, shape in SHAPES.items():
            assert got["params"][name].shape == shape
            np.testing.assert_array_equal(
                got["params"][name].astype(int).ravel(),
                np.arange(np.prod(shape)),
            )
        assert got["step"] == 0 and got["note"] == "rank 0"
        report = holdfast.verify(path)
        assert report and not [n for n in report.notes if "checksum" in n]


def test_stock_orbax_reads_them(saved: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    for path in checkpoints(saved):
        got = ocp.PyTreeCheckpointer().restore(path)
        for name, shape in SHAPES.items():
            value = got["params"][name]
            assert isinstance(value, np.ndarray) and value.shape == shape
            np.testing.assert_array_equal(
                value.astype(int).ravel(), np.arange(np.prod(shape))
            )
        assert got["step"] == 0 and got["plain"].tolist() == [0, 0, 0]


def test_ranks_that_fail(tmp_path: Path) -> None:
    run_ranks("torch_ranks.py", 3, "faults", tmp_path)


def test_replicas_are_compared(tmp_path: Path) -> None:
    run_ranks("torch_ranks.py", 4, "replicas", tmp_path)


def test_a_killed_rank(tmp_path: Path) -> None:
    messages_sent = 3  # the rank has then written its part
    said = run_ranks(
        "torch_ranks.py", 3, "killed", tmp_path, messages_sent, killed=2
    )
    assert said[0].endswith("others went on\n") and "others" not in said[2]
    path = tmp_path / "killed"
    holdfast.save(path, {"w": np.ones(2)}, overwrite=True)
    assert holdfast.load(path)["w"].tolist() == [1, 1]
    assert [each.name for each in tmp_path.iterdir()] == ["killed"]
