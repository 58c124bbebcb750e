#!/usr/bin/env python3
"""Times holdfast.megatron and zarr-python 2 on the same checkpoint, in turns.

usage: megatron.py --peer-python PYTHON [--arrays N] [--mib N] [--rounds N]
                   [--dtype float32|float16] [--dir SCRATCH] [--out NAME]

The checkpoint has Megatron Core's layout: N arrays of equal size, each cut in
four along one axis (half of the arrays along the first, half along the second).
It is loaded at TP 2, every element once, and saved at TP 4. PYTHON has zarr 2
(see tests/interop/requirements-megatron.txt). It makes the reads and writes of
Megatron Core's strategy, array by array, without the strategy's checks and its
conversions to torch. Each side is one process, which runs all rounds. The sides
take turns, and the first round is not counted. The page cache is warm.
zarr-python does not sync; holdfast saves with and without syncs. The files that
both sides save are compared.

--out writes NAME.md and NAME.json to bench/results/.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SAVED_TP, LOADED_TP = 4, 2


def parts(index, size, tp):
    """Returns (offset, local shape) of each rank's shard of array `index`."""
    axis = index % 2
    for rank in range(tp):
        offset, shape = [0, 0], [size, size]
        shape[axis] = size // tp
        offset[axis] = rank * shape[axis]
        yield tuple(offset), tuple(shape)


def fragments(index, tp):
    return (tp, 1) if index % 2 == 0 else (1, tp)


def peak_kib():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def reset_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")


class Holdfast:
    """holdfast.megatron's strategies; options are "sync" and "buffers"."""

    def __init__(self, count, size, dtype):
        import numpy as np

        from holdfast import megatron

        self.megatron, self.np = megatron, np
        self.count, self.size, self.dtype = count, size, dtype
        self.data = None
        self.buffers = None

    def tensors(self, tp, data):
        for index in range(self.count):
            for rank, (offset, shape) in enumerate(parts(index, self.size, tp)):
                yield f"{index}.{rank}", self.megatron.ShardedTensor(
                    f"layer.{index}.weight", data(index, offset, shape),
                    self.np.dtype(self.dtype), shape, (self.size, self.size),
                    offset, fragments(index, tp))

    def prepare(self, operation, option):
        shape = (self.size, self.size)
        if operation == "save" and self.data is None:
            self.data = [shards_of(self.np, index, shape, self.dtype)
                         for index in range(self.count)]
        if option == "buffers" and self.buffers is None:
            self.buffers = dict(self.tensors(LOADED_TP, lambda _, __, shape:
                                self.np.ones(shape, self.dtype)))

    def save(self, path, option):
        def data(index, offset, shape):
            return self.data[index][offset]

        state = dict(self.tensors(SAVED_TP, data))
        strategy = self.megatron.ZarrSaveShardedStrategy(
            "zarr", 1, sync=option == "sync")
        return lambda: strategy.save(state, path)

    def load(self, path, option):
        into = option == "buffers"
        state = (dict(self.buffers) if into else
                 dict(self.tensors(LOADED_TP, lambda *_: None)))
        strategy = self.megatron.ZarrLoadShardedStrategy(into_buffers=into)
        return lambda: strategy.load(state, path)


class Zarr:
    """The calls of zarr-python that Megatron Core's strategy makes."""

    def __init__(self, count, size, dtype):
        import numpy as np
        import zarr

        self.zarr, self.np = zarr, np
        self.count, self.size, self.dtype = count, size, dtype
        self.data = None

    prepare = Holdfast.prepare

    def save(self, path, option):
        def work():
            for index in range(self.count):
                first = None
                for offset, shape in parts(index, self.size, SAVED_TP):
                    where = f"{path}/layer.{index}.weight"
                    if first is None:
                        first = array = self.zarr.create(
                            (self.size, self.size), dtype=self.dtype,
                            store=where, chunks=shape, compressor=None,
                            fill_value=None, write_empty_chunks=True)
                    else:
                        array = self.zarr.open(where, "r+")
                    array[box(offset, shape)] = self.data[index][offset]
        return work

    def load(self, path, option):
        def work():
            return [self.zarr.open(f"{path}/layer.{index}.weight", "r")
                    [box(offset, shape)]
                    for index in range(self.count)
                    for offset, shape in parts(index, self.size, LOADED_TP)]
        return work


def shards_of(np, index, shape, dtype):
    whole = np.random.default_rng(index).standard_normal(
        shape, dtype=np.float32).astype(dtype)
    return {offset: np.ascontiguousarray(whole[box(offset, local)])
            for offset, local in parts(index, shape[0], SAVED_TP)}


def box(offset, shape):
    return tuple(slice(o, o + n) for o, n in zip(offset, shape))


