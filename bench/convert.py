#!/usr/bin/env python3
"""Times conversions against `cp` of the same files; measures peak memory.

usage: convert.py HOLDFAST [--dir DIR] [--mib N] [--rounds N] [--memory SIZE]

Saves a checkpoint of N MiB (random float32 in 16 arrays, which zstd cannot
compress), then runs in each round, one after the other: `cp -r` of the
checkpoint and a sync; `holdfast convert` to one safetensors file, compared and
synced; `cp` of that file and a sync; `holdfast convert` of that file back,
compared and synced. Sources are in the page cache. Prints medians, array bytes
per second, and the largest resident set of each. Needs the Python package
holdfast on PYTHONPATH, and numpy.
"""

import argparse
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from files import remove

MIB = 1 << 20


def timed(command):
    """Returns the seconds until `command` has ended and everything is on disk,
    its peak memory in KiB, and its CPU seconds."""
    os.sync()
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command}: exit {process.returncode}")
    os.sync()
    return (time.perf_counter() - begin, usage.ru_maxrss,
            usage.ru_utime + usage.ru_stime)


def make_source(path, mib):
    import numpy as np

    import holdfast

    rng = np.random.default_rng(1)
    rows = mib // 16 * MIB // 4 // 4096
    tree = {
        f"layer_{i}": {"w": rng.random((rows, 4096), dtype=np.float32)}
        for i in range(16)
    }
    holdfast.save(path, tree, compression=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("holdfast", type=os.path.abspath)
    parser.add_argument("--dir", default=None)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="256M")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as scratch_name:
        scratch = pathlib.Path(scratch_name)
        orbax, flat = scratch / "orbax", scratch / "m.safetensors"
        new = scratch / "new"
        new_flat = scratch / "new.safetensors"
        # Save in a separate process, because a child's peak memory begins with
        # its parent's.
        maker = multiprocessing.get_context("spawn").Process(
            target=make_source, args=(orbax, args.mib))
        maker.start()
        maker.join()
        convert = [args.holdfast, "convert", "--quiet", "--memory", args.memory]
        none = ["--compression", "none"]
        timed([*convert, "--to", "safetensors", str(orbax), str(flat)])
        ways = {
            "cp -r orbax": (["cp", "-r", str(orbax), str(new)], new),
            "orbax to safetensors": (
                [*convert, "--to", "safetensors", str(orbax), str(new_flat)],
                new_flat),
            "cp safetensors": (["cp", str(flat), str(new_flat)], new_flat),
            "safetensors to orbax": (
                [*convert, *none, "--to", "orbax", str(flat), str(new)], new),
        }
        seconds = {way: [] for way in ways}
        cpu_seconds = {way: [] for way in ways}
        peak_kib = dict.fromkeys(ways, 0)
        for _ in range(args.rounds):
            for way, (command, target) in ways.items():
                took, kib, cpu = timed(command)
                seconds[way].append(took)
                cpu_seconds[way].append(cpu)
                peak_kib[way] = max(peak_kib[way], kib)
                remove(target)
    print(f"{args.mib} MiB, --memory {args.memory}, {args.rounds} rounds, "
          "medians")
    print("| what | seconds | MiB/s | CPU seconds | peak MiB |")
    print("|---|--:|--:|--:|--:|")
    for way, all_seconds in seconds.items():
        median = statistics.median(all_seconds)
        print(f"| {way} | {median:.2f} | {args.mib / median:.0f} | "
              f"{statistics.median(cpu_seconds[way]):.2f} | "
              f"{peak_kib[way] / 1024:.0f} |")


if __name__ == "__main__":
    main()
