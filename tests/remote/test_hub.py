"""Tests hf:// against a fake of Hugging Face's hub, and files and models on a
plain web server, through the command line and, if installed, the package."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hub_fake
import numpy as np
import pytest
import servers

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def safetensors_of(**arrays: np.ndarray) -> bytes:
    """Returns a safetensors file of these float32 arrays."""
    header: dict[str, Any] = {}
    content = b""
    for name, array in arrays.items():
        end = len(content) + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [len(content), end]}
        content += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + content


def model(seed: int) -> dict[str, bytes]:
    """Returns the files of a model: two parts with weights, and other files."""
    rng = np.random.default_rng(seed)
    arrays = {name: rng.standard_normal((100, 70)).astype(np.float32)
              for name in ("a", "b", "c")}
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    index = {"weight_map": {"a": names[0], "b": names[1], "c": names[1]}}
    return {
        names[0]: safetensors_of(a=arrays["a"]),
        names[1]: safetensors_of(b=arrays["b"], c=arrays["c"]),
        "model.safetensors.index.json": json.dumps(index).encode(),
        "README.md": b"# A model\n",
        "config.json": b"{}",
        "extra/one.safetensors": safetensors_of(x=arrays["a"]),
    }


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Writes the files into a folder; returns the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def cache(home: Path, name: str, commit: str, files: dict[str, bytes]) -> Path:
    """Makes an HF_HOME with a snapshot of these files, as the hub's tools
    do."""
    folder = home / "hub" / f"models--{name.replace('/', '--')}"
    write(folder, {"refs/main": commit.encode()})
    for i, (path, content) in enumerate(files.items()):
        blob = write(folder / "blobs", {str(i): content}) / str(i)
        link = folder / "snapshots" / commit / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return home


@pytest.fixture
def hub() -> Iterator[hub_fake.Hub]:
    """Runs a hub with a model; checks at the end that no token leaked."""
    with hub_fake.Hub() as running:
        running.push("org/model", model(1))
        yield running
        assert running.leaked_tokens == []


@pytest.fixture
def hub_run(cli: str, hub: hub_fake.Hub) -> Run:
    """Returns hub_run(*words, **variables), which runs the command with the
    environment for the hub."""
    def run_cli(*words: str,
                **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([cli, *words], capture_output=True, text=True,
                              check=False, timeout=120,
                              env=hub.environment(**variables))
    return run_cli


def ok(done: subprocess.CompletedProcess[str]) -> str:
    """Returns the output of a command, which must have succeeded."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def failed(done: subprocess.CompletedProcess[str]) -> str:
    """Returns the message, on one line, of a command that must have failed."""
    assert done.returncode != 0, done.stdout
    return " ".join(done.stderr.split())


VERBS = [["ls", "--json"], ["ls", "--long"], ["tree"], ["info", "--json"],
         ["digest"], ["verify", "--json"], ["stats", "--json"],
         ["plan", "--json"]]


def neutral(text: str, path: str) -> str:
    """Returns output without paths and times."""
    text = text.replace(path, "PATH")
    return re.sub(r'("\w*seconds": *)[\d.e+-]+', r"\1", text)


def test_every_reading_verb(hub: hub_fake.Hub, hub_run: Run,
                            tmp_path: Path) -> None:
    """A verb's output does not depend on where the model is stored."""
    here = str(write(tmp_path / "here", model(1)))
    for words in VERBS:
        there = ok(hub_run(*words, "hf://org/model"))
        assert (neutral(ok(hub_run(*words, here)), here)
                == neutral(there, "hf://org/model")), words
    for slice_ in ("a[3:5, ::7]", "c"):
        assert (ok(hub_run("cat", here, slice_))
                == ok(hub_run("cat", "hf://org/model@main", slice_)))
    ok(hub_run("diff", here, "hf://org/model"))
    part = "model-00002-of-00002.safetensors"
    assert "b" in ok(hub_run("ls", f"hf://org/model/{part}"))
    assert "x" in ok(hub_run("ls", "hf://org/model/extra"))
    ok(hub_run("convert", "--quiet", "--to", "orbax", "hf://org/model",
               str(tmp_path / "orbax")))
    ok(hub_run("diff", here, str(tmp_path / "orbax")))
    ok(hub_run("cp", "hf://org/model", str(tmp_path / "copy")))
    assert {str(path.relative_to(tmp_path / "copy")): path.read_bytes()
            for path in (tmp_path / "copy").rglob("*") if path.is_file()
            } == model(1)


