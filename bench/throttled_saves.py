#!/usr/bin/env python3
"""Times saves on a disk whose write speed is limited.

usage: throttled_saves.py [--tree llm|small|wide] [--scale S] [--rounds N]
                          [--mb-per-second N] [--dir SCRATCH] [--out NAME]

Fast local disks hide the value of smaller files, but most checkpoints go to
disks that processes share, or over a network. The kernel's block throttle
(blkio of cgroup version 1, io of version 2) limits the speed at which this
process writes to the disk of SCRATCH; it needs root. Saves are synced, take
turns, and run in one process with warm memory; a first round is not counted.

--out writes NAME.md and NAME.json to bench/results/.
"""

import contextlib
import logging
import os
import pathlib
import statistics
import tempfile

import peers
import runs
import trees
from files import remove, stored_bytes

MODES = ("none", "planes", "zstd", "fast")
REFERENCE = "holdfast none"
GROUPS = pathlib.Path("/sys/fs/cgroup")


@contextlib.contextmanager
def throttled(scratch, bytes_per_second):
    """Limits this process's writes to the disk of `scratch`."""
    device = os.stat(scratch).st_dev
    disk = f"{os.major(device)}:{os.minor(device)}"
    is_old = (GROUPS / "blkio").is_dir()
    root = GROUPS / "blkio" if is_old else GROUPS
    group = root / f"holdfast-bench-{os.getpid()}"
    group.mkdir()
    try:
        if is_old:
            (group / "blkio.throttle.write_bps_device").write_text(
                f"{disk} {bytes_per_second}")
        else:
            (group / "io.max").write_text(f"{disk} wbps={bytes_per_second}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def measure(savers, scratch, rounds):
    """Returns ({saver: seconds of each round}, {saver: bytes stored})."""
    seconds = {saver.name: [] for saver in savers}
    sizes = {}
    path = scratch / "saved"
    for counts, saver in runs.in_turns(savers, rounds):
        took, _ = peers.timed(lambda: saver.save(path))
        sizes[saver.name] = stored_bytes(path)
        remove(path)
        if counts:
            seconds[saver.name].append(took)
    return seconds, sizes


def markdown(facts, seconds, sizes):
    lines = [f"# Saves to a disk of {facts['mb_per_second']} MB/s: "
             f"{facts['tree']}, {facts['leaves']} leaves, "
             f"{facts['bytes'] / 2**20:.0f} MiB", "",
             f"Medians of {facts['rounds']} interleaved rounds, syncs "
             "included; in brackets the ratio to raw bytes.", "",
             "| who | seconds | stored |", "|---|--:|--:|"]
    for name, rounds in seconds.items():
        ratio = statistics.median(
            mine / other for mine, other in
            zip(rounds, seconds[REFERENCE], strict=True))
        lines.append(f"| {name} | {statistics.median(rounds):.3f} "
                     f"({ratio:.2f}) | {sizes[name] / facts['bytes']:.3f} |")
    return "\n".join([*lines, "", runs.machine_text(facts["machine"]), "",
                      f"    {facts['command']}", ""])


def main():
    parser = runs.parser_of(__doc__)
    parser.add_argument("--mb-per-second", type=int, default=1000)
    args = parser.parse_args()
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="holdfast-throttled-",
                                     dir=args.dir) as name:
        scratch = pathlib.Path(name)
        tree = trees.TREES[args.tree](args.scale)
        savers = [peers.HoldfastPython(mode) for mode in MODES]
        savers.append(peers.OrbaxLegacy())
        for saver in savers:
            saver.prepare(tree, scratch)
        facts = {"tree": args.tree, "scale": args.scale,
                 "rounds": args.rounds, "mb_per_second": args.mb_per_second,
                 "leaves": len(tree),
                 "bytes": sum(array.nbytes for array in tree.values()),
                 "machine": runs.machine_facts(name),
                 "versions": peers.versions(),
                 "command": "python3 bench/throttled_saves.py --tree "
                            f"{args.tree} --scale {args.scale} --rounds "
                            f"{args.rounds} --mb-per-second "
                            f"{args.mb_per_second}"}
        with throttled(scratch, args.mb_per_second * 10**6):
            seconds, sizes = measure(savers, scratch, args.rounds)
    text = markdown(facts, seconds, sizes)
    print(text)
    if args.out:
        facts["stored_bytes"] = sizes
        facts["seconds"] = seconds
        runs.write_results(args.out, text, facts)


if __name__ == "__main__":
    main()
