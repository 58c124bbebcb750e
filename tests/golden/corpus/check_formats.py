#!/usr/bin/env python3
"""Converts checkpoints of the real tools to every format and back.

usage: check_formats.py HOLDFAST TARBALL... [--case PATTERN] [--to FORMAT...]
                        [--jobs N] [--sample N] [--keep DIR]

A TARBALL is of Orbax's checkpoints (as for check_digests.py) or of Megatron's
(tests/golden/megatron). Each checkpoint is converted to each format in little
memory, and from there back to the format that it had (Orbax's where nothing
writes it). Every leaf must keep its name, key, kind, dtype, shape and value:
`holdfast digest --json` of all three must be equal. --sample N: N formats a
checkpoint, chosen by its name. Exit status 1 when something differs. Python's
standard library only.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib

FORMATS = ("orbax", "orbax-v1", "megatron-zarr", "safetensors", "dcp",
           "torch-dist", "npz")
FIELDS = ("name", "key", "kind", "dtype", "shape", "sha256", "prng_impl")
# Formats that are one file, and how its name ends.
FILES = {"safetensors": ".safetensors", "npz": ".npz"}
# Checkpoints that holdfast refuses to convert, whatever the target: with a part
# of its words.
REFUSED = {
    "mgr_composite": ("neither a tree nor JSON",
                      "TypeHandler", "no reader"),
}
# Orbax to Orbax without rules keeps to what Orbax itself can store.
REFUSED_TO_ORBAX = {
    "legacy_0523_zero_size": "Cannot save arrays with zero size",
    "legacy_053_aggregate_rich": "holds bytes, which only old formats can",
}


class Case:
    """Converts one checkpoint; `lines` are its problems."""

    def __init__(self, args, source, name, formats):
        self.args = args
        self.source = source
        self.name = name
        self.formats = formats
        self.lines = []
        self.way_count = 0

    def run(self, *words):
        return subprocess.run([self.args.holdfast, *words],
                              capture_output=True, text=True, check=False,
                              timeout=300)

    def digest(self, path):
        done = self.run("digest", "--json", path)
        if done.returncode != 0:
            return None, None, done.stderr.strip()
        found = json.loads(done.stdout)
        return found["format"], {
            leaf["name"]: [leaf.get(field) for field in FIELDS]
            for leaf in found["leaves"]}, None

    def check(self):
        scratch = tempfile.mkdtemp(dir=self.args.scratch)
        try:
            self.convert_all(pathlib.Path(scratch))
        except (subprocess.TimeoutExpired, ValueError) as error:
            self.lines.append(f"{self.name}: {error}")
        finally:
            if not self.args.keep:
                shutil.rmtree(scratch)
        return self

    def convert_all(self, scratch):
        source_format, wanted, why = self.digest(self.source)
        if why is not None:
            return  # nobody can read it; check_digests.py says who should
        back = source_format if source_format in FORMATS else "orbax"
        for new_format in self.formats:
            there = str(scratch / new_format) + FILES.get(new_format, "")
            if not self.convert(self.source, there, new_format, wanted,
                                source_format):
                continue
            self.convert(there, str(scratch / new_format) + "_back", back,
                         wanted, new_format)

    def convert(self, source, target, new_format, wanted, source_format):
        where = f"{self.name} {source_format} -> {new_format}"
        done = self.run("convert", "--quiet", "--ram=1M", "--to", new_format,
                        source, target)
        case = self.name.split("/")[0]
        refusals = list(REFUSED.get(case, ()))
        if source_format.startswith("orbax") and new_format.startswith("orbax"):
            refusals.append(REFUSED_TO_ORBAX.get(case, "\0"))
        if done.returncode != 0:
            if not any(text in done.stderr for text in refusals):
                self.lines.append(f"{where}: {done.stderr.strip()[:500]}")
            return False
        _, got, why = self.digest(target)
        if got != wanted:
            self.lines.append(f"{where}: {why or difference(wanted, got)}")
        self.way_count += 1
        return True


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
        if (case / "ckpt").exists() and "backend" in description:
            yield case / "ckpt", case.name
        elif "root" in description:
            yield case / description["root"], case.name
        else:
            for item in description.get("items", ()):
                yield case / item["path"], f"{case.name}/{item['path']}"


def chosen(name, formats, count):
    """`count` of the formats, the same ones for the same name."""
    first = zlib.crc32(name.encode()) % len(formats)
    turned = formats[first:] + formats[:first]
    return turned[:count] if count else formats


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("holdfast", type=os.path.abspath)
    parser.add_argument("tarballs", type=pathlib.Path, nargs="+")
    parser.add_argument("--case", default="*")
    parser.add_argument("--to", action="append", choices=FORMATS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    formats = tuple(args.to or FORMATS)
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = pathlib.Path(scratch_name)
        args.scratch = args.keep or scratch / "targets"
        args.scratch.mkdir(parents=True, exist_ok=True)
        cases = []
        for number, tarball in enumerate(args.tarballs):
            root = scratch / str(number)
            with tarfile.open(tarball) as tar:
                tar.extractall(root)
            cases += [Case(args, str(path), name,
                           chosen(name, formats, args.sample))
                      for path, name in sources(root / "open", args.case)]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            done = list(pool.map(Case.check, cases))
    lines = [line for case in done for line in case.lines]
    print("\n".join(lines))
    print(f"{len(done)} checkpoints, {sum(c.way_count for c in done)} "
          f"conversions with equal digests, {len(lines)} problems")
    sys.exit(1 if lines or not done else 0)


if __name__ == "__main__":
    main()
