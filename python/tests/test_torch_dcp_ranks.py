"""Real ranks of torch.distributed.checkpoint (gloo) with holdfast's storage."""

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

PROGRAM = "torch_dcp_ranks.py"
SHAPES = {"even": (8, 12), "uneven": (5, 7), "tall": (13, 2), "thin": (3,)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saves with two and with four ranks, and loads all checkpoints with four;
    returns the folder."""
    folder = tmp_path_factory.mktemp("dcp")
    run_ranks(PROGRAM, 2, "save_all", folder)
    run_ranks(PROGRAM, 4, "save_and_load", folder)
    return folder


def checkpoints(folder: Path) -> list[Path]:
    found = sorted((folder / "trees").iterdir())
    assert len(found) == 14
    return found


def check(tree: dict[str, object], rank_count: int) -> None:
    params = tree["params"]
    assert isinstance(params, dict)
    for name, shape in SHAPES.items():
        assert params[name].shape == shape
        np.testing.assert_array_equal(
            params[name].astype(float).ravel(), np.arange(np.prod(shape))
        )
    assert tree["step"] == 7 and tree["note"] == "same on all"
    assert tree["groups"] == [{"lr": 0.5, "betas": [0.9, 0.99]}]
    for rank in range(rank_count):
        assert list(tree[f"of_rank_{rank}"]) == [rank, rank]  # type: ignore


def test_fewer_ranks_load_what_more_have_saved(saved: Path) -> None:
    run_ranks(PROGRAM, 2, "load_all", saved)


def test_holdfast_reads_them(saved: Path) -> None:
    for path in checkpoints(saved):
        check(holdfast.load(path), int(path.name[0]))
        report = holdfast.verify(path)
        assert report and not [n for n in report.notes if "checksum" in n]


def test_stock_orbax_reads_them(saved: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    for path in checkpoints(saved):
        check(ocp.PyTreeCheckpointer().restore(path), int(path.name[0]))


def test_models_and_optimizers(tmp_path: Path) -> None:
    run_ranks(PROGRAM, 4, "models", tmp_path)


def test_failures_background_saves_and_cached_plans(tmp_path: Path) -> None:
    run_ranks(PROGRAM, 2, "others", tmp_path)


def test_a_killed_rank(tmp_path: Path) -> None:
    said = run_ranks(PROGRAM, 3, "killed", tmp_path, killed=2)
    assert said[0].endswith("the older one is there\n")
    path = tmp_path / "killed"
    assert holdfast.load(path)["step"] == 7
    holdfast.save(path, {"w": np.ones(2)}, overwrite=True)
    assert [each.name for each in tmp_path.iterdir()] == ["killed"]
