"""How saves commit: by a rename, by a marker, or by a user's own class."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
import holdfast.orbax as ours
from holdfast import errors as ours_errors
from holdfast.orbax._checkpointer import durable

atomicity = ours.path.atomicity
MARKS = "COMMIT_FILE"
TREE = {"w": np.arange(10.0), "step": 3}


def mode_of(ocp: Any, name: str) -> Any:
    return ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode[name])


def save(ocp: Any, path: Path, **options: Any) -> None:
    with ocp.StandardCheckpointer(**options) as saver:
        saver.save(path, TREE, custom_metadata={"a": 1})


def restore(ocp: Any, path: Path, **options: Any) -> Any:
    with ocp.StandardCheckpointer(**options) as reader:
        return reader.restore(path)


def check(restored: Any) -> None:
    np.testing.assert_array_equal(restored["w"], TREE["w"])
    assert restored["step"] == 3


@pytest.mark.parametrize(
    "kind",
    [atomicity.AtomicRenameTemporaryPath, atomicity.CommitFileTemporaryPath],
)
def test_a_directory_that_is_written_is_nobody_elses(
    tmp_path: Path, kind: Any
) -> None:
    first, second = (kind.from_final(tmp_path / "c") for _ in range(2))
    asyncio.run(first.create())
    with pytest.raises(FileExistsError, match="another save is writing"):
        asyncio.run(second.create())
    (Path(first.get()) / "file").write_text("")
    asyncio.run(first.finalize())
    assert (tmp_path / "c" / "file").exists()


def test_marked(tmp_path: Path) -> None:
    """A marker is written last, at the final path, and stock Orbax reads the
    checkpoint."""
    options = {"atomicity_options": mode_of(ours, MARKS)}
    seen: list[list[str]] = []
    callback = ours.AsyncOptions(
        post_finalization_callback=lambda: seen.append(
            sorted(os.listdir(tmp_path / "c"))
        )
    )
    save(ours, tmp_path / "c", async_options=callback, **options)
    assert "commit_success.txt" not in seen[0]
    assert {"_METADATA", "manifest.ocdbt"} <= set(seen[0])
    marker = (tmp_path / "c" / "commit_success.txt").read_text().split("\n")
    assert marker == [
        f"Checkpoint commit was successful to {tmp_path / 'c'}",
        "Its checksums are in _HOLDFAST_DIGESTS",
    ]
    metadata = json.loads((tmp_path / "c/_CHECKPOINT_METADATA").read_text())
    assert metadata["custom_metadata"] == {"a": 1}
    assert metadata["item_handlers"].endswith(".StandardCheckpointHandler")
    started = metadata["init_timestamp_nsecs"]
    assert 0 < started <= metadata["commit_timestamp_nsecs"]
    check(restore(ours, tmp_path / "c", **options))
    stock = pytest.importorskip("orbax.checkpoint")
    theirs = {"atomicity_options": mode_of(stock, MARKS)}
    check(restore(stock, tmp_path / "c", **theirs))
    save(stock, tmp_path / "d", **theirs)
    check(restore(ours, tmp_path / "d", **options))
    theirs_metadata = json.loads(
        (tmp_path / "d/_CHECKPOINT_METADATA").read_text()
    )
    assert list(theirs_metadata) == list(metadata)


def test_what_was_never_marked(tmp_path: Path) -> None:
    options = {"atomicity_options": mode_of(ours, MARKS)}
    save(ours, tmp_path / "c", **options)
    (tmp_path / "c" / "commit_success.txt").unlink()
    with pytest.raises(ValueError, match="Found incomplete checkpoint"):
        restore(ours, tmp_path / "c", **options)
    with pytest.raises(ValueError, match="already exists"):
        save(ours, tmp_path / "c", **options)
    with ours.StandardCheckpointer(**options) as saver:
        saver.save(tmp_path / "c", TREE, force=True)
    check(restore(ours, tmp_path / "c", **options))
    assert os.listdir(tmp_path) == ["c"]


@pytest.mark.parametrize("name", [MARKS, "ATOMIC_RENAME"])
def test_failed_overwrite_keeps_the_old(tmp_path: Path, name: str) -> None:
    options = {"atomicity_options": mode_of(ours, name)}
    save(ours, tmp_path / "c", **options)

    def fail() -> None:
        raise OSError("the disk has gone")

    broken = ours.AsyncOptions(post_finalization_callback=fail)
    saver = ours.StandardCheckpointer(async_options=broken, **options)
    saver.save(tmp_path / "c", {"w": np.zeros(1)}, force=True)
    with pytest.raises(OSError, match="the disk has gone"):
        saver.wait_until_finished()
    check(restore(ours, tmp_path / "c", **options))
    assert os.listdir(tmp_path) == ["c"]


@pytest.mark.parametrize(
    "name",
    [".DS_Store", "._d", ".nfs0001", "Thumbs.db", ".ipynb_checkpoints/a.json"],
)
@pytest.mark.parametrize("where", ["", "array_metadatas"])
def test_what_systems_leave_is_in_nobodys_way(
    tmp_path: Path, name: str, where: str
) -> None:
    with ours.StandardCheckpointer() as saver:
        saver.save(tmp_path / "c", {"w": np.zeros(1)})
        saver.wait_until_finished()
        left = tmp_path / "c" / where / name
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_text("x")
        saver.save(tmp_path / "c", TREE, force=True)
    check(restore(ours, tmp_path / "c"))
    assert not left.exists()


def test_what_is_nobody_elses_still_is_in_the_way(tmp_path: Path) -> None:
    save(ours, tmp_path / "c")
    (tmp_path / "c" / "notes.txt").write_text("mine")
    with (
        ours.StandardCheckpointer() as saver,
        pytest.raises(ours_errors.FailedPreconditionError, match="notes.txt"),
    ):
        saver.save(tmp_path / "c", TREE, force=True)
        saver.wait_until_finished()
    assert (tmp_path / "c" / "notes.txt").read_text() == "mine"


def test_a_directory_that_cannot_be_synced() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        os.fsync(os.open("/proc/self", os.O_RDONLY))
    durable.sync("/proc/self")
    with pytest.raises(FileNotFoundError):
        durable.sync("/proc/self/none")


@pytest.mark.parametrize("suffix", ["moved", "replaced"])
def test_what_an_overwrite_put_aside_comes_back(
    tmp_path: Path, suffix: str
) -> None:
    """If a process died between the two renames of an overwrite, the old
    checkpoint is restored."""

    def put_aside(name: str) -> None:
        path = tmp_path / name
        path.rename(path.with_name(f"{path.name}.holdfast-{suffix}"))

    save(ours, tmp_path / "c")
    put_aside("c")
    check(restore(ours, tmp_path / "c"))
    put_aside("c")
    with pytest.raises(ValueError, match="already exists"):
        save(ours, tmp_path / "c")
    with ours.CheckpointManager(tmp_path / "m") as manager:
        for step in range(3):
            manager.save(step, args=ours.args.StandardSave(TREE))
    put_aside("m/1")
    put_aside("m/2")
    assert int(holdfast.load(tmp_path / "m")["step"]) == 3
    with ours.CheckpointManager(tmp_path / "m") as manager:
        assert list(manager.all_steps()) == [0, 1, 2]
        check(manager.restore(2))
    assert sorted(os.listdir(tmp_path / "m")) == ["0", "1", "2"]


@pytest.mark.parametrize("name", [MARKS, "AUTO"])
def test_modes_of_directories(tmp_path: Path, name: str) -> None:
    """Directories get the same modes as from Orbax."""
    stock = pytest.importorskip("orbax.checkpoint")
    before = os.umask(0o027)
    try:
        found = []
        for ocp, root in ((stock, tmp_path / "s"), (ours, tmp_path / "o")):
            options = ocp.CheckpointManagerOptions(
                file_options=ocp.options.FileOptions(
                    path_permission_mode=0o775
                ),
                atomicity_options=mode_of(ocp, name),
            )
            with ocp.CheckpointManager(root, options=options) as manager:
                manager.save(1, args=ocp.args.StandardSave(TREE))
            found.append(
                [
                    oct(stat.S_IMODE(path.stat().st_mode))
                    for path in (root, root / "1", root / "1" / "default")
                ]
            )
    finally:
        os.umask(before)
    assert found[0] == found[1]


def test_own_class(tmp_path: Path) -> None:
    calls: list[str] = []

    class Own(atomicity.AtomicRenameTemporaryPath):  # type: ignore[misc,name-defined]
        async def create(self) -> Any:
            calls.append(f"create {self.get().name}")
            return await super().create()

        async def finalize(self) -> None:
            calls.append(f"finalize {self.get_final().name}")
            await super().finalize()

    save(ours, tmp_path / "c", temporary_path_class=Own)
    assert calls == ["create c.orbax-checkpoint-tmp", "finalize c"]
    check(restore(ours, tmp_path / "c"))
    options = ours.CheckpointManagerOptions(temporary_path_class=Own)
    with ours.CheckpointManager(tmp_path / "m", options=options) as manager:
        manager.save(1, args=ours.args.StandardSave(TREE))
        manager.wait_until_finished()
        assert manager.all_steps(read=True) == [1]
        check(manager.restore(1))
    assert "create 1.orbax-checkpoint-tmp" in calls


def test_own_store(tmp_path: Path) -> None:
    """A user's metadata store gets the same calls as from Orbax."""
    written: list[str] = []

    class Store:
        def __init__(self) -> None:
            self._store = ours.metadata.metadata_store(
                enable_write=True, blocking_write=True
            )

        def __getattr__(self, name: str) -> Any:
            if name in ("write", "update", "close"):
                written.append(name)
            return getattr(self._store, name)

    with ours.PyTreeCheckpointer() as plain:
        plain.save(tmp_path / "p", TREE)
    saver = ours.Checkpointer(
        ours.PyTreeCheckpointHandler(), checkpoint_metadata_store=Store()
    )
    saver.save(tmp_path / "c", TREE)
    saver.close()
    assert written == ["write", "update", "update", "close"]
    records = [
        json.loads((tmp_path / name / "_CHECKPOINT_METADATA").read_text())
        for name in ("p", "c")
    ]
    for record in records:
        del record["init_timestamp_nsecs"], record["commit_timestamp_nsecs"]
    assert records[0] == records[1]
    with pytest.raises(ValueError, match="must be blocking writer"):
        ours.Checkpointer(
            ours.PyTreeCheckpointHandler(),
            checkpoint_metadata_store=ours.metadata.metadata_store(
                enable_write=True
            ),
        )
    later = ours.metadata.metadata_store(enable_write=True)
    with ours.AsyncCheckpointer(
        ours.StandardCheckpointHandler(), checkpoint_metadata_store=later
    ) as background:
        background.save(tmp_path / "d", args=ours.args.StandardSave(TREE))
    metadata = ours.metadata.get_step_metadata(tmp_path / "d")
    assert metadata.commit_timestamp_nsecs is not None


