"""Tests holdfast for Python on object stores; every path is a server's URL.

Moto checks the signatures of s3://; gcs_fake.py stands in for Google's server.
TensorStore and stock Orbax, in other processes, read what holdfast wrote, and
vice versa.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import servers
from python_programs import state_of, this_process_at

import holdfast
import holdfast.orbax as ocp
from holdfast import _engine, remote
from holdfast.orbax import temporary_paths
from holdfast.orbax._manager import trash
from holdfast.remote import RemotePath

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "python_programs.py"


def same(a: Any, b: Any) -> None:
    assert sorted(a) == sorted(b)
    for name, value in b.items():
        np.testing.assert_array_equal(np.asarray(a[name]), np.asarray(value))


def tree(step: int = 3) -> dict[str, Any]:
    return state_of(step)


# Tests without this mark use s3:// only with --long.
on_both = pytest.mark.parametrize("server", ["gs", "s3"], indirect=True)


@pytest.fixture(
    scope="module", params=["gs", pytest.param("s3", marks=pytest.mark.long)]
)
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    start = servers.gcs if request.param == "gs" else servers.moto
    with start() as running, this_process_at(running):
        yield running


@pytest.fixture
def root(server: servers.Server) -> RemotePath:
    """Returns a directory that no other test uses."""
    return RemotePath(server.root) / uuid.uuid4().hex[:8]


def run(program: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAMS), program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def names_below(path: RemotePath) -> set[str]:
    return {
        str((directory / name).relative_to(path))
        for directory, _, files in path.walk()
        for name in files
    }


# ---- paths


@on_both
def test_a_path_is_as_pathlib_is(root: RemotePath, tmp_path: Path) -> None:
    """The same calls give the same results on a bucket and on a disk."""
    for base in (root, tmp_path / "x"):
        base.mkdir(parents=True, exist_ok=True)
        (base / "d" / "e").mkdir(parents=True, exist_ok=True)
        (base / "d" / "a.json").write_text('{"ü": 1}', encoding="utf-8")
        (base / "d" / "e" / "b.bin").write_bytes(b"\0\1" * 5)
        (base / "d" / "c.txt").touch()
        assert (base / "d").is_dir()
        assert not (base / "d").is_file()
        assert (base / "d" / "a.json").is_file()
        assert not (base / "d" / "nothing").exists()
        assert not (base / "d" / "a").exists()
        assert json.loads((base / "d" / "a.json").read_text("utf-8")) == {
            "ü": 1
        }
        assert (base / "d" / "e" / "b.bin").stat().st_size == 10
        assert sorted(p.name for p in (base / "d").iterdir()) == [
            "a.json",
            "c.txt",
            "e",
        ]
        for pattern, found in {
            "*.json": ["a.json"],
            "*/b.*": ["e/b.bin"],
            "**/*.bin": ["e/b.bin"],
            "e/*.bin": ["e/b.bin"],
            "c.txt": ["c.txt"],
            "[ac].*": ["a.json", "c.txt"],
            "none/*": [],
        }.items():
            matches = (base / "d").glob(pattern)
            assert (
                sorted(p.relative_to(base / "d").as_posix() for p in matches)
                == found
            ), pattern
        (base / "d" / "a.json").rename(base / "d" / "z.json")
        assert not (base / "d" / "a.json").exists()
        (base / "d" / "z.json").replace(base / "d" / "c.txt")
        assert (base / "d" / "c.txt").read_text("utf-8") == '{"ü": 1}'
        with pytest.raises(FileNotFoundError):
            (base / "d" / "z.json").unlink()
        (base / "d" / "z.json").unlink(missing_ok=True)
        with pytest.raises(FileNotFoundError):
            (base / "d" / "z.json").read_bytes()
        with pytest.raises(FileExistsError):
            (base / "d" / "c.txt").touch(exist_ok=False)
        with pytest.raises(FileExistsError):
            (base / "d").mkdir()
        with pytest.raises(OSError, match="not empty"):
            (base / "d").rmdir()
    root.rmtree()
    assert not root.exists()
    with pytest.raises(FileNotFoundError):
        root.rmtree()


def test_files_are_streamed(root: RemotePath) -> None:
    content = np.random.default_rng(1).bytes((20 << 20) + 7)
    path = root / "large"
    with path.open("wb") as file:
        for at in range(0, len(content), 3_000_001):
            file.write(content[at : at + 3_000_001])
        assert not path.exists()
    assert path.stat().length == len(content)
    with path.open("rb") as file:
        file.seek(-7, os.SEEK_END)
        assert file.read() == content[-7:]
        file.seek(5 << 20)
        assert file.read(1000) == content[5 << 20 :][:1000]
        file.seek(0)
        assert file.read() == content
    with path.open("a") as file:
        file.write("end")
    assert path.read_bytes() == content + b"end"
    assert path.copy(root / "second").read_bytes() == content + b"end"


def test_a_write_that_fails_leaves_nothing(root: RemotePath) -> None:
    for mode, data in (("w", "text"), ("wb", bytes(9 << 20))):
        with pytest.raises(ZeroDivisionError), (root / "f").open(mode) as file:
            file.write(data)
            raise ZeroDivisionError
        assert not (root / "f").exists()


# ---- holdfast's own calls


@on_both
def test_save_load_and_all_that_looks(root: RemotePath) -> None:
    url = str(root / "7")
    holdfast.save(url, tree())
    same(holdfast.load(url), tree())
    same(holdfast.load(root / "7"), tree())
    assert (root / "7" / "commit_success.txt").is_file()
    rows = holdfast.open(url)["w"][3:5]
    np.testing.assert_array_equal(rows, tree()["w"][3:5])
    assert holdfast.verify(url).ok
    with pytest.raises(FileExistsError):
        holdfast.save(url, tree())
    holdfast.save(url, tree(4), overwrite=True)
    same(holdfast.load(url), tree(4))
    holdfast.save(root / "8", tree(4), background=True).result()
    assert holdfast.steps(root) == [7, 8]
    assert holdfast.diff(url, root / "8").same
    assert holdfast.digest(url) == holdfast.digest(root / "8")


def test_convert_and_merge_between_disk_and_bucket(
    root: RemotePath, tmp_path: Path
) -> None:
    holdfast.save(tmp_path / "a", {"a": tree(1)})
    holdfast.save(root / "b", {"b": tree(2)})
    holdfast.convert(tmp_path / "a", root / "c", zarr_format=3)
    same(holdfast.load(root / "c")["a"], tree(1))
    holdfast.merge([root / "b", tmp_path / "a"], root / "m")
    same(holdfast.load(root / "m")["a"], tree(1))
    same(holdfast.load(root / "m")["b"], tree(2))
    holdfast.convert(root / "b", tmp_path / "d")
    same(holdfast.load(tmp_path / "d")["b"], tree(2))


def test_data_is_read_with_few_requests(root: RemotePath) -> None:
    holdfast.save(root / "1", tree())
    before = remote.counters()
    same(holdfast.load(root / "1"), tree())
    after = remote.counters()
    assert 0 < after.requests - before.requests <= 40
    assert after.received_bytes > before.received_bytes


def test_web_servers_are_read(tmp_path: Path) -> None:
    """https:// is read over TLS, and certificates are checked."""
    certificate, key = servers.self_signed(tmp_path)
    folder = tmp_path / "files"
    folder.mkdir()
    holdfast.save(folder / "7", tree())
    with servers.files(folder, certificate, key) as server:
        with pytest.raises(holdfast.errors.HoldfastError, match="not trusted"):
            holdfast.load(f"{server.url}/7")
        remote.configure(ca_bundle=certificate)
        same(holdfast.load(f"{server.url}/7"), tree())
        with pytest.raises(FileNotFoundError):
            holdfast.load(f"{server.url}/8")
        remote.configure(remote.Settings())


