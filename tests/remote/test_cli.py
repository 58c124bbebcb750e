"""Tests the command line on URLs, against moto with signatures, the fake of
Google's store, and a web server of plain files."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import servers

Run = Callable[..., "subprocess.CompletedProcess[str]"]
STORES = ["moto", "gcs"]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> servers.Server:
    """Returns a store that can be written."""
    server: servers.Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="module")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns an npz file with a large array, which is copied in several
    pieces, and small arrays."""
    path = tmp_path_factory.mktemp("npz") / "arrays.npz"
    rng = np.random.default_rng(7)
    np.savez(path, big=rng.integers(0, 255, (9 << 20,), np.uint8),
             w=rng.standard_normal((64, 32)).astype(np.float32),
             step=np.int64(7), empty=np.zeros((0, 3), np.float16))
    return path


@pytest.fixture(scope="module")
def checkpoint(cli: str, npz: Path,
               tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a checkpoint in Orbax's format with the same arrays."""
    path = tmp_path_factory.mktemp("ckpt") / "7"
    subprocess.run([cli, "convert", "--quiet", "--to", "orbax", str(npz),
                    str(path)], check=True)
    return path


@pytest.fixture
def place(store: servers.Server) -> str:
    """Returns a directory of the store that no other test uses."""
    return f"{store.root}/{uuid.uuid4().hex}"


def ok(done: subprocess.CompletedProcess[str]) -> str:
    """Returns the output of a command, which must have succeeded."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def sums(folder: Path) -> dict[str, str]:
    """Returns the digests of all files below."""
    return {str(path.relative_to(folder)):
            hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file()}


VERBS = [
    ["ls", "--json"], ["ls", "--long"], ["tree"], ["info", "--json"],
    ["digest"], ["verify", "--json"], ["stats", "--json"], ["plan", "--json"],
]


def neutral(text: str, path: str) -> Any:
    """Returns output without paths and times."""
    if not text.startswith("{"):
        return text.replace(path, "PATH")
    document = json.loads(text)

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: clean(inner) for name, inner in value.items()
                    if not name.endswith("seconds")}
        if isinstance(value, list):
            return [clean(inner) for inner in value]
        return value.replace(path, "PATH") if isinstance(value, str) else value

    return clean(document)


def test_every_verb_says_the_same(run: Run, store: servers.Server, place: str,
                                  checkpoint: Path) -> None:
    """A verb's output does not depend on where the checkpoint is stored."""
    ok(run(store, "cp", str(checkpoint), f"{place}/7"))
    for words in VERBS:
        here = ok(run(store, *words, str(checkpoint)))
        there = ok(run(store, *words, f"{place}/7"))
        assert (neutral(here, str(checkpoint))
                == neutral(there, f"{place}/7")), words
    for name in ["w[3:5, ::-7]", "step", "big[9437000:]"]:
        assert (ok(run(store, "cat", str(checkpoint), name))
                == ok(run(store, "cat", f"{place}/7", name)))
    ok(run(store, "diff", str(checkpoint), f"{place}/7"))


def test_roots(run: Run, store: servers.Server, place: str,
               checkpoint: Path, tmp_path: Path) -> None:
    """Steps of a root are listed, measured, pruned and undeleted."""
    root = tmp_path / "run"
    for step in (1, 2, 3):
        shutil.copytree(checkpoint, root / str(step))
    ok(run(store, "cp", str(root), f"{place}/run"))
    steps = json.loads(ok(run(store, "steps", "--json", f"{place}/run")))
    assert [step["step"] for step in steps["steps"]] == [1, 2, 3]
    assert all(step["committed"] for step in steps["steps"])
    here = json.loads(ok(run(store, "du", "--json", str(root))))
    there = json.loads(ok(run(store, "du", "--json", f"{place}/run")))
    assert here["total_bytes"] == there["total_bytes"]
    assert "3" in ok(run(store, "verify", f"{place}/run"))
    ok(run(store, "prune", f"{place}/run", "--keep-latest", "1", "--yes"))
    steps = json.loads(ok(run(store, "steps", "--json", f"{place}/run")))
    assert [step["step"] for step in steps["steps"] if step["committed"]] == [3]
    ok(run(store, "digest", f"{place}/run"))


def test_conversions(run: Run, store: servers.Server, place: str, npz: Path,
                     checkpoint: Path, tmp_path: Path) -> None:
    """Orbax's formats are written at URLs; others are refused with advice."""
    want = ok(run(store, "digest", str(checkpoint)))
    ok(run(store, "cp", str(npz), f"{place}/arrays.npz"))
    ok(run(store, "convert", "--to", "orbax-v1", f"{place}/arrays.npz",
           f"{place}/v1"))
    assert ok(run(store, "digest", f"{place}/v1")) == want
    ok(run(store, "verify", f"{place}/v1"))
    ok(run(store, "merge", str(checkpoint), f"{place}/v1", f"{place}/mean",
           "--average", "--take-first"))
    ok(run(store, "reshard", f"{place}/v1", f"{place}/sharded",
           "--mesh", "x=2"))
    assert ok(run(store, "digest", f"{place}/sharded")) == want
    for target in ("safetensors", "dcp", "npz"):
        done = run(store, "convert", "--to", target, f"{place}/v1",
                   f"{place}/{target}")
        assert done.returncode == 3
        assert "holdfast cp" in done.stderr
        # Follow the advice of the refusal.
        here = tmp_path / target
        ok(run(store, "convert", "--quiet", "--to", target, f"{place}/v1",
               str(here)))
        ok(run(store, "cp", str(here), f"{place}/{target}"))
        assert ok(run(store, "digest", f"{place}/{target}")) == want
        ok(run(store, "verify", f"{place}/{target}"))


def test_cp_from_anywhere_to_anywhere(run: Run, moto: servers.Server,
                                      gcs: servers.Server,
                                      files: servers.Server, checkpoint: Path,
                                      tmp_path: Path) -> None:
    """cp works between all pairs of places, and keeps all files unchanged."""
    assert files.folder is not None
    shutil.copytree(checkpoint, files.folder / "7", dirs_exist_ok=True)
    name = uuid.uuid4().hex
    both = {"STORAGE_EMULATOR_HOST": gcs.url}
    sources = {"path": str(checkpoint), "s3": f"{moto.root}/{name}/7",
               "gs": f"{gcs.root}/{name}/7", "http": f"{files.url}/7"}
    for url in (sources["s3"], sources["gs"]):
        ok(run(moto, "cp", "--quiet", str(checkpoint), url, **both))
    for source, where in sources.items():
        for target in (f"{moto.root}/{name}/from_{source}",
                       f"{gcs.root}/{name}/from_{source}",
                       str(tmp_path / f"from_{source}")):
            said = json.loads(ok(run(moto, "cp", "--json", "--verify", where,
                                     target, **both)))
            assert said["verified"] and said["kept_file_count"] == 0
            back = tmp_path / "back"
            if "://" in target:
                ok(run(moto, "cp", target, str(back), **both))
                assert sums(back) == sums(checkpoint)
                shutil.rmtree(back)
            else:
                assert sums(Path(target)) == sums(checkpoint)


def test_cp_again(run: Run, store: servers.Server, place: str, checkpoint: Path,
                  tmp_path: Path) -> None:
    """An existing equal file stays; replacing another needs --overwrite."""
    first = json.loads(ok(run(store, "cp", "--json", str(checkpoint),
                              f"{place}/7")))
    again = json.loads(ok(run(store, "cp", "--json", str(checkpoint),
                              f"{place}/7")))
    assert again["kept_file_count"] == first["file_count"]
    inside = json.loads(ok(run(store, "cp", "--json", f"{place}/7",
                               f"{place}/8")))
    assert inside["server_file_count"] == first["file_count"]
    other = tmp_path / "other"
    ok(run(store, "convert", "--quiet", "--select", "w", str(checkpoint),
           str(other)))
    refused = run(store, "cp", str(other), f"{place}/7")
    assert refused.returncode == 3
    assert "overwrite" in refused.stderr
    ok(run(store, "cp", "--overwrite", str(other), f"{place}/7"))
    assert (ok(run(store, "digest", f"{place}/7"))
            == ok(run(store, "digest", str(other))))
    assert "replaced" not in ok(run(store, "steps", place))


def test_cp_that_is_killed(run: Run, cli: str, store: servers.Server,
                           place: str, checkpoint: Path,
                           tmp_path: Path) -> None:
    """An interrupted copy is not a checkpoint; the same call completes it."""
    with servers.chaos(store, latency_ms=400) as slow:
        process = subprocess.Popen([cli, "cp", str(checkpoint), f"{place}/7"],
                                   env=slow.environment(),
                                   stderr=subprocess.DEVNULL)
        # The journal is the first file to appear, long before the last.
        while (process.poll() is None
               and run(store, "cp", f"{place}/7/_HOLDFAST_COPY",
                       str(tmp_path / "journal")).returncode != 0):
            pass
        process.kill()
        process.wait()
    assert run(store, "digest", f"{place}/7").returncode != 0
    ok(run(store, "cp", "--verify", str(checkpoint), f"{place}/7"))
    assert (ok(run(store, "digest", f"{place}/7"))
            == ok(run(store, "digest", str(checkpoint))))


def test_doctor(run: Run, store: servers.Server, place: str,
                tmp_path: Path) -> None:
    """The doctor reports no problems, and leaves nothing behind."""
    said = json.loads(ok(run(store, "doctor", "--json", place)))
    assert said["ok"]
    outcomes = {check["name"]: check["outcome"] for check in said["checks"]}
    assert outcomes == {
        "libcurl": "fine", "credentials": "fine", "connect": "fine",
        "list": "fine", "write": "fine", "read": "fine",
        "conditional write": "fine", "multipart": "fine", "delete": "fine",
        "clock": "fine"}
    assert said["latency_seconds"] > 0
    assert said["read_bytes_per_second"] > 0
    assert said["write_bytes_per_second"] > 0
    assert said["endpoint"].rstrip("/") == store.url
    left = run(store, "cp", place, str(tmp_path / "left"))
    assert "there is no file" in left.stderr
    text = ok(run(store, "doctor", "--read-only", place))
    assert "asked not to write" in text


def test_doctor_of_a_web_server(run: Run, files: servers.Server,
                                checkpoint: Path) -> None:
    """A web server can only be read."""
    assert files.folder is not None
    shutil.copytree(checkpoint, files.folder / "8", dirs_exist_ok=True)
    url = f"{files.url}/8/_CHECKPOINT_METADATA"
    said = json.loads(ok(run(files, "doctor", "--json", url)))
    outcomes = {check["name"]: check["outcome"] for check in said["checks"]}
    assert outcomes["read"] == "fine"
    assert outcomes["list"] == outcomes["write"] == "skipped"
    ok(run(files, "digest", f"{files.url}/8"))


def test_wrong_credentials(run: Run, moto: servers.Server) -> None:
    """Wrong credentials are an error, and no secret is shown."""
    secret = "not-the-secret-at-all"
    done = run(moto, "doctor", f"{moto.root}/x", AWS_SECRET_ACCESS_KEY=secret)
    assert done.returncode == 3
    assert "failed" in done.stdout
    for words in (["doctor", "--json"], ["ls"], ["digest"], ["steps"]):
        said = run(moto, *words, f"{moto.root}/x", AWS_SECRET_ACCESS_KEY=secret)
        assert said.returncode == 3
        for text in (secret, moto.secret_key, moto.access_key):
            assert text not in said.stdout + said.stderr
    said = run(moto, "doctor", f"{moto.root}/x")
    assert moto.secret_key not in said.stdout + said.stderr


def test_nothing_answers(run: Run, moto: servers.Server) -> None:
    """A missing server, bucket, scheme or checkpoint has a clear message."""
    port = servers.free_port()
    done = run(moto, "doctor", "--endpoint", f"http://127.0.0.1:{port}",
               f"{moto.root}/x")
    assert done.returncode == 3
    assert "connect" in done.stdout
    assert run(moto, "ls", "s3://no-such-bucket-here/x").returncode == 3
    assert run(moto, "ls", "ftp://host/x").returncode == 3
    assert "ftp" in run(moto, "ls", "ftp://host/x").stderr
    assert run(moto, "ls", f"{moto.root}/nothing-here").returncode == 3
    assert run(moto, "doctor", "/a/path").returncode == 2


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Path]:
    """Returns a directory tree that is not a checkpoint."""
    tree = tmp_path / "plain"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/c d+é.bin").write_bytes(b"x" * (17 << 20))
    (tree / "empty").write_bytes(b"")
    yield tree


def test_plain_trees_and_files(run: Run, store: servers.Server, place: str,
                               plain: Path, tmp_path: Path) -> None:
    """cp copies any tree, with any names."""
    ok(run(store, "cp", str(plain), f"{place}/tree"))
    ok(run(store, "cp", f"{place}/tree", str(tmp_path / "back")))
    assert sums(tmp_path / "back") == sums(plain)
    ok(run(store, "cp", f"{place}/tree/a/b/c d+é.bin", str(tmp_path / "one")))
    assert (tmp_path / "one").read_bytes() == b"x" * (17 << 20)