@pytest.mark.parametrize("kind", ["AtomicRename", "CommitFile"])
def test_temporary_paths(tmp_path: Path, kind: str) -> None:
    import asyncio

    cls = getattr(atomicity, f"{kind}TemporaryPath")

    async def run() -> None:
        path = cls.from_final(tmp_path / "7")
        with pytest.raises(atomicity.ValidationError):
            await cls.validate(path.get())
        await path.create()
        await cls.validate(path.get())
        again = cls.from_temporary(path.get())
        assert os.fspath(again.get_final()) == str(tmp_path / "7")
        with pytest.raises(atomicity.ValidationError):
            await cls.validate_final(path.get())
        await again.finalize()
        await cls.validate_final(tmp_path / "7")
        with pytest.raises(atomicity.ValidationError):
            await cls.validate(tmp_path / "7")

    asyncio.run(run())
    assert os.listdir(tmp_path / "7") == ["commit_success.txt"]


def test_read_only_paths() -> None:
    path = atomicity.ReadOnlyTemporaryPath.from_paths(
        temporary_path=Path("/a"), final_path=Path("/b")
    )
    again = atomicity.ReadOnlyTemporaryPath.from_bytes(path.to_bytes())
    assert [os.fspath(again.get()), os.fspath(again.get_final())] == [
        "/a",
        "/b",
    ]
    with pytest.raises(NotImplementedError):
        atomicity.ReadOnlyTemporaryPath.from_final(Path("/b"))


def test_what_a_directory_holds(tmp_path: Path) -> None:
    format_utils = ours.path.format_utils
    save(ours, tmp_path / "c")
    assert format_utils.is_orbax_checkpoint(tmp_path / "c")
    assert format_utils.is_ocdbt_checkpoint(tmp_path / "c")
    (tmp_path / "e").mkdir()
    assert not format_utils.is_orbax_checkpoint(tmp_path / "e")
    with pytest.raises(FileNotFoundError):
        format_utils.is_orbax_checkpoint(tmp_path / "none")