def test_torch_saves_and_loads(root: RemotePath) -> None:
    torch = pytest.importorskip("torch")
    import torch.distributed.checkpoint as dcp

    from holdfast.torch import StorageReader, StorageWriter

    state = {"w": torch.arange(12.0).reshape(3, 4)}
    dcp.save(state, storage_writer=StorageWriter(str(root / "t")))
    loaded = {"w": torch.zeros(3, 4)}
    dcp.load(loaded, storage_reader=StorageReader(str(root / "t")))
    assert torch.equal(loaded["w"], state["w"])
    assert (root / "t" / "commit_success.txt").exists()
    assert not (root / "t.orbax-checkpoint-tmp").exists()


# ---- errors


@on_both
def test_errors_are_those_of_a_disk(root: RemotePath) -> None:
    with pytest.raises(FileNotFoundError):
        holdfast.load(root / "none")
    with pytest.raises(FileNotFoundError):
        ocp.PyTreeCheckpointer().restore(root / "none")
    nowhere = f"{str(root)[:5]}no-such-bucket-{uuid.uuid4().hex}/x"
    with pytest.raises(FileNotFoundError, match="bucket"):
        holdfast.save(nowhere, tree())
    with pytest.raises(FileNotFoundError):
        holdfast.load(nowhere)
    assert not RemotePath(nowhere).exists()


