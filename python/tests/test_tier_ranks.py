"""Real processes save steps in their own directories, one of which is lost."""

from __future__ import annotations

import shutil
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
def restored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saves, kills a rank, removes its directory, and restores; returns the
    folder."""
    folder = tmp_path_factory.mktemp("tiers")
    said = run_ranks("tier_ranks.py", 4, "save", folder, killed=2)
    assert [text.count("others went on") for text in said] == [1, 1, 0, 1]
    shutil.rmtree(folder / "host2")
    run_ranks("tier_ranks.py", 4, "restore", folder)
    return folder


def test_a_lost_rank_is_made_again(restored: Path) -> None:
    names = [path.name for path in (restored / "host2" / "run").iterdir()]
    assert [name.split(".")[0] for name in names if "." in name] == ["3"]


def test_the_shared_step_is_a_plain_checkpoint(restored: Path) -> None:
    assert holdfast.steps(restored / "shared") == [2]
    assert holdfast.verify(restored / "shared" / "2")
    tree = holdfast.load(restored / "shared", item="default")
    rng = np.random.default_rng(2 * 1000 + sum(map(ord, "spread")))
    wanted = rng.standard_normal((19, 40), np.float32)
    assert tree["spread"].tobytes() == wanted.tobytes()
    own = torch.load(restored / "shared" / "2" / "ranks" / "3.pt")
    assert own["rank"] == 3


def test_stock_orbax_reads_the_shared_step(restored: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    ours = holdfast.load(restored / "shared" / "2", item="default")
    with ocp.CheckpointManager(restored / "shared") as manager:
        assert manager.latest_step() == 2
        theirs = manager.restore(
            2,
            args=ocp.args.PyTreeRestore(
                restore_args={
                    name: ocp.RestoreArgs(restore_type=np.ndarray)
                    if isinstance(value, np.ndarray)
                    else ocp.RestoreArgs()
                    for name, value in ours.items()
                }
            ),
        )
    assert theirs.keys() == ours.keys()
    for name, value in ours.items():
        if isinstance(value, np.ndarray):
            assert theirs[name].dtype == value.dtype
            assert theirs[name].tobytes() == value.tobytes()
        else:
            assert theirs[name] == value


def test_other_numbers_of_ranks(restored: Path) -> None:
    copy = restored.parent / "copy"
    shutil.copytree(restored, copy)
    shutil.copytree(copy / "host3", copy / "host4")
    shutil.rmtree(copy / "host3")
    run_ranks("tier_ranks.py", 5, "fewer", copy)


def test_ranks_that_fail(tmp_path: Path) -> None:
    run_ranks("tier_ranks.py", 4, "faults", tmp_path)


def test_replicas_that_differ(tmp_path: Path) -> None:
    run_ranks("tier_ranks.py", 4, "replicas", tmp_path)
    with holdfast.open(tmp_path / "shared" / "6", item="default") as step:
        assert step.fingerprints()["plain"] == holdfast.fingerprint(
            holdfast.load(tmp_path / "shared" / "6", item="default")["plain"]
        )


def test_models_in_place(tmp_path: Path) -> None:
    run_ranks("tier_ranks.py", 4, "training", tmp_path)
