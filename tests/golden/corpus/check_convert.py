#!/usr/bin/env python3
"""Converts Orbax's own checkpoints, and compares digests of source and target.

usage: check_convert.py HOLDFAST TARBALL [--case PATTERN] [--jobs N]
                        [--mpiexec COMMAND] [--keep DIR]

TARBALL is as for check_digests.py. Each checkpoint is converted with options
that its name chooses, in little memory; every leaf must keep its name, kind,
dtype, shape and value, and the target must verify. With --mpiexec (such as
"mpirun -n 3") each conversion is split over processes. Exit status 1 when
something differs. Python's standard library only.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tarfile
import tempfile
import zlib

# Checkpoints that holdfast refuses to convert, with a part of its words.
REFUSED = {
    "legacy_0523_zero_size": "Cannot save arrays with zero size",
    "legacy_053_aggregate_rich": "holds bytes, which only old formats can",
    "mgr_composite": "neither a tree nor JSON",
}
CHOICES = (
    ("", "--to=orbax", "--to=orbax-v1"),
    ("", "--zarr=2", "--zarr=3"),
    ("", "--ocdbt=yes", "--ocdbt=no"),
    ("", "--compression=fast", "--compression=none"),
    ("", "--chunk-bytes=64", "--chunk-bytes=0", "--chunk-bytes=1000"),
    ("", "--ram=1000", "--ram=64K"),
)
FIELDS = ("name", "kind", "dtype", "shape", "sha256", "prng_impl")


def options_of(case):
    """Some of each choice, the same ones for the same name."""
    seed = zlib.crc32(case.encode())
    chosen = []
    for choice in CHOICES:
        option = choice[seed % len(choice)]
        seed //= len(choice)
        if option:
            chosen.append(option)
    return chosen


class Case:
    """Converts one checkpoint; `lines` are its problems."""

    def __init__(self, args, source, name, target):
        self.args = args
        self.source = source
        self.name = name
        self.target = target
        self.lines = []
        self.leaf_count = 0

    def run(self, *words, launcher=()):
        return subprocess.run([*launcher, self.args.holdfast, *words],
                              capture_output=True, text=True, check=False,
                              timeout=300)

    def digest(self, path):
        done = self.run("digest", "--json", path)
        if done.returncode != 0:
            return None, done.stderr.strip()
        leaves = json.loads(done.stdout)["leaves"]
        return {leaf["name"]: [leaf.get(field) for field in FIELDS]
                for leaf in leaves}, None

    def check(self):
        try:
            self.convert()
        except (subprocess.TimeoutExpired, ValueError) as error:
            self.lines.append(f"{self.name}: {error}")
        return self

    def convert(self):
        wanted, why = self.digest(self.source)
        if why is not None:
            return  # nobody can read it; check_digests.py says who should
        options = options_of(self.name)
        launcher = shlex.split(self.args.mpiexec)
        done = self.run("convert", "--json", *options, self.source,
                        self.target, launcher=launcher)
        where = f"{self.name} {' '.join(options)}"
        refusal = REFUSED.get(self.name.split("/")[0])
        if refusal is not None:
            if done.returncode == 0 or refusal not in done.stderr:
                self.lines.append(f"{where}: exit {done.returncode}, want "
                                  f"{refusal!r}: {done.stderr.strip()}")
            return
        if done.returncode != 0:
            self.lines.append(f"{where}: {done.stderr.strip()[:600]}")
            return
        got, why = self.digest(self.target)
        if got != wanted:
            self.lines.append(f"{where}: {why or difference(wanted, got)}")
        self.leaf_count += len(wanted)
        verified = self.run("verify", "--quiet", self.target)
        if verified.returncode != 0:
            self.lines.append(f"{where}: verify: {verified.stdout}"
                              f"{verified.stderr}")


def difference(wanted, got):
    for name, leaf in wanted.items():
        if got.get(name) != leaf:
            return f"{name!r}: got {got.get(name)}, want {leaf}"
    return f"more leaves: {sorted(set(got) - set(wanted))[:5]}"


def sources(root, pattern):
    """(path, name) of each checkpoint below `root`."""
    for case in sorted(root.iterdir()):
        expected = case / "expected.json"
        if not expected.exists() or not fnmatch.fnmatch(case.name, pattern):
            continue
        description = json.loads(expected.read_text(encoding="utf-8"))
        if "root" in description:
            yield case / description["root"], case.name
        else:
            for item in description["items"]:
                yield case / item["path"], f"{case.name}/{item['path']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("holdfast", type=os.path.abspath)
    parser.add_argument("tarball", type=pathlib.Path)
    parser.add_argument("--case", default="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--mpiexec", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = pathlib.Path(scratch_name)
        with tarfile.open(args.tarball) as tar:
            tar.extractall(scratch)
        targets = args.keep or scratch / "targets"
        targets.mkdir(parents=True, exist_ok=True)
        cases = [Case(args, str(path), name,
                      str(targets / name.replace("/", "_")))
                 for path, name in sources(scratch / "open", args.case)]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            done = list(pool.map(Case.check, cases))
    lines = [line for case in done for line in case.lines]
    print("\n".join(lines))
    print(f"{len(done)} checkpoints, {sum(c.leaf_count for c in done)} leaves "
          f"equal, {len(lines)} problems")
    sys.exit(1 if lines or not done else 0)


if __name__ == "__main__":
    main()
