#!/usr/bin/env python3
"""Copies the corpora to object stores with `holdfast cp` and compares digests.

usage: check_corpus_remote.py HOLDFAST CORPUS_TARBALL [MEGATRON_TARBALL]
           [--store moto|gcs|ceph ...] [--sample N]

In the store, each case of Orbax's corpus must have the digests of its
expected.json and verify; each Megatron checkpoint must have the digests that it
has on disk. Then it is copied back, and all files must be unchanged. --sample N
checks every N-th case. Exit status 1 when a check fails.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "golden/corpus")]

import check_digests  # noqa: E402
import servers  # noqa: E402

STORES = {"moto": servers.moto, "gcs": servers.gcs, "ceph": servers.ceph}


# Cases with a line end in a parameter's name. Google forbids line ends in keys,
# and moto does not find such keys; Ceph supports them.
UNSTORABLE = {kind: {"keys_odd_zarr2_dirs"} for kind in ("gcs", "moto")}


class RemoteChecker(check_digests.Checker):  # type: ignore[misc]
    """Checks one case by its expected.json, at a URL."""

    def __init__(self, binary: str, case: Path, url: str,
                 environment: dict[str, str]) -> None:
        super().__init__(binary, case)
        self.url = url
        self.environment = environment

    def run(self, *args: str) -> tuple[int, Any, str]:
        """Runs the command with the case's URL instead of its path."""
        *words, path = args
        done = subprocess.run(
            [self.binary, *words, f"{self.url}/{path}"], capture_output=True,
            timeout=self.timeout_seconds, check=False, env=self.environment)
        parsed = json.loads(done.stdout) if done.stdout.strip() else None
        return done.returncode, parsed, done.stderr.decode("utf-8", "replace")


class Copier:
    """Copies each case to one store and back."""

    def __init__(self, binary: str, kind: str, server: servers.Server,
                 work: Path) -> None:
        self.unstorable = UNSTORABLE.get(kind, set())
        self.binary = binary
        self.root = server.root
        self.environment = server.environment()
        self.work = work

    def call(self, *words: str) -> str:
        """Returns the command's output; raises RuntimeError if it fails."""
        done = subprocess.run([self.binary, *words], capture_output=True,
                              check=False, env=self.environment)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}: "
                               f"{done.stderr.decode('utf-8', 'replace')}")
        return done.stdout.decode("utf-8", "replace")

    def check_case(self, case: Path) -> list[str]:
        """Checks a case of Orbax's corpus; returns the mismatches."""
        url = f"{self.root}/orbax/{case.name}"
        if not files_of(case / "ckpt"):
            return []
        if case.name in self.unstorable:
            return self.check_refused(case, f"{url}/ckpt")
        try:
            self.call("cp", "--quiet", str(case / "ckpt"), f"{url}/ckpt")
            checker = RemoteChecker(self.binary, case, url, self.environment)
            lines: list[str] = checker.check().lines
            return lines + self.check_back(case / "ckpt", f"{url}/ckpt")
        except RuntimeError as error:
            return [f"{case.name}: {error}"]

    def check_refused(self, case: Path, url: str) -> list[str]:
        """Checks a case with a name that the store cannot hold."""
        try:
            self.call("cp", "--quiet", str(case / "ckpt"), url)
        except RuntimeError:
            return []
        return [f"{case.name}: was copied, though a name has a line end"]

    def check_megatron(self, checkpoint: Path, name: str) -> list[str]:
        """Checks a Megatron checkpoint; returns the mismatches."""
        url = f"{self.root}/megatron/{name}"
        try:
            self.call("cp", "--quiet", str(checkpoint), url)
            here = digests_of(self.call("digest", "--json", str(checkpoint)))
            there = digests_of(self.call("digest", "--json", url))
            if here != there:
                return [f"{name}: digests differ"]
            return self.check_back(checkpoint, url)
        except RuntimeError as error:
            return [f"{name}: {error}"]

    def check_back(self, source: Path, url: str) -> list[str]:
        """Checks that a copy of the copy has the same files."""
        back = self.work / url.replace("/", "_").replace(":", "_")
        self.call("cp", "--quiet", url, str(back))
        # Unfinished saves are not copied.
        want = {name: content for name, content in files_of(source).items()
                if ".orbax-checkpoint-tmp/" not in name}
        got = files_of(back)
        # In an object store, a marker commits a step.
        added = {name for name in got.keys() - want.keys()
                 if name.endswith("commit_success.txt")}
        different = sorted(name for name in want.keys() | got.keys()
                           if want.get(name) != got.get(name)
                           and name not in added)
        return [f"{url}: {name} differs" for name in different]


