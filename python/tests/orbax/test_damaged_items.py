"""The drop-in restores nothing that was changed, and omits nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
import holdfast.orbax as ocp
from holdfast import errors
from holdfast.orbax import v1

STATE = {"w": np.arange(6, dtype=np.float32), "name": "adam"}


def manager(path: Path, **options: Any) -> ocp.CheckpointManager:
    return ocp.CheckpointManager(
        path, options=ocp.CheckpointManagerOptions(**options)
    )


def args_of(step: int) -> Any:
    return ocp.args.Composite(
        state=ocp.args.PyTreeSave(STATE),
        meta=ocp.args.JsonSave({"lr": 0.125, "step": step}),
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with manager(tmp_path / "run", best_fn=lambda m: m["loss"]) as saver:
        for step in (3, 5):
            saver.save(
                step,
                args=args_of(step),
                metrics={"loss": 0.5 + step},
                custom_metadata={"run": "blue"},
            )
    return tmp_path / "run"


def change(file: Path, old: bytes, new: bytes) -> None:
    content = file.read_bytes()
    assert old in content and len(old) == len(new)
    file.write_bytes(content.replace(old, new))


def restored(root: Path, step: int | None = None) -> Any:
    with manager(root) as reader:
        return reader.restore(step, args=ocp.args.Composite())


def test_undamaged(root: Path) -> None:
    items = restored(root)
    assert items["meta"] == {"lr": 0.125, "step": 5}
    assert items["state"]["name"] == "adam"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("meta/metadata", b"0.125", b"0.925"),
        ("state/_strings.json", b"adam", b"adan"),
        ("state/_METADATA", b"np.ndarray", b"np.ndarrey"),
        ("_CHECKPOINT_METADATA", b"blue", b"blur"),
    ],
)
def test_a_changed_file(root: Path, name: str, old: bytes, new: bytes) -> None:
    change(root / "5" / name, old, new)
    with pytest.raises(errors.DataLossError, match="step 5 .* whole is 3"):
        restored(root)
    with pytest.raises(ValueError, match=name):
        restored(root, 5)
    assert restored(root, 3)["meta"]["step"] == 3


def test_changed_metadata_of_a_step(root: Path) -> None:
    change(root / "5/_CHECKPOINT_METADATA", b"blue", b"blur")
    with (
        manager(root) as reader,
        pytest.raises(errors.DataLossError, match="_CHECKPOINT_METADATA"),
    ):
        reader.metadata(5)


@pytest.mark.parametrize("name", ["meta", "state", "state/_METADATA"])
def test_what_is_gone_is_not_left_out(root: Path, name: str) -> None:
    target = root / "5" / name
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink()
    with pytest.raises(errors.DataLossError, match="step 5 .* whole is 3"):
        restored(root)
    with pytest.raises(Exception, match=name.split("/")[0]):
        restored(root, 5)
    with manager(root) as reader:
        assert reader.latest_step() == 5


def test_an_item_that_a_step_never_had(root: Path) -> None:
    with manager(root) as reader, pytest.raises(KeyError, match="other"):
        reader.restore(
            None, args=ocp.args.Composite(other=ocp.args.JsonRestore())
        )


def test_changed_metrics_count_for_nothing(root: Path) -> None:
    change(root / "5/metrics/metrics", b"5.5", b"1.5")
    with manager(root, best_fn=lambda m: m["loss"]) as reader:
        with pytest.raises(errors.DataLossError, match="metrics/metrics"):
            reader.metrics(5)
        assert reader.best_step() == 3


def test_key_implementations(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    key = jax.random.key(1, impl="rbg")
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "c", {"key": key})
    file = tmp_path / "c/array_metadatas/process_0"
    change(file, b'"rbg"', b'"rbh"')
    with (
        ocp.StandardCheckpointer() as checkpointer,
        pytest.raises(ValueError, match="process_0"),
    ):
        checkpointer.restore(tmp_path / "c")
    file.unlink()
    with (
        ocp.StandardCheckpointer() as checkpointer,
        pytest.raises(ValueError, match="process_0"),
    ):
        checkpointer.restore(tmp_path / "c")


def test_v1(tmp_path: Path) -> None:
    path = tmp_path / "c"
    v1.save_checkpointables(path, {"state": STATE, "meta": {"lr": 0.125}})
    shutil.rmtree(path / "meta")
    with pytest.raises(errors.DataLossError, match='item "meta"'):
        v1.load_checkpointables(path)
    assert v1.load(path)["name"] == "adam"


def test_v1_training(tmp_path: Path) -> None:
    with v1.training.Checkpointer(tmp_path / "run") as saver:
        for step in (3, 5):
            saver.save(step, STATE)
    (tmp_path / "run/5/state/_METADATA").unlink()
    with v1.training.Checkpointer(tmp_path / "run") as reader:
        with pytest.raises(errors.DataLossError, match="step 5 .* whole is 3"):
            reader.load()
        assert reader.load(3)["name"] == "adam"


@pytest.mark.parametrize("damage", ["gone", "zeros"])
def test_a_lost_tree_is_an_error(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "tree"
    ocp.PyTreeCheckpointer().save(path, STATE)
    file = path / "_METADATA"
    size = file.stat().st_size
    file.unlink()
    if damage == "zeros":
        file.write_bytes(bytes(size))
    wanted = {"w": np.zeros(0)}
    for read in (
        lambda: ocp.PyTreeCheckpointer().metadata(path),
        lambda: ocp.PyTreeCheckpointHandler().metadata(path),
        lambda: ocp.PyTreeCheckpointer().restore(path),
        lambda: ocp.PyTreeCheckpointer().restore(path, item=wanted),
        lambda: ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(
            path,
            args=ocp.args.PyTreeRestore(wanted, partial_restore=True),
        ),
    ):
        with pytest.raises(errors.DataLossError, match="_METADATA") as info:
            read()
        # Orbax raises FileNotFoundError for a missing tree.
        assert isinstance(info.value, FileNotFoundError) == (damage == "gone")


def test_a_lost_item_is_an_error(tmp_path: Path) -> None:
    v1.save(tmp_path / "run", STATE)
    shutil.rmtree(tmp_path / "run" / "state")
    for read in (
        lambda: ocp.PyTreeCheckpointer().metadata(tmp_path / "run" / "state"),
        lambda: v1.checkpointables_metadata(tmp_path / "run"),
    ):
        with pytest.raises(errors.DataLossError, match="is gone"):
            read()


def test_an_emptied_item_is_gone_without_checksums_too(root: Path) -> None:
    for digests in list(root.rglob("_HOLDFAST_DIGESTS")):
        digests.unlink()
    (root / "5" / "meta" / "metadata").unlink()
    with pytest.raises(errors.DataLossError, match='"meta" of .* is gone'):
        holdfast.load(root / "5")