def test_checkpoints_of_orbax(hub: hub_fake.Hub, hub_run: Run,
                              tmp_path: Path) -> None:
    """A hub can hold files of any format."""
    here = write(tmp_path / "here", model(1))
    ok(hub_run("convert", "--quiet", "--to", "orbax", str(here),
               str(tmp_path / "7")))
    hub.push("datasets/org/orbax",
             {str(path.relative_to(tmp_path)): path.read_bytes()
              for path in (tmp_path / "7").rglob("*") if path.is_file()})
    ok(hub_run("verify", "hf://datasets/org/orbax/7"))
    ok(hub_run("diff", str(here), "hf://datasets/org/orbax/7"))


def test_revisions(hub: hub_fake.Hub, hub_run: Run, tmp_path: Path) -> None:
    """A branch, a pull request and a commit are read, never a mix of two."""
    commit = hub.push("org/model", model(2), "refs/pr/1", "feature/x")
    one = str(write(tmp_path / "1", model(1)))
    two = str(write(tmp_path / "2", model(2)))
    for revision in ("refs/pr/1", "refs%2Fpr%2F1", "feature%2Fx", commit):
        ok(hub_run("diff", two, f"hf://org/model@{revision}"))
    ok(hub_run("diff", one, "hf://org/model"))
    differs = hub_run("diff", "hf://org/model", "hf://org/model@refs/pr/1")
    assert differs.returncode == 1, differs.stderr


def test_a_push_in_mid_read(hub: hub_fake.Hub, hub_run: Run,
                            tmp_path: Path) -> None:
    """All reads are from the commit that was seen first."""
    one = str(write(tmp_path / "1", model(1)))
    two = str(write(tmp_path / "2", model(2)))

    def push(line: str) -> None:
        if line.startswith("files"):
            hub.push("org/model", model(2))

    hub.before_answer = push
    ok(hub_run("diff", one, "hf://org/model"))
    hub.before_answer = lambda _: None
    ok(hub_run("diff", two, "hf://org/model"))


def test_tokens(hub: hub_fake.Hub, hub_run: Run, tmp_path: Path) -> None:
    """Gated and private repositories need a token, from a variable or a
    file."""
    repository = hub.repositories["org/model"]
    repository.is_gated = True
    text = failed(hub_run("ls", "hf://org/model"))
    assert "accept its terms at" in text
    assert "HF_TOKEN" in text
    assert "no token was found" in text
    text = failed(hub_run("ls", "hf://org/model", HF_TOKEN="hf_wrong"))
    assert "the token is that of HF_TOKEN" in text
    assert "hf_wrong" not in text
    ok(hub_run("ls", "hf://org/model", HF_TOKEN=hub_fake.TOKEN))
    (tmp_path / "token").write_text(hub_fake.TOKEN + "\n")
    ok(hub_run("verify", "hf://org/model", HF_HOME=str(tmp_path)))
    text = failed(hub_run("ls", "hf://org/model", "--anonymous",
                          HF_TOKEN=hub_fake.TOKEN))
    assert "no token was found" in text
    repository.is_private = True
    assert "or it is private" in failed(hub_run("ls", "hf://org/model"))
    ok(hub_run("ls", "hf://org/model", HF_TOKEN=hub_fake.TOKEN))


def test_what_is_not_there(hub: hub_fake.Hub, hub_run: Run) -> None:
    """The message names the missing repository, revision or file."""
    wanted = {
        "hf://org/other": "there is no such repository",
        "hf://org/model@v9": 'has no revision "v9"',
        "hf://org/model/x.npz": "hf://org/model/x.npz",
        "hf://model": "want hf://org/model[@revision][/path]",
        "hf://org/model@a%2F..%2Fb": "not a revision's name",
    }
    for url, text in wanted.items():
        assert text in failed(hub_run("ls", url)), url


def test_a_lying_hub(hub: hub_fake.Hub, hub_run: Run) -> None:
    """A tree must not lead out of the repository, nor a next page to another
    server."""
    def escape(tree: list[Any]) -> list[Any]:
        return [*tree, {"type": "file", "oid": "x", "size": 3,
                        "path": "../../.bashrc"}]

    hub.change_tree = escape
    assert "leads out of the repository" in failed(
        hub_run("ls", "hf://org/model"))
    hub.change_tree = lambda tree: tree
    hub.next_page_root = hub.files_url
    assert "on another server" in failed(
        hub_run("ls", "hf://org/model", HF_TOKEN=hub_fake.TOKEN))
    hub.next_page_root = ""
    hub.ignores_ranges = True
    assert "ignores ranges" in failed(hub_run("ls", "hf://org/model"))