def files_of(folder: Path) -> dict[str, bytes]:
    """Returns the contents of all files below; for a file, its own content."""
    if folder.is_file():
        return {"": folder.read_bytes()}
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


def digests_of(text: str) -> list[tuple[str, str]]:
    """Returns names and digests, without the path."""
    return [(leaf["name"], leaf.get("sha256") or leaf.get("error", ""))
            for leaf in json.loads(text)["leaves"]]


@contextlib.contextmanager
def unpacked(tarball: str) -> Iterator[Path]:
    """Unpacks the folder `open` of a tarball; a folder is used as it is."""
    if os.path.isdir(tarball):
        yield Path(tarball)
        return
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(tarball) as archive:
            archive.extractall(folder)  # no filter: Python 3.11.2 has none
        yield Path(folder) / "open"


def megatron_checkpoints(root: Path) -> list[tuple[Path, str]]:
    """Returns the readable checkpoints below `root`, and names for them."""
    found = []
    for head in sorted(root.rglob("metadata.json")):
        text = json.loads(head.read_text())
        if isinstance(text, dict) and "sharded_backend" in text:
            found.append((head.parent,
                          str(head.parent.relative_to(root)).replace("/", ".")))
    return found


def is_readable(binary: str, checkpoint: Path) -> bool:
    """Whether the command can compute its digests."""
    return subprocess.run([binary, "digest", "--quiet", str(checkpoint)],
                          capture_output=True, check=False).returncode == 0


def check(binary: str, kind: str, corpus: Path, megatron: Path | None,
          sample: int) -> list[str]:
    """Returns all mismatches at one store."""
    cases = sorted(path for path in corpus.iterdir()
                   if (path / "expected.json").is_file())[::sample]
    others = megatron_checkpoints(megatron)[::sample] if megatron else []
    others = [(path, name) for path, name in others
              if is_readable(binary, path)]
    with (tempfile.TemporaryDirectory() as work, STORES[kind]() as server,
          concurrent.futures.ThreadPoolExecutor(2) as pool):
        copier = Copier(binary, kind, server, Path(work))
        jobs = [pool.submit(copier.check_case, case) for case in cases]
        jobs += [pool.submit(copier.check_megatron, path, name)
                 for path, name in others]
        lines = [line for job in jobs for line in job.result()]
    print(f"{kind}: {len(cases)} cases of Orbax's, {len(others)} of "
          f"Megatron's, {len(lines)} mismatches", flush=True)
    return [f"{kind}: {line}" for line in lines]


def main() -> int:
    """Runs the checks that the module's docstring describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("holdfast")
    parser.add_argument("corpus")
    parser.add_argument("megatron", nargs="?")
    parser.add_argument("--store", nargs="+", choices=STORES,
                        default=["moto", "gcs"])
    parser.add_argument("--sample", type=int, default=1)
    args = parser.parse_args()
    binary = str(Path(args.holdfast).resolve())
    with contextlib.ExitStack() as stack:
        corpus = stack.enter_context(unpacked(args.corpus))
        megatron = (stack.enter_context(unpacked(args.megatron))
                    if args.megatron else None)
        lines = [line for kind in args.store
                 for line in check(binary, kind, corpus, megatron, args.sample)]
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
