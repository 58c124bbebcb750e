"""Times how long TieredManager's and background saves block the caller.

    python3 bench/tier_saves.py DIRECTORY [--mib 512] [--rounds 15]

In one process, times `TieredManager.save` and `holdfast.save(background=True)`
until they return. Both first copy everything that may change. After each call,
waits for the save to end. The two calls take turns to go first. Prints medians,
and the median of the ratios within each round.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from pathlib import Path

import numpy as np

import holdfast


def seconds_of(call):
    begun = time.perf_counter()
    result = call()
    return time.perf_counter() - begun, result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    count = args.mib << 20 >> 5  # 8 arrays of 4 bytes an element
    tree = {
        f"w{i}": rng.standard_normal(count, dtype=np.float32) for i in range(8)
    }
    plain = args.directory / "plain"
    tiers = holdfast.TieredManager(args.directory / "host")

    def save_plainly() -> float:
        seconds, future = seconds_of(
            lambda: holdfast.save(plain, tree, background=True, overwrite=True)
        )
        future.result()
        return seconds

    def save_in_tiers(step: int) -> float:
        seconds, _ = seconds_of(lambda: tiers.save(step, tree))
        tiers.wait()
        return seconds

    rows = []
    for step in range(args.rounds + 1):
        if step % 2:
            ours = save_in_tiers(step)
            theirs = save_plainly()
        else:
            theirs = save_plainly()
            ours = save_in_tiers(step)
        if step:  # the first step allocates memory
            rows.append((ours, theirs))
    tiers.close()
    shutil.rmtree(args.directory)
    print(f"{args.mib} MiB, {args.rounds} rounds; seconds until it returned")
    print(f"TieredManager.save: {statistics.median(r[0] for r in rows):.4f}")
    print(f"save(background=True): {statistics.median(r[1] for r in rows):.4f}")
    print(f"ratio: {statistics.median(r[0] / r[1] for r in rows):.2f}")


if __name__ == "__main__":
    main()
