#!/usr/bin/env python3
"""Counts the syncs and renames of one save by holdfast and by Orbax.

usage: sync_counts.py [--dir SCRATCH] [--out NAME]

Each save runs in its own process with bench/sync_counter.c (built here with the
system's C compiler) in LD_PRELOAD, so the calls of both programs are counted in
the same way, at libc. --out writes NAME.md and NAME.json to bench/results/.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COUNTERS = ("file_syncs", "directory_syncs", "renames", "creates", "mkdirs")
TREES = {
    "2 arrays": (2, 4096),
    "1000 arrays of 16 KiB": (1000, 4096),
}
PROGRAMS = (
    "holdfast.save",
    "holdfast.orbax",
    "orbax legacy",
    "orbax v1",
)


def make_tree(array_count, element_count):
    import numpy as np

    random = np.random.default_rng(1)
    return {
        f"w{i:04}": random.standard_normal(element_count, dtype=np.float32)
        for i in range(array_count)
    }


def saver_of(program):
    """Returns a function (path, tree) that saves durably before it returns."""
    if program == "holdfast.save":
        import holdfast

        return holdfast.save
    if program == "holdfast.orbax":
        import holdfast.orbax as ocp
    else:
        import orbax.checkpoint as ocp
    if program == "orbax v1":
        return ocp.v1.save_pytree
    checkpointer = ocp.PyTreeCheckpointer()
    return lambda path, tree: checkpointer.save(str(path), tree)


def measure(program, array_count, element_count, directory):
    """Returns the calls of one save, after a warm-up save that is not
    counted."""
    take = ctypes.CDLL(None).sync_counter_take
    counts = (ctypes.c_uint64 * len(COUNTERS))()
    tree = make_tree(array_count, element_count)
    save = saver_of(program)
    save(pathlib.Path(directory) / "warm-up", tree)
    take(counts)
    path = pathlib.Path(directory) / "counted"
    save(path, tree)
    take(counts)
    row = dict(zip(COUNTERS, counts, strict=True))
    below = list(path.rglob("*"))
    row["files"] = sum(entry.is_file() for entry in below)
    row["directories"] = 1 + sum(entry.is_dir() for entry in below)
    return row


def build_counter(directory):
    library = pathlib.Path(directory) / "sync_counter.so"
    subprocess.run(
        [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library,
         HERE / "sync_counter.c", "-ldl"],
        check=True,
    )
    return library


def measure_apart(library, program, tree, scratch):
    """Runs `measure` in a separate process. If it fails, as for a program that
    is not installed, prints why and returns None."""
    environment = os.environ | {
        "LD_PRELOAD": str(library),
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        run = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, "--measure", program,
             *map(str, TREES[tree]), directory],
            env=environment, capture_output=True, text=True,
        )
    if run.returncode != 0:
        print(f"{program}: {run.stderr.strip().splitlines()[-1]}",
              file=sys.stderr)
        return None
    return json.loads(run.stdout.splitlines()[-1])


def table(rows):
    lines = [
        "| tree | program | files | directories | syncs of files "
        "| of directories | all syncs | files + directories + 2 | renames |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for tree, program, row in rows:
        syncs = row["file_syncs"] + row["directory_syncs"]
        target = row["files"] + row["directories"] + 2
        lines.append(
            f"| {tree} | {program} | {row['files']} | {row['directories']} "
            f"| {row['file_syncs']} | {row['directory_syncs']} | {syncs} "
            f"| {target} | {row['renames']} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--dir", help="where to save; default: a new folder")
    parser.add_argument("--out", help="NAME of files in bench/results")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        program, array_count, element_count, directory = arguments.measure
        row = measure(program, int(array_count), int(element_count), directory)
        print(json.dumps(row))
        return
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.dir) as scratch:
        library = build_counter(scratch)
        for tree in TREES:
            for program in PROGRAMS:
                row = measure_apart(library, program, tree, scratch)
                if row is not None:
                    rows.append((tree, program, row))
    text = table(rows)
    print(text)
    if arguments.out:
        results = HERE / "results" / arguments.out
        results.with_suffix(".md").write_text(
            "# Syncs and renames of one save\n\nCounted at libc by a preloaded "
            "library, the same for all programs. The arrays are\nnumpy arrays "
            "of 16 KiB; each program uses its defaults.\n\n" + text +
            f"\n\n    python3 bench/sync_counts.py --out {arguments.out}\n"
        )
        results.with_suffix(".json").write_text(json.dumps(
            [{"tree": t, "program": p} | row for t, p, row in rows], indent=1
        ) + "\n")


if __name__ == "__main__":
    main()
