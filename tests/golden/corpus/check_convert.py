#!/usr/bin/env python3
"""Converts Orbax's own checkpoints, and compares digests of source and target.

usage: check_convert.py HOLDFAST TARBALL [--case PATTERN] [--jobs N]
                        [--mpiexec COMMAND] [--keep DIR]

TARBALL is the one that check_digests.py uses. Each checkpoint is converted in
little memory, with options that depend on its name. Every leaf must keep its
name, kind, dtype, shape and value, and the target must verify. With --mpiexec
(such as "mpirun -n 3") several processes share each conversion. Exit status 1
when something differs. Needs only Python's standard library.
"""

import argparse
import pathlib
import shlex
import tempfile
import zlib

import corpus_runs

# Checkpoints that holdfast refuses to convert, with a part of the message.
REFUSED = {
    "legacy_0523_zero_size": "Cannot save arrays with zero size",
    "legacy_053_aggregate_rich": "holds bytes, which only old formats can",
    "mgr_composite": "neither a tree nor JSON",
}
CHOICES = (
    ("", "--to=orbax", "--to=orbax-v1"),
    ("", "--zarr-format=2", "--zarr-format=3"),
    ("", "--ocdbt=yes", "--ocdbt=no"),
    ("", "--compression=fast", "--compression=none"),
    ("", "--chunk-bytes=64", "--chunk-bytes=0", "--chunk-bytes=1000"),
    ("", "--memory=1000", "--memory=64K"),
)


def options_of(case):
    """Returns an option from each choice, always the same for a name."""
    seed = zlib.crc32(case.encode())
    chosen = []
    for choice in CHOICES:
        option = choice[seed % len(choice)]
        seed //= len(choice)
        if option:
            chosen.append(option)
    return chosen


class Case(corpus_runs.Case):
    """Converts a checkpoint; `count` is the number of its leaves."""

    def __init__(self, args, source, name, target):
        super().__init__(args, source, name)
        self.target = target

    def convert(self):
        _, wanted, why = self.digest(self.source)
        if why is not None:
            return  # not readable; check_digests.py knows which ones must be
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
        self.check_digests(where, self.target, wanted)
        self.count += len(wanted)
        verified = self.run("verify", "--quiet", self.target)
        if verified.returncode != 0:
            self.lines.append(f"{where}: verify: {verified.stdout}"
                              f"{verified.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    corpus_runs.add_arguments(parser)
    parser.add_argument("tarball", type=pathlib.Path)
    parser.add_argument("--mpiexec", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = pathlib.Path(scratch_name)
        root = corpus_runs.unpacked(args.tarball, scratch)
        targets = args.keep or scratch / "targets"
        targets.mkdir(parents=True, exist_ok=True)
        cases = [Case(args, str(path), name,
                      str(targets / name.replace("/", "_")))
                 for path, name in corpus_runs.sources(root, args.case)]
        corpus_runs.check_all(cases, args.jobs, "leaves equal")


if __name__ == "__main__":
    main()
