#!/usr/bin/env python3
"""Runs every verb under ever tighter system limits.

usage: limits.py HOLDFAST [--long] [--only LIMIT...]

The limits are on memory (address space), threads, descriptors, file size, and
the bytes and inodes of a disk (a small tmpfs, if the user may mount one). Each
run must end by itself with exit code 0 or 3. With 3, it must print a line that
begins with "holdfast: ". Sources must not change. A target must be complete or
absent. The same command without the limit must then succeed. Exit status 1 when
a check fails. Needs only Python's standard library. Each run uses two threads.
"""

import argparse
import collections
import contextlib
import hashlib
import os
import pathlib
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

KIB, MIB = 1 << 10, 1 << 20
NOBODY = 65534
SECONDS_MAX = 120
FINE, FAILED = 0, 3

# Address space in MiB, in addition to what the program needs to print its
# version.
MEMORY = [0, 0.5, 1, 2, 4, 6, 8, 12, 16, 32, 64, 128]
MEMORY_LONG = [step / 8 for step in range(8 * 150)]
THREADS = [1, 2, 3]
DESCRIPTORS = [4, 6, 8, 12, 16, 64]
FILE_BYTES = [0, 100, 4 * KIB, 1 * MIB, 3 * MIB]
DISK_BYTES = [4 * KIB, 64 * KIB, 1 * MIB, 2 * MIB, 4 * MIB]
INODES = [2, 4, 8, 12, 16, 20]


def npy(code, shape, data):
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}}}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return (b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) +
            header.encode() + data)


def write_npz(path, seed):
    """Writes large arrays, which have several chunks and blocks, and small
    arrays."""
    rng = random.Random(seed)
    with zipfile.ZipFile(path, "w") as file:
        for name in "ab":
            row = [rng.gauss(0, 0.02) for _ in range(1000)]
            data = struct.pack("<1000f", *row) * 700
            file.writestr(f"{name}.npy", npy("<f4", (700, 1000), data))
        for i in range(20):
            data = struct.pack("<8d", *[rng.random() for _ in range(8)])
            file.writestr(f"small{i}.npy", npy("<f8", (4, 2), data))


def content(path):
    """Returns the digests of the files below a path, by name, or of one
    file."""
    path = pathlib.Path(path)
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return {str(p.relative_to(path)):
            hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else ""
            for p in sorted(path.rglob("*"))}


class Problem(Exception):
    pass


class Bench:
    """The program, the sources, and the commands that use them."""

    def __init__(self, program, root):
        self.root = root
        self.program = root / "holdfast"
        shutil.copy(program, self.program)
        write_npz(root / "one.npz", 1)
        write_npz(root / "two.npz", 2)
        for target, *words in [
            ("fast", "one.npz", "--to", "orbax", "--compression", "fast"),
            ("zstd", "one.npz", "--to", "orbax-v1"),
            ("raw", "two.npz", "--to", "orbax", "--compression", "none",
             "--ocdbt", "no"),
            ("root/1", "one.npz", "--to", "orbax"),
            ("root/2", "two.npz", "--to", "orbax"),
        ]:
            (root / target).parent.mkdir(exist_ok=True)
            self.must("convert", str(root / words[0]), str(root / target),
                      *words[1:])
        self.sources = ["one.npz", "two.npz", "fast", "zstd", "raw", "root"]
        self.before = self.state()
        for path in [root, *root.rglob("*")]:
            path.chmod(0o777)

    def state(self):
        return {name: content(self.root / name) for name in self.sources}

    def run(self, words, limit=None):
        def set_limit():
            if limit is not None:
                limit()

        return subprocess.run(
            [self.program, *words], capture_output=True, text=True,
            errors="replace", timeout=SECONDS_MAX, preexec_fn=set_limit,
            cwd=self.root, check=False, restore_signals=False,
            stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]})

    def must(self, *words):
        done = self.run(words)
        if done.returncode != FINE:
            raise Problem(f"without a limit: {done.returncode}: {done.stderr}")
        return done

    def readers(self):
        for name in ("fast", "zstd", "raw", "one.npz"):
            yield ["verify", name]
            yield ["stats", name, "--threads", "2"]
            yield ["digest", name, "--threads", "2"]
        for verb in ("ls", "tree", "info", "plan"):
            yield [verb, "fast"]
        yield ["cat", "fast", "a"]
        yield ["cat", "raw", "a"]
        yield ["diff", "fast", "zstd"]
        yield ["steps", "root"]
        yield ["du", "root"]
        yield ["prune", "root", "--keep-latest", "1"]  # lists, without --yes
        yield ["help", "convert"]
        yield ["completion", "bash"]
        yield ["man"]

    def writers(self, target):
        """Yields the commands that make `target`."""
        yield ["convert", "one.npz", target, "--to", "orbax", "--compression",
               "fast", "--threads", "2"]
        yield ["convert", "zstd", target, "--threads", "2"]
        yield ["convert", "fast", target, "--to", "dcp", "--threads", "2"]
        yield ["reshard", "raw", target, "--mesh", "x=2", "--spec", "x,None",
               "--threads", "2"]
        yield ["cp", "fast", target]
        yield ["merge", "fast", "raw", target, "--average", "--threads", "2"]


