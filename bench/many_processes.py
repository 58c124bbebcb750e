#!/usr/bin/env python3
"""Times holdfast.save and load by 1, 2 and 4 processes on the same bytes.

usage: many_processes.py [--megabytes N] [--rounds N] [--dir SCRATCH]
                         [--out NAME] [--arrays N]

The processes use torch.distributed on this machine, and each has its part of
DTensors (Shard(0)); a single process has plain tensors. Timing starts when all
processes have passed a barrier and ends when the last one has finished. Runs
are interleaved; prints medians. The goal is at most 1.2 times the time of one
process.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

import holdfast

COUNTS = (1, 2, 4)
COLUMNS = 1024


class Case:
    """The same tensors, spread over the first `count` ranks."""

    def __init__(self, count, arrays, rows, seed):
        self.count = count
        self.group = dist.new_group(list(range(count)))
        self.is_here = dist.get_rank() < count
        if not self.is_here:
            return
        generator = torch.Generator().manual_seed(seed + dist.get_rank())
        share = rows // count

        def part():
            return torch.randn(share, COLUMNS, generator=generator)

        if count == 1:
            self.tree = {f"w{i}": part() for i in range(arrays)}
            return
        mesh = DeviceMesh.from_group(self.group, "cpu",
                                     torch.arange(count))
        self.tree = {
            f"w{i}": DTensor.from_local(part(), mesh, [Shard(0)],
                                        run_check=False)
            for i in range(arrays)}

    def options(self):
        return {"group": None if self.count == 1 else self.group}

    def save(self, path):
        return holdfast.save(path, self.tree, overwrite=True, **self.options())

    def load(self, path):
        return holdfast.load(path, self.tree, **self.options())


def timed(case, call, path):
    """Returns, on rank 0, the seconds until the last rank is done."""
    dist.barrier()
    start = time.perf_counter()
    result = call(path) if case.is_here else None
    seconds = time.perf_counter() - start
    slowest = torch.tensor([seconds if case.is_here else 0.0])
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    del result
    return slowest.item()


def check(case, path):
    if not case.is_here:
        return
    got = case.load(path)
    for name, tensor in case.tree.items():
        value, wanted = got[name], tensor
        if case.count > 1:
            value, wanted = value.to_local(), tensor.to_local()
        assert torch.equal(value, wanted), name


def run_rank(rank, port, args):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}",
                            rank=rank, world_size=max(COUNTS))
    rows = (args.megabytes << 20) // (4 * COLUMNS * args.arrays)
    rows -= rows % max(COUNTS)
    cases = [Case(count, args.arrays, rows, 1) for count in COUNTS]
    rounds = {count: {"save": [], "load": []} for count in COUNTS}
    for number in range(args.rounds + 1):  # the first round warms up
        for case in cases:
            path = args.scratch / str(case.count)
            if rank == 0:
                shutil.rmtree(path, ignore_errors=True)
                os.sync()
            saved = timed(case, case.save, path)
            if number == 0:
                check(case, path)
            loaded = timed(case, case.load, path)
            if number > 0:
                rounds[case.count]["save"].append(saved)
                rounds[case.count]["load"].append(loaded)
    if rank == 0:
        report(args, rounds, 4 * COLUMNS * rows * args.arrays)
    dist.barrier()
    dist.destroy_process_group()


def report(args, rounds, byte_count):
    lines = [
        f"{byte_count / 2**20:.0f} MiB of float32 in {args.arrays} arrays,"
        f" {args.rounds} rounds, {os.cpu_count()} CPUs; medians in seconds",
        "",
        "| processes | save | to one | load | to one |",
        "|--:|--:|--:|--:|--:|"]
    one = {key: statistics.median(rounds[1][key]) for key in ("save", "load")}
    for count in COUNTS:
        cells = [str(count)]
        for key in ("save", "load"):
            median = statistics.median(rounds[count][key])
            cells += [f"{median:.3f}", f"{median / one[key]:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    command = (f"python bench/many_processes.py --megabytes {args.megabytes}"
               f" --arrays {args.arrays} --rounds {args.rounds}")
    text = "\n".join([*lines, "", f"`{command}`", ""])
    print(text)
    if args.out:
        base = pathlib.Path(__file__).parent / "results" / args.out
        base.with_suffix(".md").write_text(text)
        base.with_suffix(".json").write_text(
            json.dumps({"bytes": byte_count, "rounds": rounds}, indent=1))


def free_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--arrays", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir", type=pathlib.Path)
    parser.add_argument("--out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as scratch:
        args.scratch = pathlib.Path(scratch)
        torch.multiprocessing.spawn(
            run_rank, nprocs=max(COUNTS), args=(free_port(), args))


if __name__ == "__main__":
    main()
