#!/usr/bin/env python3
"""Times making views, and restoring through them.

usage: views.py [--tree llm|small|wide] [--scale S] [--rounds N]
                [--dir SCRATCH] [--out NAME]

1. A view of a sparse model, 1,000 bf16 tensors and 100 GiB in 20 safetensors
   shards: the command's time, memory, and bytes written.
2. The tree as safetensors: a view, `convert`, and a copy of the file. The tree
   in memory: a raw save, and a raw save whose files are also safetensors.
3. The view, and a raw checkpoint in Orbax's format with the same tree, restored
   by holdfast.load and by stock Orbax. Each load has its own process, readers
   take turns, and the page cache is warm. Checksums are verified for the
   checkpoint and for views that have them.

--out writes NAME.md and NAME.json to bench/results/.
"""

import json
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import fresh_loads
import peers
import runs
import trees

import holdfast

CASES = (("holdfast.load", "checkpoint"), ("holdfast.load", "view"),
         ("holdfast.load", "view with checksums"), ("Orbax", "checkpoint"),
         ("Orbax", "view"), ("holdfast.load", "both"), ("Orbax", "both"),
         ("safetensors", "model"), ("Orbax's safetensors", "model"))


def write_sparse_model(folder, tensor_count=1000, shard_count=20,
                       gibibytes=100):
    rows = gibibytes * 2**30 // tensor_count // (2 * 8192)
    byte_count = rows * 8192 * 2
    folder.mkdir()
    weight_map = {}
    for shard in range(shard_count):
        name = f"model-{shard + 1:05}-of-{shard_count:05}.safetensors"
        header = {}
        for i in range(tensor_count // shard_count):
            number = shard * tensor_count // shard_count + i
            tensor = f"model.layers.{number // 10}.w{number % 10}.weight"
            header[tensor] = {
                "dtype": "BF16", "shape": [rows, 8192],
                "data_offsets": [i * byte_count, (i + 1) * byte_count]}
            weight_map[tensor] = name
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + len(header) * byte_count)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map}))


def measure_sparse(scratch):
    write_sparse_model(scratch / "sparse")
    # VmHWM covers only this process; ru_maxrss includes its parent's peak.
    program = ("import re, sys, time, holdfast; begun = time.time(); "
               "holdfast.view(sys.argv[1], sys.argv[2], copy=False); "
               "print(time.time() - begun, re.search(r'VmHWM:\\s+(\\d+)', "
               "open('/proc/self/status').read())[1])")
    done = subprocess.run(
        [sys.executable, "-c", program, scratch / "sparse", scratch / "huge"],
        check=True, stdout=subprocess.PIPE, encoding="utf-8")
    seconds, kibibytes = map(float, done.stdout.split())
    written = sum(f.stat().st_size for f in (scratch / "huge").rglob("*")
                  if f.is_file() and not f.is_symlink())
    return {"seconds": seconds, "peak_bytes": int(kibibytes * 1024),
            "written_bytes": written}


def seconds_of(action):
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def measure_ways(scratch, tree, rounds):
    """Returns {method: [seconds]} for each method to turn the model, or the
    tree in memory, into a checkpoint that Orbax reads."""
    model, target = scratch / "model", scratch / "target"
    ways = {
        "view": lambda: holdfast.view(model, target, copy=False),
        "view with checksums": lambda: holdfast.view(model, target,
                                                     checksums=True),
        "convert": lambda: holdfast.convert(model, target, format="orbax",
                                            compression=None),
        "copy of the file": lambda: subprocess.run(
            ["cp", "-r", model, target], check=True) and subprocess.run(
                ["sync", "-f", target], check=True),
        "save raw": lambda: holdfast.save(target, tree, compression=None),
        "save that is both": lambda: holdfast.save(target, tree,
                                                   also="safetensors"),
    }
    samples = {way: [] for way in ways}
    # Take turns, because an action after a large write is slower.
    for counts, (way, action) in runs.in_turns(ways.items(), rounds):
        seconds = seconds_of(action)
        shutil.rmtree(target)
        if counts:
            samples[way].append(seconds)
    return samples


def measure_loads(scratch, rounds):
    samples = {case: [] for case in CASES}
    for counts, (reader, what) in runs.in_turns(CASES, rounds):
        path = scratch / what.replace(" ", "-")
        if what == "model":
            path /= "model.safetensors"
        seconds, _ = fresh_loads.seconds_of_child(reader, path)
        if counts:
            samples[reader, what].append(seconds)
    return samples


def markdown(facts, sparse, ways, loads):
    reference = {reader: statistics.median(loads[reader, "checkpoint"])
                 for reader in ("holdfast.load", "Orbax")}
    lines = [
        f"# Views: {facts['tree']}, {facts['bytes'] / 2**20:.0f} MiB", "",
        "A view of a sparse model of 1,000 tensors and 100 GiB in 20 files: "
        f"{sparse['seconds']:.2f} s, {sparse['peak_bytes'] / 2**20:.0f} MiB of "
        "memory including Python itself, "
        f"{sparse['written_bytes'] / 2**10:.0f} KiB written.", "",
        f"{facts['rounds']} rounds in turns, syncs included:", "",
        "| way | median seconds | least |", "|---|--:|--:|",
        *(f"| {way} | {statistics.median(times):.3f} | {min(times):.3f} |"
          for way, times in ways.items()), "",
        "Loads in fresh processes, page cache warm; in brackets the ratio to "
        "the checkpoint of the same tree, stored raw:", "",
        "| who loads | what | seconds |", "|---|---|--:|"]
    for (reader, what), times in loads.items():
        mine = statistics.median(times)
        ratio = (f" ({mine / reference[reader]:.2f})"
                 if reader in reference else "")
        lines.append(f"| {reader} | {what} | {mine:.3f}{ratio} |")
    machine = runs.machine_text(facts["machine"], with_python=False)
    return "\n".join([*lines, "", machine, "", f"    {facts['command']}", ""])


def main():
    args = runs.parser_of(__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-views-",
                                     dir=args.dir) as name:
        scratch = pathlib.Path(name)
        tree = trees.TREES[args.tree](args.scale)
        writer = peers.Safetensors()
        writer.prepare(tree, scratch)
        (scratch / "model").mkdir()
        writer.save(scratch / "model" / "model.safetensors")
        holdfast.convert(scratch / "model", scratch / "checkpoint",
                         format="orbax", compression=None)
        holdfast.view(scratch / "model", scratch / "view")
        holdfast.view(scratch / "model", scratch / "view-with-checksums",
                      checksums=True)
        holdfast.save(scratch / "both", tree, also="safetensors")
        sparse = measure_sparse(scratch)
        ways = measure_ways(scratch, tree, args.rounds)
        loads = measure_loads(scratch, args.rounds)
        facts = {"tree": args.tree, "rounds": args.rounds,
                 "bytes": sum(value.nbytes for value in tree.values()),
                 "machine": runs.machine_facts(scratch),
                 "command": f"python3 bench/views.py --tree {args.tree} "
                            f"--scale {args.scale} --rounds {args.rounds}"}
    text = markdown(facts, sparse, ways, loads)
    print(text)
    if args.out:
        runs.write_results(args.out, text, {
            **facts, "sparse": sparse, "ways": ways,
            "loads": {" | ".join(case): times
                      for case, times in loads.items()}})


if __name__ == "__main__":
    main()
