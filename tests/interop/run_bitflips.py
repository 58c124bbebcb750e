#!/usr/bin/env python3
"""Checks that holdfast and Orbax notice single flipped bits in chunks.

usage: run_bitflips.py SAVE_TREES HOLDFAST [--count N] [--seed S]

For each layout, flips one bit inside a stored chunk, N times with seeded
choices. Stock Orbax must refuse to restore (at least 199 of 200). `holdfast
verify` must exit with 1, and holdfast's own load must fail, every time. The
undamaged checkpoint must pass all three checks.
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import orbax_tools as tools
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import tensorstore as ts

import tree_lines

LAYOUTS = {
    f"zarr{zarr} {'ocdbt' if ocdbt else 'directories'} {compression}": {
        "format": "orbax",
        "zarr": zarr,
        "ocdbt": ocdbt,
        "compression": compression,
    }
    for compression in ("planes", "zstd")
    for zarr in (2, 3)
    for ocdbt in (1, 0)
}
METADATA_FILES = (".zarray", "zarr.json")
STOCK_MISSES_MAX = 1  # of 200


def make_tree(seed):
    """Returns weights, moments and counters, which compress well or badly."""
    draw = np.random.default_rng(seed)
    weights = draw.normal(0, 0.02, (160, 128)).astype(np.float32)
    return {
        "params": {"w": jnp.asarray(weights.astype(ml_dtypes.bfloat16)),
                   "b": np.zeros((64, 64), np.float32)},
        "opt": {"mu": weights, "nu": jnp.asarray(weights * weights),
                "ids": np.arange(20000, dtype=np.int64)},
        "noise": draw.integers(0, 256, 4096, dtype=np.uint8),
        "step": 1234,
    }


def chunk_ranges(root, ocdbt):
    """Returns (file, offset, bytes) of every chunk that is not inside a
    metadata node. Finds the chunks without holdfast."""
    if ocdbt:
        return list(database_ranges(root))
    ranges = []
    for metadata in sorted(root.rglob("*")):
        if metadata.name in METADATA_FILES:
            for path in sorted(metadata.parent.rglob("*")):
                if path.is_file() and path.name not in METADATA_FILES:
                    ranges.append((path.relative_to(root), 0,
                                   path.stat().st_size))
    return ranges


def database_ranges(root):
    base = ts.KvStore.open(
        {"driver": "file", "path": f"{root}/"}).result()
    manifest = ts.ocdbt.dump(base).result()
    nodes = [manifest["versions"][-1]["root"]["location"]]
    while nodes:
        for entry in ts.ocdbt.dump(base, nodes.pop()).result()["entries"]:
            if "location" in entry:
                nodes.append(entry["location"])
            if "indirect_value" in entry:
                _, prefix, name, offset, byte_count = (
                    entry["indirect_value"].split(":"))
                yield (pathlib.Path(prefix) / name, int(offset),
                       int(byte_count))


def copy_with_flip(source, target, name, byte_index, bit):
    """Makes a copy of hard links, except for the damaged file."""
    shutil.copytree(source, target, copy_function=os.link)
    damaged = bytearray((source / name).read_bytes())
    damaged[byte_index] ^= 1 << bit
    (target / name).unlink()
    (target / name).write_bytes(damaged)


class FlipTest:
    """Counts which tools notice the flips in one layout."""

    def __init__(self, driver, holdfast, scratch):
        self.driver, self.holdfast, self.scratch = driver, holdfast, scratch

    def orbax_refuses(self, path):
        try:
            tools.restore_v0(path)
            return False
        except Exception:  # noqa: BLE001: whatever Orbax raises
            return True

    def load_refuses(self, path):
        try:
            self.driver.load(path, self.scratch)
            return False
        except RuntimeError as error:
            if not str(error).startswith("error DATA_LOSS"):
                print(f"load: {error}")
                return False
            return True

    def verify_status(self, path):
        return subprocess.run([self.holdfast, "verify", "--json", str(path)],
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL,
                              check=False).returncode

    def run(self, label, options, seed, count):
        whole = self.scratch / label.replace(" ", "-")
        self.driver.save(make_tree(seed), whole, self.scratch,
                         chunk=16384, **options)
        if (self.orbax_refuses(whole) or self.load_refuses(whole) or
                self.verify_status(whole) != 0):
            print(f"{label}: the undamaged checkpoint is refused")
            return False
        ranges = chunk_ranges(whole, options["ocdbt"])
        draw = random.Random(f"{label} {seed}")
        noticed = {"orbax": 0, "load": 0, "verify": 0}
        for _ in range(count):
            weights = [byte_count for _, _, byte_count in ranges]
            name, offset, byte_count = draw.choices(ranges, weights)[0]
            index = offset + draw.randrange(byte_count)
            bit = draw.randrange(8)
            damaged = self.scratch / f"flip-{draw.getrandbits(64):016x}"
            copy_with_flip(whole, damaged, name, index, bit)
            noticed["orbax"] += self.orbax_refuses(damaged)
            noticed["load"] += self.load_refuses(damaged)
            status = self.verify_status(damaged)
            noticed["verify"] += status == 1
            if status != 1:
                print(f"{label}: {name} byte {index} bit {bit}: verify "
                      f"exits {status}")
            shutil.rmtree(damaged)
        print(f"{label}: of {count} flips in {len(ranges)} chunks, stock "
              f"Orbax noticed {noticed['orbax']}, load {noticed['load']}, "
              f"verify {noticed['verify']}", flush=True)
        allowed = -(-count * STOCK_MISSES_MAX // 200)
        return (len(ranges) > 10 and noticed["orbax"] >= count - allowed and
                noticed["load"] == noticed["verify"] == count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("save_trees")
    parser.add_argument("holdfast")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    start = time.monotonic()
    driver = tree_lines.Driver(args.save_trees)
    good = 0
    with tempfile.TemporaryDirectory(
            prefix="holdfast-flips-", dir=tools.scratch_root()) as scratch:
        test = FlipTest(driver, args.holdfast, pathlib.Path(scratch))
        for label, options in LAYOUTS.items():
            with tools.quiet_stderr():
                good += test.run(label, options, args.seed, args.count)
    driver.close()
    print(f"{good} of {len(LAYOUTS)} layouts in "
          f"{time.monotonic() - start:.0f} s")
    return 0 if good == len(LAYOUTS) else 1


if __name__ == "__main__":
    sys.exit(main())
