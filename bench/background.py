#!/usr/bin/env python3
"""Times how long `holdfast.save(..., background=True)` blocks the caller.

usage: background.py [--megabytes N] [--rounds N] [--dir SCRATCH] [--out NAME]

For immutable jax arrays, compares the call with the complete save. Numpy arrays
must be copied before the call may return, so for these, compares the call with
a parallel memcpy into fresh memory. Runs are interleaved; prints medians.
"""

import concurrent.futures
import os
import pathlib
import shutil
import statistics
import tempfile
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import holdfast
import jax
import numpy as np

import runs

ARRAY_BYTES = 16 << 20


def parallel_memcpy(arrays):
    copies = [np.empty_like(array) for array in arrays]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(np.copyto, copies, arrays))
    return copies


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def one_save(tree, path):
    """Returns (seconds until the call returned, until the save was durable)."""
    shutil.rmtree(path, ignore_errors=True)
    os.sync()
    start = time.perf_counter()
    future = holdfast.save(path, tree, background=True)
    returned = time.perf_counter() - start
    future.result()
    return returned, time.perf_counter() - start


def measure(args, scratch):
    count = max(1, (args.megabytes << 20) // ARRAY_BYTES)
    draw = np.random.default_rng(1)
    arrays = [draw.standard_normal(ARRAY_BYTES // 4, dtype=np.float32)
              for _ in range(count)]
    numpy_tree = {f"w{i}": array for i, array in enumerate(arrays)}
    jax_tree = jax.block_until_ready(jax.tree.map(jax.numpy.array, numpy_tree))
    samples = {name: [] for name in
               ("memcpy", "numpy_return", "jax_return", "jax_whole")}
    for _ in range(args.rounds):
        samples["memcpy"].append(timed(lambda: parallel_memcpy(arrays))[0])
        samples["numpy_return"].append(one_save(numpy_tree, scratch / "n")[0])
        returned, whole = one_save(jax_tree, scratch / "j")
        samples["jax_return"].append(returned)
        samples["jax_whole"].append(whole)
    return samples


def markdown(args, medians):
    of_save = medians["jax_return"] / medians["jax_whole"]
    of_memcpy = medians["numpy_return"] / medians["memcpy"]
    return "\n".join([
        "# What a background save costs its caller", "",
        f"{args.megabytes} MiB of float32 in arrays of 16 MiB; medians "
        f"of {args.rounds} interleaved rounds.", "",
        "| | seconds | ratio |", "|---|--:|--:|",
        f"| whole save, immutable jax arrays | {medians['jax_whole']:.4f} | |",
        f"| until the call returns, jax arrays | {medians['jax_return']:.4f} "
        f"| {of_save:.4f} of the whole save |",
        f"| parallel memcpy of the same bytes | {medians['memcpy']:.4f} | |",
        f"| until the call returns, numpy arrays | "
        f"{medians['numpy_return']:.4f} | {of_memcpy:.2f} of the memcpy |", "",
        f"    python3 bench/background.py --megabytes {args.megabytes} "
        f"--rounds {args.rounds}", ""])


def main():
    parser = runs.parser_of(__doc__, has_tree=False)
    parser.add_argument("--megabytes", type=int, default=1024)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-background-",
                                     dir=args.dir) as scratch:
        samples = measure(args, pathlib.Path(scratch))
    text = markdown(args, {name: statistics.median(seconds)
                           for name, seconds in samples.items()})
    print(text)
    if args.out:
        runs.write_results(args.out, text, samples)


if __name__ == "__main__":
    main()