def worker(kind, count, size, dtype):
    """Runs the commands on standard input, one per line."""
    side = {"holdfast": Holdfast, "zarr": Zarr}[kind](count, size, dtype)
    for line in sys.stdin:
        operation, path, option = json.loads(line)
        side.prepare(operation, option)
        work = getattr(side, operation)(path, option)
        before = peak_kib() if reset_peak() is None else 0
        start, cpu = time.perf_counter(), time.process_time()
        result = work()
        seconds = time.perf_counter() - start
        cpu = time.process_time() - cpu
        peak = peak_kib() - before
        del result, work
        print(json.dumps({"seconds": seconds, "cpu_seconds": cpu,
                          "peak_kib": peak}), flush=True)


class Side:
    def __init__(self, python, kind, arguments, size):
        self.process = subprocess.Popen(
            [python, __file__, "--worker", kind, "--arrays",
             str(arguments.arrays), "--size", str(size), "--dtype",
             arguments.dtype],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(self, operation, path, option=""):
        self.process.stdin.write(
            json.dumps([operation, str(path), option]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker died in {operation}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def same_files(a, b):
    compared = filecmp.dircmp(a, b)
    names = [str(p.relative_to(a)) for p in a.rglob("*") if p.is_file()]
    _, different, missing = filecmp.cmpfiles(a, b, names, shallow=False)
    return not (compared.left_only or compared.right_only or different
                or missing)


def rounds_of(arguments, size, scratch):
    """Returns {(operation, peer): [result of each round]}."""
    ours = Side(sys.executable, "holdfast", arguments, size)
    peer = Side(arguments.peer_python, "zarr", arguments, size)
    cases = [("load", "zarr-python", peer, ""),
             ("load", "holdfast", ours, ""),
             ("load", "holdfast, into buffers", ours, "buffers"),
             ("save", "zarr-python, no syncs", peer, ""),
             ("save", "holdfast, no syncs", ours, ""),
             ("save", "holdfast, synced", ours, "sync")]
    source = scratch / "source"
    source.mkdir()
    ours.do("save", source, "sync")
    results = {(operation, name): [] for operation, name, _, _ in cases}
    for number in range(arguments.rounds + 1):
        turn = number % 3
        order = (cases[turn:3] + cases[:turn]
                 + cases[3 + turn:] + cases[3:3 + turn])
        for operation, name, side, option in order:
            path = source
            if operation == "save":
                path = scratch / "saved"
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
                os.sync()
            got = side.do(operation, path, option)
            if operation == "save" and number == 0:
                if not same_files(source, path):
                    raise SystemExit(f"{name}: files differ from the source's")
            if number > 0:
                results[operation, name].append(got)
    ours.end()
    peer.end()
    return results


def table(arguments, results):
    mib = arguments.arrays * arguments.mib
    base = {}
    lines = [
        f"# Megatron's zarr checkpoints: {mib} MiB in {arguments.arrays}"
        f" arrays of {arguments.dtype}, TP {SAVED_TP}",
        "",
        f"Loaded at TP {LOADED_TP}, saved at TP {SAVED_TP}. Medians of"
        f" {arguments.rounds} rounds in turns, warm page cache,"
        f" {os.cpu_count()} processors ({platform.machine()}). Peak memory is"
        " what a call adds, including its results.",
        "",
        "| operation | by | median s | min s | max s | times zarr-python |"
        " CPU s | peak MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (operation, name), rounds in results.items():
        seconds = [r["seconds"] for r in rounds]
        median = statistics.median(seconds)
        base.setdefault(operation, median)
        cpu = statistics.median(r["cpu_seconds"] for r in rounds)
        peak = statistics.median(r["peak_kib"] for r in rounds) / 1024
        lines.append(
            f"| {operation} | {name} | {median:.3f} | {min(seconds):.3f} |"
            f" {max(seconds):.3f} | {base[operation] / median:.2f} |"
            f" {cpu:.2f} | {peak:.0f} |")
    command = " ".join(a for a in sys.argv[1:]
                       if not a.startswith(("/", "--peer-python", "--dir")))
    lines += ["", f"Made with `bench/megatron.py --peer-python PYTHON {command}`."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--arrays", type=int, default=64)
    parser.add_argument("--mib", type=int, default=16, help="size of one array")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--dir", type=pathlib.Path)
    parser.add_argument("--out")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.arrays, arguments.size,
               arguments.dtype)
        return
    width = 2 if arguments.dtype == "float16" else 4
    size = int((arguments.mib * 2**20 / width) ** 0.5) // 8 * 8
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        results = rounds_of(arguments, size, pathlib.Path(directory))
    text = table(arguments, results)
    print(text)
    if arguments.out:
        base = pathlib.Path(__file__).parent / "results" / arguments.out
        base.with_suffix(".md").write_text(text)
        rows = [{"operation": o, "by": n, "rounds": r}
                for (o, n), r in results.items()]
        base.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
