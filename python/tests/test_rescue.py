"""`holdfast.rescue`: its report, and what it refuses."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import holdfast


def _tree(seed: int) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return {"params": {name: rng.standard_normal((9, 5)) for name in "ab"}}


def _large_tree() -> dict[str, dict[str, np.ndarray]]:
    """Returns arrays that are too large for the nodes of a database, which have
    checksums."""
    rng = np.random.default_rng(7)
    return {"params": {name: rng.standard_normal((40, 50)) for name in "ab"}}


def _torn(folder: pathlib.Path) -> pathlib.Path:
    """Makes an unfinished save that lacks a chunk; returns its path."""
    holdfast.save(folder / "7", _tree(7), ocdbt=False)
    torn = folder / "7.orbax-checkpoint-tmp"
    (folder / "7").rename(torn)
    (torn / "params.b" / "0.0").unlink()
    return torn


def test_reports_what_is_lost(tmp_path: pathlib.Path) -> None:
    torn = _torn(tmp_path)
    phases = []
    report = holdfast.rescue(
        torn,
        tmp_path / "out",
        progress=lambda phase, done, total: phases.append(phase),
    )
    assert not report and not report.ok
    assert report.target == str(tmp_path / "out")
    assert report.format == "orbax"
    assert (report.leaf_count, report.filled_count) == (1, 0)
    assert report.decoded_bytes == 9 * 5 * 8
    assert report.names_are_known
    (lost,) = report.lost
    assert (lost.leaf, lost.file) == ("params.b", "params.b/0.0")
    assert "there is no such object" in lost.reason and not lost.filled
    assert str(report).endswith("1 leaves recovered, 0 filled, 1 lost")
    assert {"verify", "write", "check"} <= set(phases)
    got = holdfast.load(tmp_path / "out")
    assert np.array_equal(got["params"]["a"], _tree(7)["params"]["a"])
    assert "b" not in got["params"]


def test_fills_from_a_neighbour(tmp_path: pathlib.Path) -> None:
    torn = _torn(tmp_path)
    holdfast.save(tmp_path / "6", _tree(6))
    report = holdfast.rescue(torn, tmp_path / "out", fill=tmp_path / "6")
    assert report.filled_count == 1 and report.lost[0].filled
    assert not report
    got = holdfast.load(tmp_path / "out")
    assert np.array_equal(got["params"]["a"], _tree(7)["params"]["a"])
    assert np.array_equal(got["params"]["b"], _tree(6)["params"]["b"])


def test_a_whole_checkpoint(tmp_path: pathlib.Path) -> None:
    holdfast.save(tmp_path / "7", _tree(7))
    report = holdfast.rescue(tmp_path / "7", tmp_path / "out", compression=None)
    assert report and report.lost == []
    assert holdfast.verify(tmp_path / "out").ok


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_without_its_list_of_checksums(
    tmp_path: pathlib.Path, damage: str
) -> None:
    step = tmp_path / "7"
    holdfast.save(step, _large_tree(), compression=None)
    digests = step / "_HOLDFAST_DIGESTS"
    content = bytearray(digests.read_bytes())
    content[50] ^= 1
    if damage == "gone":
        digests.unlink()
    else:
        digests.write_bytes(content[: 40 if damage == "cut" else None])
    (data,) = (step / "ocdbt.process_0" / "d").iterdir()
    content = bytearray(data.read_bytes())
    content[100] ^= 1
    data.write_bytes(content)
    report = holdfast.rescue(step, tmp_path / "out")
    assert not report and not report.checksums_are_known
    names = {leaf.leaf for leaf in report.lost} | set(report.unchecked)
    assert names == {"params.a", "params.b"}
    assert "checksums is damaged or gone" in str(report)
    assert "unchecked: " in str(report)


def test_stock_orbax_has_no_checksums(tmp_path: pathlib.Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    with ocp.StandardCheckpointer() as saver:
        saver.save(tmp_path / "7", _large_tree())
    report = holdfast.rescue(tmp_path / "7", tmp_path / "out")
    assert not report and not report.lost and report.checksums_are_known
    assert report.unchecked == ["params.a", "params.b"]


def test_a_delta_needs_its_base(tmp_path: pathlib.Path) -> None:
    base, delta = tmp_path / "6", tmp_path / "7"
    holdfast.save(base, _tree(6))
    holdfast.save(delta, _tree(7), base=base)
    assert holdfast.rescue(delta, tmp_path / "whole")
    got = holdfast.load(tmp_path / "whole")
    assert np.array_equal(got["params"]["b"], _tree(7)["params"]["b"])
    base.rename(tmp_path / "elsewhere")
    with pytest.raises(holdfast.errors.NotFoundError, match="6 not found"):
        holdfast.rescue(delta, tmp_path / "out")
    (tmp_path / "elsewhere").rename(base)
    # Without its metadata, a delta's arrays are not the step's arrays.
    (delta / "_METADATA").unlink()
    with pytest.raises(holdfast.errors.DataLossError, match="it is a delta"):
        holdfast.rescue(delta, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_refuses(tmp_path: pathlib.Path) -> None:
    holdfast.save(tmp_path / "run" / "7", _tree(7))
    with pytest.raises(ValueError, match="directory of steps"):
        holdfast.rescue(tmp_path / "run", tmp_path / "out")
    with pytest.raises(holdfast.errors.AlreadyExistsError):
        holdfast.rescue(tmp_path / "run" / "7", tmp_path / "run" / "7")
    with pytest.raises(holdfast.errors.NotFoundError):
        holdfast.rescue(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "d").write_bytes(b"junk")
    with pytest.raises(holdfast.errors.HoldfastError):
        holdfast.rescue(tmp_path / "junk", tmp_path / "out")
    assert not (tmp_path / "out").exists()
