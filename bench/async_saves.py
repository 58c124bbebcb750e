#!/usr/bin/env python3
"""Times how long async saves block the caller, in the drop-in and in Orbax.

usage: async_saves.py [--scale S] [--megabytes N] [--rounds N] [--dir SCRATCH]
                      [--out NAME]

The trees are `small` (bench/trees.py) and large arrays, as numpy and as jax
arrays. Orbax uses its legacy AsyncCheckpointer with PyTreeSave; holdfast uses
the same calls of the drop-in, `save_async` of its v1, and its own `save(...,
background=True)`. Each round also times a copy of the numpy arrays into fresh
memory, with all threads, because any snapshot must make such a copy. Savers are
interleaved; medians are shown.
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
import holdfast.orbax as drop_in
import jax
import numpy as np
import orbax.checkpoint as orbax

import runs
import trees

ARRAY_BYTES = 16 << 20


def legacy(ocp):
    """Returns a saver with one AsyncCheckpointer for all saves, as in real
    programs."""
    checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())

    def begin(path, tree):
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
        return checkpointer.wait_until_finished

    return begin


def v1(ocp):
    return lambda path, tree: ocp.v1.save_async(path, tree).result


def own(path, tree):
    return holdfast.save(path, tree, background=True).result


SAVES = {
    "orbax AsyncCheckpointer": legacy(orbax),
    "holdfast AsyncCheckpointer": legacy(drop_in),
    "orbax v1 save_async": v1(orbax),
    "holdfast v1 save_async": v1(drop_in),
    "holdfast.save": own,
}


def one_save(begin, tree, path):
    """Returns (seconds until the call returned, until the save was durable)."""
    shutil.rmtree(path, ignore_errors=True)
    os.sync()
    start = time.perf_counter()
    wait = begin(path, tree)
    returned = time.perf_counter() - start
    wait()
    return returned, time.perf_counter() - start


def memcpy_seconds(arrays):
    """Returns the seconds of a copy into fresh memory, with the arrays divided
    among threads."""
    count = os.cpu_count()
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        copies = list(pool.map(lambda part: [a.copy() for a in part],
                               [arrays[i::count] for i in range(count)]))
    seconds = time.perf_counter() - start
    del copies
    return seconds


def make_trees(args):
    small = trees.small(args.scale)
    draw = np.random.default_rng(1)
    large = {f"w{i}": draw.standard_normal(ARRAY_BYTES // 4, dtype=np.float32)
             for i in range(max(1, (args.megabytes << 20) // ARRAY_BYTES))}
    made = {}
    for name, tree in (("small", small), ("large", large)):
        made[f"{name}, numpy"] = tree
        made[f"{name}, jax"] = jax.block_until_ready(
            jax.tree.map(jax.numpy.array, tree))
    return made


def measure(args, scratch):
    samples = {}
    for tree_name, tree in make_trees(args).items():
        rows = samples[tree_name] = {}
        for round_number in range(args.rounds + 1):
            for name, begin in SAVES.items():
                seconds = one_save(begin, tree, scratch / "ckpt")
                if round_number > 0:  # The first round warms up.
                    rows.setdefault(name, []).append(seconds)
            if "numpy" in tree_name and round_number > 0:
                seconds = memcpy_seconds(list(tree.values()))
                rows.setdefault("parallel memcpy", []).append([seconds] * 2)
    return samples


def markdown(args, samples):
    lines = ["# How long async saves keep their caller", "",
             f"`small`: {int(20000 * args.scale)} leaves of 256 bytes; `large`: "
             f"{args.megabytes} MiB in arrays of 16 MiB. Medians of "
             f"{args.rounds} interleaved rounds, in seconds."]
    for tree_name, rows in samples.items():
        medians = {name: [statistics.median(column) for column in
                          zip(*seconds)] for name, seconds in rows.items()}
        legacy_seconds = medians["orbax AsyncCheckpointer"][0]
        copying = medians.get("parallel memcpy")
        lines += ["", f"## {tree_name}", "",
                  "| | call returns | of Orbax's | of its whole save "
                  "| of memcpy | durable |", "|---|--:|--:|--:|--:|--:|"]
        for name, (returned, whole) in medians.items():
            if name == "parallel memcpy":
                lines.append(f"| {name} | {returned:.4f} | | | | |")
                continue
            of_copy = f"{returned / copying[0]:.2f}" if copying else ""
            lines.append(
                f"| {name} | {returned:.4f} | {returned / legacy_seconds:.3f} "
                f"| {returned / whole:.3f} | {of_copy} | {whole:.3f} |")
    lines += ["", f"    python3 bench/async_saves.py --scale {args.scale:g} "
              f"--megabytes {args.megabytes} --rounds {args.rounds}", ""]
    return "\n".join(lines)


def main():
    parser = runs.parser_of(__doc__, has_tree=False)
    parser.add_argument("--scale", type=float, default=1.0,
                        help="scale of `small`")
    parser.add_argument("--megabytes", type=int, default=512,
                        help="size of `large`")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-async-",
                                     dir=args.dir) as scratch:
        samples = measure(args, pathlib.Path(scratch))
    text = markdown(args, samples)
    print(text)
    if args.out:
        runs.write_results(args.out, text, samples, indent=None)


if __name__ == "__main__":
    main()
