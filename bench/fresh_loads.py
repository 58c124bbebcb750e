#!/usr/bin/env python3
"""Times loads, each in its own process, as in a program that resumes.

usage: fresh_loads.py [--tree llm|small|wide] [--scale S] [--rounds N]
                      [--dir SCRATCH] [--out NAME]

A load into memory that the process has not touched pays for its pages; a loop
of loads in one process does not. Each child imports its library first, then
times one load, in wall time and in processor time. Readers take turns; the page
cache is warm. `--read READER PATH` runs such a child.

--out writes NAME.md and NAME.json to bench/results/.
"""

import json
import logging
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import peers
import runs
import trees
from files import stored_bytes

MODES = ("planes", "zstd", "fast", "none")


def read_raw(path):
    raw = peers.Raw(fresh=True)
    raw.byte_count = path.stat().st_size
    return raw.restore


def read_by_orbax_layout():
    """Returns Orbax's own loader of safetensors."""
    from orbax.checkpoint import v1

    context = v1.Context(
        checkpoint_layout=v1.options.CheckpointLayout.SAFETENSORS)

    def read(path):
        with context:
            return v1.load_pytree(path)

    return read


def make_reader(name, path):
    """Imports the library, and returns the function that loads `path`."""
    if name == "raw bytes":
        return read_raw(path)
    if name == "holdfast.load":
        import holdfast
        return holdfast.load
    if name == "safetensors":
        import safetensors.numpy
        return safetensors.numpy.load_file
    if name == "Orbax's safetensors":
        return read_by_orbax_layout()
    kind = {"holdfast.orbax": peers.HoldfastDropIn,
            "Orbax": peers.OrbaxLegacy, "Orbax v1": peers.OrbaxV1}[name]
    return kind().restore


def child(name, path):
    logging.disable(logging.ERROR)
    read = make_reader(name, path)
    processor = time.process_time()
    start = time.perf_counter()
    kept = read(path)
    seconds = time.perf_counter() - start
    print(json.dumps([seconds, time.process_time() - processor]))
    del kept


def save_all(tree, scratch):
    """Saves the tree by every writer; returns {what: path}."""
    writers = {f"holdfast {mode}": peers.HoldfastPython(mode)
               for mode in MODES}
    writers["Orbax"] = peers.OrbaxLegacy()
    writers["Orbax v1"] = peers.OrbaxV1()
    writers["safetensors"] = peers.Safetensors()
    writers["raw bytes"] = peers.Raw(fresh=True)
    files = {}
    for name, writer in writers.items():
        writer.prepare(tree, scratch)
        files[name] = scratch / name.replace(" ", "-")
        writer.save(files[name])
    return files


# (reader, files)
CASES = (*(("holdfast.load", f"holdfast {mode}") for mode in MODES),
         ("Orbax", "Orbax"), ("holdfast.load", "Orbax"),
         ("holdfast.orbax", "Orbax"), ("Orbax v1", "Orbax v1"),
         ("Orbax", "holdfast planes"), ("safetensors", "safetensors"),
         ("raw bytes", "raw bytes"))
REFERENCE = ("Orbax", "Orbax")


def measure(files, rounds):
    """Returns {case: [[seconds, processor seconds] of each round]}, after one
    round that is not counted."""
    samples = {case: [] for case in CASES}
    for counts, (reader, whose) in runs.in_turns(CASES, rounds):
        seconds = seconds_of_child(reader, files[whose])
        if counts:
            samples[reader, whose].append(seconds)
    return samples


def seconds_of_child(reader, path):
    """Returns [seconds, processor seconds] of one load in a new process."""
    done = subprocess.run(
        [sys.executable, __file__, "--read", reader, path],
        check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return json.loads(done.stdout.splitlines()[-1])


def markdown(facts, samples, sizes):
    def medians(case):
        return [statistics.median(column) for column in
                zip(*samples[case], strict=True)]

    reference = medians(REFERENCE)
    lines = [f"# Loads in fresh processes: {facts['tree']}, "
             f"{facts['leaves']} leaves, {facts['bytes'] / 2**20:.0f} MiB", "",
             f"Medians of {facts['rounds']} interleaved rounds, each load in "
             "its own process; in brackets the ratio to Orbax loading its own "
             "files. Page cache warm.", "",
             "| who loads | whose files | seconds | processor s | stored |",
             "|---|---|--:|--:|--:|"]
    for reader, whose in CASES:
        cells = [f"{mine:.3f} ({mine / other:.2f})" for mine, other in
                 zip(medians((reader, whose)), reference, strict=True)]
        lines.append(f"| {reader} | {whose} | {' | '.join(cells)} | "
                     f"{sizes[whose] / facts['bytes']:.3f} |")
    return "\n".join([
        *lines, "", "holdfast checks every chunk. safetensors and the raw "
        "bytes have no checksums; Orbax's files have them only in indexes.", "",
        runs.machine_text(facts["machine"]), "Versions: " + ", ".join(
            f"{name} {version}" for name, version in
            facts["versions"].items() if version) + ".",
        "", f"    {facts['command']}", ""])


def main():
    parser = runs.parser_of(__doc__, rounds=7)
    parser.add_argument("--read", nargs=2, metavar=("READER", "PATH"))
    args = parser.parse_args()
    if args.read:
        child(args.read[0], pathlib.Path(args.read[1]))
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-fresh-",
                                     dir=args.dir) as name:
        tree = trees.TREES[args.tree](args.scale)
        files = save_all(tree, pathlib.Path(name))
        facts = {"tree": args.tree, "scale": args.scale,
                 "rounds": args.rounds, "leaves": len(tree),
                 "bytes": sum(array.nbytes for array in tree.values()),
                 "machine": runs.machine_facts(name),
                 "versions": peers.versions(),
                 "command": f"python3 bench/fresh_loads.py --tree {args.tree} "
                            f"--scale {args.scale} --rounds {args.rounds}"}
        del tree
        sizes = {whose: stored_bytes(path)
                 for whose, path in files.items()}
        samples = measure(files, args.rounds)
    text = markdown(facts, samples, sizes)
    print(text)
    if args.out:
        facts["stored_bytes"] = sizes
        facts["seconds"] = [{"reader": reader, "files": whose, "rounds": rounds}
                            for (reader, whose), rounds in samples.items()]
        runs.write_results(args.out, text, facts)


if __name__ == "__main__":
    main()
