#!/usr/bin/env python3
"""Times saves and loads with and without fingerprints, in turns.

usage: bench/fingerprint.py DIR [--mib N] [--rounds N] [--not-durable]

A tree of bfloat16 and float32 weights in matrices of 16 MiB is saved into DIR
and loaded again from the page cache. Prints, as a Markdown table, medians of
wall seconds and of processor seconds (all threads), and of the ratios within
each round.
"""

import argparse
import pathlib
import shutil
import statistics
import time

import ml_dtypes
import numpy as np

import holdfast

MATRIX_BYTES = 16 << 20


def weights(mib):
    """Returns normally distributed weights, half of them of each dtype."""
    random = np.random.default_rng(0)
    tree = {}
    for i in range(mib // 16):
        dtype = np.dtype(ml_dtypes.bfloat16 if i % 2 else np.float32)
        count = MATRIX_BYTES // dtype.itemsize
        values = random.normal(0, 0.02, count).astype(dtype)
        tree[f"layer{i}"] = values.reshape(-1, 1024)
    return tree


def timed(call):
    start, cpu_start = time.perf_counter(), time.process_time()
    call()
    return (time.perf_counter() - start, time.process_time() - cpu_start)


def in_turns(calls, rounds):
    """Returns [off, on] for each round, both as (wall seconds, CPU seconds).
    The two calls take turns to go first."""
    for call in calls:
        call()
    found = []
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        seconds = [None, None]
        for which in order:
            seconds[which] = timed(calls[which])
        found.append(seconds)
    return found


def row(what, found):
    cells = [what]
    for kind in (0, 1):
        off = statistics.median(pair[0][kind] for pair in found)
        on = statistics.median(pair[1][kind] for pair in found)
        ratios = sorted(pair[1][kind] / pair[0][kind] for pair in found)
        middle = statistics.median(ratios)
        spread = f"{ratios[len(ratios) // 4]:.3f}-{ratios[-1 - len(ratios) // 4]:.3f}"
        cells += [f"{off:.3f}", f"{on:.3f}", f"{middle:.3f}", spread]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--not-durable", action="store_true")
    asked = parser.parse_args()
    path = asked.directory / "fingerprint-bench"
    tree = weights(asked.mib)

    def save(fingerprints, compression):
        return lambda: holdfast.save(
            path, tree, fingerprints=fingerprints, compression=compression,
            overwrite=True, durable=not asked.not_durable)

    print("| | off, s | on, s | ratio | quartiles "
          "| off, CPU s | on, CPU s | ratio | quartiles |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    try:
        for compression in ("planes", None):
            calls = [save(on, compression) for on in (False, True)]
            row(f"save, {compression or 'none'}",
                in_turns(calls, asked.rounds))
        for compression in ("planes", None):
            save(True, compression)()
            calls = [lambda on=on: holdfast.load(path, fingerprints=on)
                     for on in (False, True)]
            row(f"load, {compression or 'none'}",
                in_turns(calls, asked.rounds))
        flat = [array.reshape(-1) for array in tree.values()]
        seconds = [timed(lambda: holdfast.fingerprint(flat))
                   for _ in range(asked.rounds)]
        wall = statistics.median(each[0] for each in seconds)
        cpu = statistics.median(each[1] for each in seconds)
        print(f"| fingerprint alone | | {wall:.3f} | | | | {cpu:.3f} | | |")
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