@pytest.mark.parametrize("server", ["s3"], indirect=True)
def test_wrong_credentials_are_a_permission_error(
    server: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "wrongwrongwrongwrongwrongwrongwrongwrong"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    remote.configure(remote.Settings())
    try:
        for call in (
            lambda: holdfast.save(f"{server.root}/denied", tree()),
            lambda: holdfast.load(f"{server.root}/denied"),
            lambda: RemotePath(f"{server.root}/denied").exists(),
            lambda: ocp.CheckpointManager(f"{server.root}/denied"),
        ):
            with pytest.raises(PermissionError) as caught:
                call()
            assert secret not in str(caught.value)
    finally:
        monkeypatch.undo()
        remote.configure(remote.Settings())


# ---- the drop-in, v0


def test_checkpointers(root: RemotePath) -> None:
    ocp.PyTreeCheckpointer().save(root / "p", tree())
    assert (root / "p" / "commit_success.txt").exists()
    same(ocp.PyTreeCheckpointer().restore(root / "p"), tree())
    with ocp.StandardCheckpointer() as standard:
        standard.save(str(root / "s"), tree())
        standard.wait_until_finished()
        same(standard.restore(str(root / "s")), tree())
        same(standard.restore(str(root / "s"), tree(9)), tree())
    with pytest.raises(ValueError, match="already exists"):
        ocp.PyTreeCheckpointer().save(root / "p", tree())
    ocp.PyTreeCheckpointer().save(root / "p", tree(4), force=True)
    same(ocp.PyTreeCheckpointer().restore(root / "p"), tree(4))
    json_checkpointer = ocp.Checkpointer(ocp.JsonCheckpointHandler())
    json_checkpointer.save(root / "j", {"a": [1, None]})
    assert json_checkpointer.restore(root / "j") == {"a": [1, None]}
    array = ocp.Checkpointer(ocp.ArrayCheckpointHandler())
    array.save(root / "x", np.arange(7))
    np.testing.assert_array_equal(array.restore(root / "x"), np.arange(7))
    for name in ("p", "s", "j", "x"):
        assert ocp.path.step.is_checkpoint_finalized(root / name)
    assert not [name for name in names_below(root) if "tmp" in name]


def test_own_handlers_get_paths_that_work(root: RemotePath) -> None:
    class Notes(ocp.CheckpointHandler):
        def save(self, directory: Any, item: str) -> None:
            assert isinstance(directory, RemotePath)
            (directory / "sub").mkdir()
            (directory / "sub" / "notes.txt").write_text(item)

        def restore(self, directory: Any, item: Any = None) -> str:
            (found,) = directory.glob("*/*.txt")
            return str(found.read_text())

    checkpointer = ocp.Checkpointer(Notes())
    checkpointer.save(root / "n", "remember")
    assert checkpointer.restore(root / "n") == "remember"


@pytest.mark.parametrize("is_async", [False, True])
def test_managers_keep_and_remove_steps(
    root: RemotePath, is_async: bool
) -> None:
    options = ocp.CheckpointManagerOptions(
        max_to_keep=2,
        best_fn=lambda metrics: metrics["loss"],
        best_mode="min",
        enable_async_checkpointing=is_async,
        cleanup_tmp_directories=True,
    )
    with ocp.CheckpointManager(
        root, options=options, metadata={"run": "a"}
    ) as manager:
        for step, loss in enumerate([3.0, 1.0, 2.0, 4.0]):
            assert manager.save(
                step,
                args=ocp.args.StandardSave(tree(step)),
                metrics={"loss": loss},
            )
        manager.wait_until_finished()
        assert manager.all_steps() == [1, 2]
        assert manager.best_step() == 1
    with ocp.CheckpointManager(root, options=options) as manager:
        assert manager.all_steps() == [1, 2]
        assert manager.latest_step() == 2
        assert manager.metrics(1) == {"loss": 1.0}
        assert manager.metadata().custom_metadata == {"run": "a"}
        same(manager.restore(2, args=ocp.args.StandardRestore()), tree(2))
        item = manager.item_metadata(2)
        assert item["w"].shape == (64, 32)
        manager.delete(2)
        assert manager.all_steps() == [1]
    assert {name.split("/")[0] for name in names_below(root)} == {
        "1",
        "metadata",
    }


def test_a_step_that_is_saved_again_stays(root: RemotePath) -> None:
    """If a step in the trash is saved again, the new step is not removed."""
    ocp.PyTreeCheckpointer().save(root / "1", tree(1))
    trashed, _ = _engine.dispose_of_steps(str(root), ["1"])
    assert trashed == [str(root / "1")]
    assert ocp.utils.checkpoint_steps(root) == []
    ocp.PyTreeCheckpointer().save(root / "1", tree(2), force=True)
    trash.remove_entry(trashed[0])
    same(ocp.PyTreeCheckpointer().restore(root / "1"), tree(2))
    trash.remove_entry(*_engine.dispose_of_steps(str(root), ["1"])[0])
    assert names_below(root) == set()


def test_unfinished_steps_are_no_steps(root: RemotePath) -> None:
    holdfast.save(root / "1", tree(1))
    holdfast.save(root / "2", tree(2))
    (root / "2" / "commit_success.txt").unlink()
    (root / "3" / "notes").write_text("a user's own")
    assert ocp.utils.checkpoint_steps(root) == [1]
    assert ocp.path.step.tmp_checkpoints(root) == ["2", "3"]
    with pytest.raises(ValueError, match="incomplete"):
        ocp.PyTreeCheckpointer().restore(root / "2")
    temporary_paths.remove_temporary_paths(root)
    assert not (root / "2").exists()
    assert (root / "3" / "notes").exists()
    same(holdfast.load(root / "1"), tree(1))


def test_steps_may_go_to_a_directory_of_their_own(root: RemotePath) -> None:
    inside = "/".join(root.parts[1:])
    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, todelete_full_path=f"{inside}-gone"
    )
    with ocp.CheckpointManager(root, options=options) as manager:
        for step in (1, 2):
            manager.save(step, args=ocp.args.StandardSave(tree(step)))
        manager.wait_until_finished()
        assert manager.all_steps() == [2]
    (gone,) = root.with_name(f"{root.name}-gone").iterdir()
    assert gone.name.startswith("1-")
    same(holdfast.load(gone / "default"), tree(1))


