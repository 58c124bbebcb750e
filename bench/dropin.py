#!/usr/bin/env python3
"""Times what the drop-in adds to the engine for many leaves, as ratios.

usage: dropin.py [--scale S] [--rounds N] [--dir SCRATCH] [--out NAME]

The tree is `small` (bench/trees.py), as numpy and as jax arrays. Compares saves
and restores of the drop-in (v0 and v1, with and without a target) with
`holdfast.save` and `holdfast.load` of the same files, and `metadata()` with
opening the checkpoint in C++, which is the engine's own listing. Each round
runs everything once, in turns. Prints ratios of medians for wall time and for
processor time; other programs on the machine disturb processor time less.
"""

import os
import pathlib
import shutil
import statistics
import tempfile
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import holdfast
import holdfast.orbax as v0
import jax
import numpy as np
from holdfast import _engine
from holdfast.orbax import v1

import runs
import trees

V0 = v0.PyTreeCheckpointer()


def v0_restore_args(tree):
    return v0.checkpoint_utils.construct_restore_args(tree)


def engine_save(path, tree):
    """Saves with the drop-in's codec."""
    holdfast.save(path, tree, compression="zstd")


def operations(tree, scratch):
    """Returns {name: (function, operation that it is compared with)}."""
    made = scratch / "made"
    saved = {name: scratch / name for name in ("holdfast", "v0", "v1")}
    is_jax = not isinstance(next(iter(tree.values())), np.ndarray)
    sharding = next(iter(tree.values())).sharding if is_jax else None
    abstract = {
        name: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding)
        if is_jax else np.empty(a.shape, a.dtype)
        for name, a in tree.items()
    }
    restore_args = v0_restore_args(abstract)
    arrays = {"arrays": "jax"} if is_jax else {}
    return {
        "holdfast.save": (lambda: engine_save(made, tree), None),
        "v0 save": (lambda: V0.save(made, tree), "holdfast.save"),
        "v1 save": (lambda: v1.save(made, tree), "holdfast.save"),
        "holdfast.load": (
            lambda: holdfast.load(saved["holdfast"], **arrays), None),
        "v0 restore": (lambda: V0.restore(saved["v0"]), "holdfast.load"),
        "holdfast.load(target)": (
            lambda: holdfast.load(saved["holdfast"], abstract), None),
        "v0 restore(item)": (
            lambda: V0.restore(
                saved["v0"], item=abstract, restore_args=restore_args),
            "holdfast.load(target)"),
        "holdfast.load, v1's files": (
            lambda: holdfast.load(saved["v1"], item="state", **arrays), None),
        "v1 load": (
            lambda: v1.load(saved["v1"]), "holdfast.load, v1's files"),
        "holdfast.load(target), v1's files": (
            lambda: holdfast.load(saved["v1"], abstract, item="state"), None),
        "v1 load(abstract)": (
            lambda: v1.load(saved["v1"], abstract),
            "holdfast.load(target), v1's files"),
        "engine listing": (
            lambda: _engine.Checkpoint(str(saved["v0"])), None),
        "v0 metadata": (lambda: V0.metadata(saved["v0"]), "engine listing"),
        "engine listing, v1's files": (
            lambda: _engine.Checkpoint(str(saved["v1"] / "state")), None),
        "v1 metadata": (
            lambda: v1.metadata(saved["v1"]), "engine listing, v1's files"),
    }


def measure(tree, rounds, scratch):
    """Returns {name: seconds of each round} and {name: what it is compared
    with}."""
    engine_save(scratch / "holdfast", tree)
    V0.save(scratch / "v0", tree)
    v1.save(scratch / "v1", tree)
    run = operations(tree, scratch)
    samples = {name: [] for name in run}
    for round_number in range(rounds + 1):
        for name, (function, _) in run.items():
            shutil.rmtree(scratch / "made", ignore_errors=True)
            start = time.perf_counter(), time.process_time()
            result = function()
            seconds = (time.perf_counter() - start[0],
                       time.process_time() - start[1])
            del result
            if round_number > 0:  # The first round warms up.
                samples[name].append(seconds)
    return samples, {name: peer for name, (_, peer) in run.items()}


def markdown(args, tables):
    count = int(20000 * args.scale)
    lines = ["# What the drop-in adds to the engine", "",
             f"`small`: {count} leaves of 256 bytes. Medians of {args.rounds}"
             " interleaved rounds."]
    for title, (samples, peers) in tables.items():
        medians = {name: [statistics.median(column) for column in zip(*rows)]
                   for name, rows in samples.items()}
        lines += ["", f"## {title}", "",
                  "| | ms | CPU ms | times | CPU times | of |",
                  "|---|--:|--:|--:|--:|---|"]
        for name, seconds in medians.items():
            peer = peers[name]
            clock, cpu = (f"{1000 * value:.0f}" for value in seconds)
            ratios = [" ", " "]
            if peer:
                ratios = [f"{mine / theirs:.2f}" for mine, theirs in
                          zip(seconds, medians[peer])]
            lines.append(f"| {name} | {clock} | {cpu} | {ratios[0]} "
                         f"| {ratios[1]} | {peer or ''} |")
    lines += ["", f"    python3 bench/dropin.py --scale {args.scale:g}"
              f" --rounds {args.rounds}", ""]
    return "\n".join(lines)


def main():
    parser = runs.parser_of(__doc__, has_tree=False)
    parser.add_argument("--scale", type=float, default=1.0,
                        help="scale of `small`")
    parser.add_argument("--kinds", nargs="+", default=["numpy", "jax"],
                        choices=["numpy", "jax"])
    args = parser.parse_args()
    tables = {}
    for title in args.kinds:
        tree = trees.small(args.scale)
        if title == "jax":
            tree = jax.block_until_ready(jax.tree.map(jax.numpy.array, tree))
        with tempfile.TemporaryDirectory(
                prefix="holdfast-dropin-", dir=args.dir) as scratch:
            tables[title] = measure(tree, args.rounds, pathlib.Path(scratch))
    text = markdown(args, tables)
    print(text)
    if args.out:
        runs.write_results(args.out, text, None)


if __name__ == "__main__":
    main()
