#!/usr/bin/env python3
"""Converts checkpoints that Orbax and Megatron wrote to every format and back.

usage: check_formats.py HOLDFAST TARBALL... [--case PATTERN] [--to FORMAT...]
                        [--jobs N] [--sample N] [--keep DIR]

A TARBALL has checkpoints of Orbax (see check_digests.py) or of Megatron
(tests/golden/megatron). Each checkpoint is converted to each format in little
memory, and from there back to its original format, or to Orbax's if holdfast
does not write that format. Every leaf must keep its name, key, kind, dtype,
shape and value: `holdfast digest --json` of all three must be equal. --sample N
tries only N formats for each checkpoint, which depend on its name. Exit status
1 when something differs. Needs only Python's standard library.
"""

import argparse
import pathlib
import shutil
import tempfile
import zlib

import corpus_runs

FORMATS = ("orbax", "orbax-v1", "megatron-zarr", "safetensors", "dcp",
           "torch-dist", "npz")
# Formats of a single file, and the ending of its name.
FILES = {"safetensors": ".safetensors", "npz": ".npz"}
# Checkpoints that holdfast refuses to convert to any format, with a part of the
# message.
REFUSED = {
    "mgr_composite": ("neither a tree nor JSON",
                      "TypeHandler", "no reader"),
}
# Conversions from Orbax to Orbax that are refused because Orbax itself cannot
# store the values.
REFUSED_TO_ORBAX = {
    "legacy_0523_zero_size": "Cannot save arrays with zero size",
    "legacy_053_aggregate_rich": "holds bytes, which only old formats can",
}


class Case(corpus_runs.Case):
    """Converts a checkpoint to other formats and back; `count` is the number
    of formats."""

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
            return  # not readable; check_digests.py knows which ones must be
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
        done = self.run("convert", "--quiet", "--memory=1M", "--to", new_format,
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
    """Returns `count` of the formats, always the same for a name."""
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