def test_snapshots_are_refused(root: RemotePath) -> None:
    holdfast.save(root / "1", tree(1))
    iterator = ocp.checkpoint_utils.checkpoints_iterator(
        root,
        timeout=0,
        snapshot_dir=str(root / "snapshots"),
        ignore_snapshot_errors=False,
    )
    with pytest.raises(ValueError, match="Snapshot is not supported"):
        next(iter(iterator))
    assert list(ocp.checkpoint_utils.checkpoints_iterator(root, timeout=0)) == [
        1
    ]


# ---- v1


def test_v1(root: RemotePath) -> None:
    from holdfast.orbax import v1

    v1.save(root / "a", tree())
    same(v1.load(root / "a"), tree())
    v1.save_async(root / "b", tree(4)).result()
    same(v1.load(str(root / "b")), tree(4))
    assert v1.is_orbax_checkpoint(root / "a")
    metadata = v1.metadata(root / "a").metadata
    assert metadata["w"].shape == (64, 32)
    v1.save_checkpointables(root / "c", {"state": tree(), "notes": {"a": 1}})
    loaded = v1.load_checkpointables(root / "c")
    same(loaded["state"], tree())
    assert loaded["notes"] == {"a": 1}
    v1.partial.save(root / "d", {"w": tree()["w"]})
    v1.partial.save(root / "d", {"b": tree()["b"], "step": 3})
    v1.partial.finalize(root / "d")
    same(v1.load(root / "d"), tree())


