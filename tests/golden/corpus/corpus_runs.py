"""Shared code of the corpora's checks: cases, and the report on all cases."""

import concurrent.futures
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tarfile


class Case:
    """A checkpoint that is converted; `lines` are its problems.

    Each check defines its own `convert()`, and what `count` counts.
    """

    fields = ("name", "kind", "dtype", "shape", "sha256", "prng_impl")

    def __init__(self, args, source, name):
        self.args = args
        self.source = source
        self.name = name
        self.lines = []
        self.count = 0

    def run(self, *words, launcher=()):
        return subprocess.run([*launcher, self.args.holdfast, *words],
                              capture_output=True, text=True, check=False,
                              timeout=300)

    def digest(self, path):
        """Returns (format, {name: fields}, None) or (None, None, error)."""
        done = self.run("digest", "--json", path)
        if done.returncode != 0:
            return None, None, done.stderr.strip()
        found = json.loads(done.stdout)
        return found["format"], {
            leaf["name"]: [leaf.get(field) for field in self.fields]
            for leaf in found["leaves"]}, None

    def check_digests(self, where, path, wanted):
        _, got, why = self.digest(path)
        if got != wanted:
            self.lines.append(f"{where}: {why or difference(wanted, got)}")

    def check(self):
        try:
            self.convert()
        except (subprocess.TimeoutExpired, ValueError) as error:
            self.lines.append(f"{self.name}: {error}")
        return self


def difference(wanted, got):
    for name, leaf in wanted.items():
        if got.get(name) != leaf:
            return f"{name!r}: got {got.get(name)}, want {leaf}"
    return f"more leaves: {sorted(set(got) - set(wanted))[:5]}"


def sources(root, pattern):
    """Yields (path, name) for each Orbax or Megatron checkpoint below
    `root`."""
    for case in sorted(root.iterdir()):
        expected = case / "expected.json"
        if not expected.exists() or not fnmatch.fnmatch(case.name, pattern):
            continue
        description = json.loads(expected.read_text(encoding="utf-8"))
        if (case / "ckpt").exists() and "backend" in description:
            yield case / "ckpt", case.name
        elif "root" in description:
            yield case / description["root"], case.name
        else:
            for item in description.get("items", ()):
                yield case / item["path"], f"{case.name}/{item['path']}"


def unpacked(tarball, folder):
    """Unpacks a tarball into `folder`; returns the directory of its cases."""
    with tarfile.open(tarball) as tar:
        tar.extractall(folder)
    return folder / "open"


def add_arguments(parser):
    parser.add_argument("holdfast", type=os.path.abspath)
    parser.add_argument("--case", default="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=pathlib.Path)


def check_all(cases, jobs, counted):
    """Checks all cases, prints their problems, and ends the program."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(Case.check, cases))
    lines = [line for case in done for line in case.lines]
    print("\n".join(lines))
    print(f"{len(done)} checkpoints, {sum(case.count for case in done)} "
          f"{counted}, {len(lines)} problems")
    sys.exit(1 if lines or not done else 0)
