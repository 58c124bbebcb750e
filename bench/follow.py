#!/usr/bin/env python3
"""Times a Follower that applies one delta, against reading the full step.

usage: bench/follow.py [--mib N] [--rounds N] [--rate R] [--dir SCRATCH]

bf16 weights of N MiB in matrices of 16 MiB; an update changes about 1 %.
In each round, a step is saved in full and as a delta, a follower applies the
delta, and a load of the full step fills another array. Prints medians in
seconds, also of both saves (with their syncs).
"""

import argparse
import pathlib
import shutil
import statistics
import tempfile
import time

import ml_dtypes
import numpy as np

import holdfast

MATRIX = (2048, 4096)  # 16 MiB


def bits(values):
    return values.astype(ml_dtypes.bfloat16)


def seconds_of(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=5e-7)
    parser.add_argument("--dir")
    args = parser.parse_args()
    random = np.random.default_rng(0)
    count = args.mib // 16
    masters = [(random.standard_normal(MATRIX, np.float32) * 0.02)
               for _ in range(count)]
    state = {f"w{i}": bits(master) for i, master in enumerate(masters)}
    target = {name: np.zeros_like(value) for name, value in state.items()}
    folder = pathlib.Path(tempfile.mkdtemp(dir=args.dir))
    times = {"save delta": [], "save whole": [], "follow": [], "load whole": []}
    try:
        holdfast.save(folder / "run" / "0", state)
        follower = holdfast.Follower(folder / "run", target)
        follower.poll()
        for step in range(1, args.rounds + 1):
            for i, master in enumerate(masters):
                master -= args.rate * np.clip(
                    random.standard_normal(MATRIX, np.float32) * 0.5, -1, 1)
                state[f"w{i}"] = bits(master)
            run = folder / "run" / str(step)
            seconds, _ = seconds_of(
                lambda: holdfast.save(run, state, base=step - 1))
            times["save delta"].append(seconds)
            seconds, _ = seconds_of(
                lambda: holdfast.save(folder / "whole", state, overwrite=True))
            times["save whole"].append(seconds)
            seconds, update = seconds_of(follower.poll)
            times["follow"].append(seconds)
            assert update.delta_count == 1
            seconds, loaded = seconds_of(
                lambda: holdfast.load(folder / "whole"))
            times["load whole"].append(seconds)
            for name, value in state.items():
                assert np.array_equal(target[name].view(np.uint16),
                                      value.view(np.uint16)), name
            size = sum(path.stat().st_size for path in run.rglob("*")
                       if path.is_file())
            print(f"step {step}: delta of {size / 2**20:.1f} MiB,"
                  f" {update.read_bytes / 2**20:.1f} MiB read")
            del loaded
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, seconds in times.items():
        print(f"{name}: {statistics.median(seconds):.3f} s")


if __name__ == "__main__":
    main()
