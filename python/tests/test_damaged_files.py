"""Damage to files without arrays, and to the newest step, as users see it."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast import errors

TREE = {"w": np.arange(6, dtype=np.float32), "name": "adam"}


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.HoldfastWarning)
        yield


def save(path: Path, step: int) -> Path:
    holdfast.save(
        path / str(step),
        {**TREE, "w": TREE["w"] + (step - 1)},
        durable=False,
        custom_metadata={"run": "blue"},
    )
    return path / str(step)


def change(file: Path, old: bytes, new: bytes) -> None:
    content = file.read_bytes()
    assert old in content and len(old) == len(new)
    file.write_bytes(content.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("_CHECKPOINT_METADATA", b"blue", b"blur"),
        ("_METADATA", b"np.ndarray", b"np.ndarrey"),
        ("_strings.json", b"adam", b"adan"),
    ],
)
def test_a_changed_file(
    tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    path = save(tmp_path, 1)
    change(path / name, old, new)
    with pytest.raises(errors.DataLossError, match=name):
        holdfast.load(path)
    with pytest.raises(errors.DataLossError, match=name):
        holdfast.load(path, {"w": ..., "name": "x"})
    with pytest.raises(errors.DataLossError, match=name):
        holdfast.open(path)["name"]
    assert not holdfast.verify(path)


def test_damaged_newest_step(tmp_path: Path) -> None:
    for step in (3, 5, 7):
        save(tmp_path, step)
    (tmp_path / "7" / "_METADATA").unlink()
    words = "step 7 of .* was committed and is damaged: .* whole is 5"
    for read in (holdfast.load, holdfast.open, holdfast.digest):
        with pytest.raises(errors.DataLossError, match=words):
            read(tmp_path)
    assert holdfast.load(tmp_path, step=5)["name"] == "adam"
    assert holdfast.steps(tmp_path) == [3, 5, 7]
    report = holdfast.verify(tmp_path)
    assert [damage.code for damage in report.damages] == ["DATA_LOSS"]
    report = holdfast.verify(tmp_path / "7")
    assert not report
    (tmp_path / "5" / "_METADATA").unlink()
    with pytest.raises(errors.DataLossError, match="step 7 .* whole is 3"):
        holdfast.load(tmp_path)


def test_unfinished_saves_are_no_steps(tmp_path: Path) -> None:
    (tmp_path / "7.orbax-checkpoint-tmp" / "d").mkdir(parents=True)
    with pytest.raises(errors.NotFoundError, match="no committed steps"):
        holdfast.steps(tmp_path)
    save(tmp_path, 3)
    (tmp_path / "9").mkdir()
    assert holdfast.steps(tmp_path) == [3]
    assert holdfast.load(tmp_path)["name"] == "adam"


def test_removed_checksums(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    (path / "_HOLDFAST_DIGESTS").unlink()
    for call in (
        lambda: holdfast.load(path)["name"],
        lambda: holdfast.load(path, {"w": ..., "name": "x"})["name"],
        lambda: holdfast.open(path)["name"],
    ):
        with pytest.warns(errors.HoldfastWarning, match="_HOLDFAST_DIGESTS"):
            assert call() == "adam"
    report = holdfast.verify(path)
    assert [damage.file for damage in report.damages] == ["_HOLDFAST_DIGESTS"]
    # The marker of stock Orbax, and of holdfast 0.1.0.
    (path / "commit_success.txt").write_text("Checkpoint commit was successful")
    assert holdfast.load(path)["name"] == "adam"
    assert holdfast.verify(path)


def test_a_copy_keeps_its_checksums(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    shutil.copytree(path, tmp_path / "copy")
    assert holdfast.load(tmp_path / "copy")["name"] == "adam"
    assert holdfast.verify(tmp_path / "copy")


def test_a_report_counts_damage_if_it_verifies_all(tmp_path: Path) -> None:
    path = tmp_path / "1"
    holdfast.save(path, {"w": np.ones(3)}, ocdbt=False, compression=None)
    (path / "w" / "0").write_bytes(bytes(24))
    quick = holdfast.report(path, statistics=False)
    assert quick.damage_count == 0
    whole = holdfast.report(path, statistics=False, verify_all=True)
    assert whole.damage_count == 1
