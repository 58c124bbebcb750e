#!/usr/bin/env python3
"""Runs every verb while an allocation fails, at points across the whole run.

usage: failing_malloc.py HOLDFAST LIBRARY [--samples N] [--seed S]

LIBRARY is the library built from failing_malloc.c. For each command of
limits.py, the allocations are counted. Then the k-th allocation fails, for N
values of k: only this one, or all later allocations too, or all later large
ones. Each run must end by itself with exit code 0 or 3. With 3, it must print a
line that begins with "holdfast: " and mentions memory. Sources must not change.
A new target must be complete or absent; a target that existed must be complete,
old or new. The same command must then succeed. Exit status 1 when a check
fails. Needs nm, and only Python's standard library. Each run uses two threads.
"""

import argparse
import itertools
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import limits

SECONDS_MAX = 60
# After the k-th allocation, those of more than this many bytes fail, too.
ABOVE = {"one": None, "all": 0, "large": 4096}
OLD = "raw"  # the checkpoint that is replaced
# The destructor of nlohmann's json allocates memory, and must not throw: if the
# allocation failed, every program would end there. So it never fails.
SPARED = re.compile(r"^(\w+) (\w+) . \S*basic_json\S*json_value7destroyE", re.M)


def spared(program):
    symbols = subprocess.run(["nm", "-S", program], capture_output=True,
                             text=True, check=True).stdout
    ranges = [(int(start, 16), int(size, 16))
              for start, size in SPARED.findall(symbols)]
    return ",".join(f"{start:x}-{start + size:x}" for start, size in ranges)


class Bench(limits.Bench):
    """Runs a command; `limit` is the environment, or None."""

    last = None

    def __init__(self, program, library, root):
        super().__init__(program, root)
        self.library = library
        self.spared = spared(program)

    def run(self, words, limit=None):
        if limit is None:
            return super().run(words)
        program, self.program = self.program, "env"
        try:
            variables = {"LD_PRELOAD": self.library,
                         "HOLDFAST_SPARE_MALLOC": self.spared, **limit}
            texts = [f"{name}={value}" for name, value in variables.items()]
            self.last = super().run([*texts, program, *words])
        finally:
            self.program = program
        return self.last

    def count(self, words):
        """Returns the number of allocations that a command makes."""
        path = self.root / "count"
        done = self.run(words, {"HOLDFAST_COUNT_MALLOC": path})
        if done.returncode != limits.FINE:
            raise limits.Problem(f"{words}: {done.returncode}: {done.stderr}")
        return int(path.read_text())


class Runs(limits.Runs):
    def judge(self, what, words, limit):
        is_fine = super().judge(what, words, limit)
        done = self.bench.last
        if not is_fine and "memory" not in done.stderr + done.stdout:
            raise limits.Problem(f"no word of memory: {done.stderr[-300:]!r}")
        return is_fine

    def check_overwrite(self, what, words, limit, target, want):
        """Checks one run that overwrites an existing checkpoint."""
        shutil.copytree(self.bench.root / OLD, target)
        old = self.bench.must("digest", str(target)).stdout
        try:
            is_fine = self.judge(what, [*words, "--overwrite"], limit)
            new = self.values[want]
            found = self.bench.must("digest", str(target)).stdout
            if found != new and (is_fine or found != old):
                raise limits.Problem("what is there is another")
        except limits.Problem as problem:
            self.problems.append(
                f"{what}: {' '.join(words)} --overwrite: {problem}")
        for path in target.parent.glob(target.name + "*"):
            shutil.rmtree(path)


def failures(count, samples, rng):
    """Yields `samples` points, one in each part of the run, and what fails
    there."""
    kinds = itertools.cycle(ABOVE.items())
    for i, (kind, above) in zip(range(samples), kinds, strict=False):
        first, end = i * count // samples, (i + 1) * count // samples
        k = 1 + rng.randrange(first, max(end, first + 1))
        environment = {"HOLDFAST_FAIL_MALLOC_AT": k}
        if above is not None:
            environment["HOLDFAST_FAIL_MALLOC_ABOVE"] = above
        yield f"{kind} from {k} of {count}", environment


def check_readers(runs, samples, rng):
    for words in runs.bench.readers():
        count = runs.bench.count(words)
        for what, environment in failures(count, samples, rng):
            runs.check(what, words, environment)


def check_writers(runs, samples, rng):
    """Checks the commands that write, alternately to a new path and over an
    existing checkpoint."""
    target = runs.bench.root / "made"
    for want, words in enumerate(runs.bench.writers(str(target))):
        count = runs.bench.count(words)
        shutil.rmtree(target)
        checks = itertools.cycle([runs.check, runs.check_overwrite])
        found = failures(count, samples, rng)
        for check, (what, environment) in zip(checks, found, strict=False):
            check(what, words, environment, target, want)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("holdfast")
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    limits.SECONDS_MAX = SECONDS_MAX
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(args.holdfast, args.library.resolve(),
                      pathlib.Path(directory))
        runs = Runs(bench)
        rng = random.Random(args.seed)
        check_readers(runs, args.samples, rng)
        check_writers(runs, args.samples, rng)
        if bench.state() != bench.before:
            runs.problems.append("a source was changed")
    for (name, code), count in sorted(runs.counts.items()):
        print(f"{name}: exit code {code}: {count} runs")
    for problem in runs.problems:
        print(problem)
    print(f"{sum(runs.counts.values())} runs, {len(runs.problems)} problems")
    sys.exit(1 if runs.problems else 0)


if __name__ == "__main__":
    main()
