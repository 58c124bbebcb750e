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
import pathlib
import shutil
import tempfile
import zlib

import corpus_runs

FORMATS = ("orbax", "orbax-v1", "megatron-zarr", "safetensors", "dcp",
           "torch-dist", "npz")
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


class Case(corpus_runs.Case):
    """Converts one checkpoint there and back, and counts the ways."""

    fields = ("key", *corpus_runs.Case.fields)

    def __init__(self, args, source, name, formats):
        super().__init__(args, source, name)
        self.formats = formats

    def convert(self):
        scratch = tempfile.mkdtemp(dir=self.args.scratch)
        try:
            self.convert_all(pathlib.Path(scratch))
        finally:
            if not self.args.keep:
                shutil.rmtree(scratch)

    def convert_all(self, scratch):
        source_format, wanted, why = self.digest(self.source)
        if why is not None:
            return  # nobody can read it; check_digests.py says who should
        back = source_format if source_format in FORMATS else "orbax"
        for new_format in self.formats:
            there = str(scratch / new_format) + FILES.get(new_format, "")
            if not self.convert_to(self.source, there, new_format, wanted,
                                   source_format):
                continue
            self.convert_to(there, str(scratch / new_format) + "_back", back,
                            wanted, new_format)

    def convert_to(self, source, target, new_format, wanted, source_format):
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
        self.check_digests(where, target, wanted)
        self.count += 1
        return True


def chosen(name, formats, count):
    """`count` of the formats, the same ones for the same name."""
    first = zlib.crc32(name.encode()) % len(formats)
    turned = formats[first:] + formats[:first]
    return turned[:count] if count else formats


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    corpus_runs.add_arguments(parser)
    parser.add_argument("tarballs", type=pathlib.Path, nargs="+")
    parser.add_argument("--to", action="append", choices=FORMATS)
    parser.add_argument("--sample", type=int, default=0)
    args = parser.parse_args()
    formats = tuple(args.to or FORMATS)
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = pathlib.Path(scratch_name)
        args.scratch = args.keep or scratch / "targets"
        args.scratch.mkdir(parents=True, exist_ok=True)
        cases = []
        for number, tarball in enumerate(args.tarballs):
            root = corpus_runs.unpacked(tarball, scratch / str(number))
            cases += [Case(args, str(path), name,
                           chosen(name, formats, args.sample))
                      for path, name in corpus_runs.sources(root, args.case)]
        corpus_runs.check_all(cases, args.jobs, "conversions with equal digests")


if __name__ == "__main__":
    main()