class Runs:
    def __init__(self, bench):
        self.bench = bench
        # The values that each writer makes, by the writer's number.
        self.values = []
        target = bench.root / "made"
        for words in bench.writers(str(target)):
            bench.must(*words)
            self.values.append(bench.must("digest", str(target)).stdout)
            shutil.rmtree(target)
        self.counts = collections.Counter()
        self.problems = []

    def judge(self, what, words, limit):
        """Runs a command; returns whether it succeeded. Raises Problem if it
        ended in a wrong way."""
        try:
            done = self.bench.run(words, limit)
        except subprocess.TimeoutExpired:
            raise Problem("hangs") from None
        self.counts[what.split()[0], done.returncode] += 1
        if done.returncode not in (FINE, FAILED):
            raise Problem(f"exit code {done.returncode}: "
                          f"{(done.stderr or done.stdout)[-300:]}")
        # `diff` and `verify` may print the reasons in their tables.
        if done.returncode == FAILED and "holdfast: " not in done.stderr:
            if words[0] not in ("diff", "verify") or not done.stdout:
                raise Problem(f"no word of why: {done.stderr[-300:]!r}")
        return done.returncode == FINE

    def check(self, what, words, limit=None, target=None, want=None,
              afterwards=contextlib.nullcontext):
        """Checks one run, and what it leaves."""
        try:
            ok = self.judge(what, words, limit)
            if target is None:
                return ok
            is_there = self.is_whole(target, want)
            if ok and not is_there:
                raise Problem("says that it is done, and nothing is there")
            with afterwards():
                if not is_there:
                    self.bench.must(*words)
                    if not self.is_whole(target, want):
                        raise Problem("nothing is there without the limit")
        except Problem as problem:
            self.problems.append(f"{what}: {' '.join(words)}: {problem}")
            ok = False
        if target is not None:
            for path in target.parent.glob(target.name + "*"):
                shutil.rmtree(path)
        return ok

    def is_whole(self, target, want):
        if not target.exists():
            return False
        done = self.bench.run(["digest", str(target)])
        if done.returncode == FINE and done.stdout == self.values[want]:
            return True
        # An unfinished target must not be readable as a checkpoint.
        if done.returncode == FINE:
            raise Problem(f"what is there is another: {done.stdout[:300]}")
        return False

    def check_all(self, what, limit, target):
        for words in self.bench.readers():
            self.check(what, words, limit)
        for want, words in enumerate(self.bench.writers(str(target))):
            self.check(what, words, limit, target, want)


def limited(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


def least_memory(bench):
    """Returns the address space that the program needs to print its
    version."""
    low, high = 0, 1 << 32
    while high - low > 64 * KIB:
        middle = (low + high) // 2
        done = bench.run(["--version"], limited(resource.RLIMIT_AS, middle))
        low, high = (low, middle) if done.returncode == FINE else (middle, high)
    return high


def memory(runs, is_long):
    least = least_memory(runs.bench)
    for extra in MEMORY_LONG if is_long else MEMORY:
        value = least + int(extra * MIB)
        runs.check_all(f"memory +{extra} MiB", limited(resource.RLIMIT_AS, value),
                       runs.bench.root / "made")


def threads(runs, is_long):
    def limit_to(value):
        def limit():
            if os.geteuid() == 0:  # root has no such limit
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            resource.setrlimit(resource.RLIMIT_NPROC, (value, value))
        return limit

    for value in THREADS:
        runs.check_all(f"threads {value}", limit_to(value),
                       runs.bench.root / "made")


def descriptors(runs, is_long):
    for value in range(4, 65) if is_long else DESCRIPTORS:
        limit = limited(resource.RLIMIT_NOFILE, value)
        if runs.bench.run(["--version"], limit).returncode != FINE:
            continue
        runs.check_all(f"descriptors {value}", limit, runs.bench.root / "made")


def file_size(runs, is_long):
    for value in FILE_BYTES:
        target = runs.bench.root / "made"
        for want, words in enumerate(runs.bench.writers(str(target))):
            runs.check(f"file-size {value}", words,
                       limited(resource.RLIMIT_FSIZE, value), target, want)


def mount(options, where):
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", where],
                          capture_output=True, check=False).returncode == 0


def disk(runs, is_long):
    where = runs.bench.root / "disk"
    where.mkdir()
    limits = [f"size={size}" for size in DISK_BYTES]
    limits += [f"nr_inodes={count}" for count in INODES]

    @contextlib.contextmanager
    def enough():
        subprocess.run(["mount", "-o", "remount,size=64m,nr_inodes=10000",
                        where], check=True)
        yield

    for limit in limits:
        writers = runs.bench.writers(str(where / "made"))
        for want, words in enumerate(writers):
            if not mount(limit, where):
                print("disk: left out: a tmpfs cannot be mounted here")
                return
            try:
                runs.check(f"disk {limit}", words, None, where / "made", want,
                           enough)
            finally:
                subprocess.run(["umount", where], check=True)


LIMITS = {"memory": memory, "threads": threads, "descriptors": descriptors,
          "file-size": file_size, "disk": disk}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("holdfast")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", nargs="*", choices=LIMITS, default=LIMITS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(args.holdfast, pathlib.Path(directory))
        runs = Runs(bench)
        for name in args.only:
            LIMITS[name](runs, args.long)
        if bench.state() != bench.before:
            runs.problems.append("a source was changed")
        for (name, code), count in sorted(runs.counts.items()):
            print(f"{name}: exit code {code}: {count} runs")
        for problem in runs.problems:
            print(problem)
        print(f"{sum(runs.counts.values())} runs, "
              f"{len(runs.problems)} problems")
    sys.exit(1 if runs.problems else 0)


if __name__ == "__main__":
    main()