def test_v1_training(root: RemotePath) -> None:
    from holdfast.orbax import v1

    policy = v1.training.preservation_policies.LatestN(2)
    with v1.training.Checkpointer(root, preservation_policy=policy) as saver:
        for step in range(4):
            assert saver.save(step, tree(step))
        saver.save_async(4, tree(4)).result()
        assert [c.step for c in saver.checkpoints] == [3, 4]
        same(saver.load(), tree(4))
    with v1.training.Checkpointer(root) as saver:
        assert saver.latest.step == 4
        same(saver.load(3), tree(3))


# ---- with others


def tensorstore_spec(server: servers.Server, path: RemotePath) -> Any:
    key = "/".join(path.parts[1:]) + "/"
    if server.kind == "gcs":
        return {"driver": "gcs", "bucket": servers.BUCKET, "path": key}
    return {
        "driver": "s3",
        "bucket": servers.BUCKET,
        "path": key,
        "endpoint": server.url,
        "aws_region": servers.REGION,
    }


@on_both
def test_tensorstore_reads_what_we_wrote_and_we_what_it_wrote(
    server: servers.Server, root: RemotePath, tmp_path: Path
) -> None:
    holdfast.save(root / "1", tree())
    (tmp_path / "twin.py").write_text(
        "import json, sys, numpy as np, tensorstore as ts\n"
        "base, wanted = json.loads(sys.argv[1]), np.load(sys.argv[2])\n"
        "kvstore = {'driver': 'ocdbt', 'base': base, 'path': 'w/'}\n"
        "spec = {'driver': 'zarr', 'kvstore': kvstore}\n"
        "array = ts.open(spec, open=True).result()\n"
        "np.testing.assert_array_equal(array.read().result(), wanted)\n"
        "other = {**base, 'path': base['path'] + 'theirs/'}\n"
        "kvstore = {'driver': 'ocdbt', 'base': other, 'path': 'w/'}\n"
        "spec = {'driver': 'zarr', 'kvstore': kvstore}\n"
        "ts.open(spec, create=True, dtype=wanted.dtype,\n"
        "        shape=wanted.shape).result().write(wanted).result()\n"
    )
    np.save(tmp_path / "w.npy", tree()["w"])
    done = subprocess.run(
        [
            sys.executable,
            str(tmp_path / "twin.py"),
            json.dumps(tensorstore_spec(server, root / "1")),
            str(tmp_path / "w.npy"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = holdfast.open(root / "1" / "theirs" / "manifest.ocdbt")
    np.testing.assert_array_equal(theirs["w"][:], tree()["w"])


@pytest.mark.parametrize("server", ["gs"], indirect=True)
def test_stock_orbax_restores_what_we_saved(root: RemotePath) -> None:
    """Runs only on gs://, because Orbax builds no specs for s3://."""
    ocp.PyTreeCheckpointer().save(root / "1", tree())
    done = run("orbax_restores", root / "1")
    assert done.stdout == "restored\n", done.stderr


@pytest.mark.parametrize("server", ["gs"], indirect=True)
def test_we_restore_what_stock_orbax_saved(root: RemotePath) -> None:
    """Runs only on gs://, because Orbax builds no specs for s3://."""
    done = run("orbax_saves", root / "1")
    assert done.stdout == "saved\n", done.stderr
    same(ocp.PyTreeCheckpointer().restore(root / "1"), tree())
    same(holdfast.load(root / "1"), tree())


@on_both
def test_a_killed_loop_goes_on(root: RemotePath) -> None:
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS), "train", str(root), "5", "3"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "from None\n"
        assert process.stdout.readline() == "in the middle\n"
        process.kill()
    # Lists the steps while the unfinished save of the killed process is there.
    assert ocp.utils.checkpoint_steps(root) == [1, 2]
    assert (root / "3").is_dir()
    done = run("train", root, "5", "none")
    assert done.stdout == "from 2\nsteps [4, 5]\n", done.stderr
    assert holdfast.steps(root) == [4, 5]
    assert holdfast.verify(root / "5").ok
    assert {name.split("/")[0] for name in names_below(root)} == {"4", "5"}