def test_the_cache_comes_first(hub: hub_fake.Hub, hub_run: Run,
                               tmp_path: Path) -> None:
    """A complete snapshot is read without requests, a partial one is not."""
    commit = next(iter(hub.repositories["org/model"].commits))
    here = str(write(tmp_path / "here", model(1)))
    home = str(cache(tmp_path / "home", "org/model", commit, model(1)))
    for words in (["diff", here], ["verify"], ["ls"], ["stats"]):
        ok(hub_run(*words, "hf://org/model", HF_HOME=home, HF_HUB_OFFLINE="1"))
        ok(hub_run(*words, f"hf://org/model@{commit}", HF_HOME=home))
    view = str(tmp_path / "view")
    ok(hub_run("view", "hf://org/model", view, HF_HOME=home))
    ok(hub_run("verify", view))
    ok(hub_run("diff", here, view))
    assert hub.requests == []
    (tmp_path / "home/hub/models--org--model/blobs/1").unlink()
    text = failed(hub_run("ls", "hf://org/model", HF_HOME=home,
                          HF_HUB_OFFLINE="1"))
    assert "model-00002-of-00002.safetensors is missing" in text
    assert "hf download org/model" in text
    assert hub.requests == []
    ok(hub_run("diff", here, "hf://org/model", HF_HOME=home))
    assert hub.requests != []
    assert "one is in a file system" in failed(
        hub_run("view", "hf://org/model", f"{view}2", HF_HOME=home))


def test_nothing_is_written(hub: hub_fake.Hub, hub_run: Run,
                            tmp_path: Path) -> None:
    """Nothing is written to a hub, and its files are not written into the
    cache."""
    here = str(write(tmp_path / "here", model(1)))
    commit = next(iter(hub.repositories["org/model"].commits))
    home = cache(tmp_path / "home", "org/model", commit, model(1))
    before = sorted(home.rglob("*"))
    for words in (["convert", "--to", "orbax"], ["convert", "--to", "npz"],
                  ["cp"]):
        for target in ("hf://org/model/new", "hf://org/model"):
            text = failed(hub_run(*words, here, target, HF_HOME=str(home)))
            assert "only read from" in text, (words, text)
    assert sorted(home.rglob("*")) == before


# Web servers, which serve files by path, and models whose files an index lists.


def test_files_of_a_web_server(run: Run, files: servers.Server,
                               tmp_path: Path) -> None:
    """Every reading verb works, and reads by ranges."""
    assert files.folder is not None
    here = write(files.folder / "model", model(1))
    np.savez(files.folder / "arrays.npz", w=np.arange(12.0).reshape(3, 4))
    names = ["model", "model/model.safetensors.index.json",
             "model/model-00002-of-00002.safetensors", "arrays.npz"]
    write(files.folder / "whole", {
        "model.safetensors": model(1)["extra/one.safetensors"]})
    names.append("whole")
    root = str(files.folder)
    for name in names:
        local, url = f"{root}/{name}", f"{files.url}/{name}"
        for words in VERBS:
            assert (neutral(ok(run(files, *words, local)), root)
                    == neutral(ok(run(files, *words, url)), files.url)), words
        ok(run(files, "diff", local, url))
    ok(run(files, "convert", "--quiet", "--to", "orbax", f"{files.url}/model",
           str(tmp_path / "orbax")))
    ok(run(files, "diff", str(here), str(tmp_path / "orbax")))
    for target in ("new", "new.npz"):
        text = failed(run(files, "convert", f"{files.url}/arrays.npz",
                          f"{files.url}/{target}"))
        assert "only read from" in text, text


def test_python(hub: hub_fake.Hub, tmp_path: Path,
                monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's load, open and convert read from the hub."""
    holdfast = pytest.importorskip("holdfast")
    for name, value in hub.environment().items():
        monkeypatch.setenv(name, value)
    here = holdfast.load(str(write(tmp_path / "here", model(1))))
    there = holdfast.load("hf://org/model")
    assert sorted(there) == sorted(here) == ["a", "b", "c"]
    for name in here:
        np.testing.assert_array_equal(there[name], here[name])
    np.testing.assert_array_equal(
        holdfast.open("hf://org/model@main")["b"][3:5], here["b"][3:5])
    holdfast.convert("hf://org/model", tmp_path / "7")
    np.testing.assert_array_equal(holdfast.load(tmp_path / "7")["c"], here["c"])
    commit = hub.push("org/model", model(2))
    assert not np.array_equal(holdfast.load("hf://org/model")["a"], here["a"])
    monkeypatch.setenv("HF_HOME", str(
        cache(tmp_path / "home", "org/model", commit, model(2))))
    mapped = holdfast.load("hf://org/model", mmap="require")
    two = holdfast.load(write(tmp_path / "2", model(2)))
    np.testing.assert_array_equal(mapped["a"], two["a"])
    with pytest.raises(FileNotFoundError, match="no such repository"):
        holdfast.load("hf://org/other")
    with pytest.raises(NotImplementedError, match="only read from"):
        holdfast.save("hf://org/model/7", here)
