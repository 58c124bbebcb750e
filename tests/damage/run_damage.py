#!/usr/bin/env python3
"""Checks that damaged checkpoints give the right values or an error.

usage: run_damage.py HOLDFAST READER [--full | --trials N] [--seed S]
                      [--jobs N]
                      [--layout GLOB] [--damage GLOB] [--way GLOB]
                      [--chunks N] [--show N] [--json FILE]

HOLDFAST is the command, READER the program example_read_checkpoint. Every
layout (checkpoints.py) is damaged in every way (damages.py) and read in every
way (ways*.py). Without --full, runs a seeded sample in which every pair of
damage and layout, of damage and way, and of layout and way occurs. --trials N
tries each way N times on each layout, which is about 3 N times for each damage
and way. Exit status 1 when a cell is wrong, or an undamaged checkpoint cannot
be read.

Needs numpy, jax, tensorstore and stock Orbax besides the package; without
torch, the layouts and ways that need it are left out.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import fnmatch
import importlib.util
import json
import logging
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

# Gives jax four devices to place arrays on. Must be set before jax starts.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Keeps several workers from competing for few processors.
os.environ.setdefault("OMP_NUM_THREADS", "1")
logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")

import cells  # noqa: E402
from cells import OUTCOMES, Answer, Cell, Job  # noqa: E402
from checkpoints import LAYOUTS  # noqa: E402
from damages import DAMAGES  # noqa: E402
from ways import WAYS, load_ways  # noqa: E402


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("holdfast", type=Path)
    parser.add_argument("reader", type=Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--layout", default="*")
    parser.add_argument("--damage", default="*")
    parser.add_argument("--way", default="*")
    parser.add_argument("--chunks", type=int, default=3)
    parser.add_argument("--show", type=int, default=40)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    for name in ("holdfast", "reader"):
        path = getattr(args, name).resolve()
        if not os.access(path, os.X_OK):
            parser.error(f"{path} is no program")
        setattr(args, name, path)
    return args


def drop_torch() -> None:
    for table, wants_torch in (
        (LAYOUTS, ("torch storage", "megatron zarr", "dcp", "torch-dist")),
        (WAYS, [name for name in WAYS if "torch" in name]),
    ):
        for name in wants_torch:
            del table[name]


def keep_only(args: Any) -> None:
    """Removes the table entries that were not asked for or cannot run."""
    load_ways()
    if importlib.util.find_spec("torch") is None:
        drop_torch()
    for table, pattern in (
        (LAYOUTS, args.layout),
        (DAMAGES, args.damage),
        (WAYS, args.way),
    ):
        for name in list(table):
            if not fnmatch.fnmatchcase(name, pattern):
                del table[name]


def job_of(args: Any, layout: str, index: int, **changes: Any) -> Job:
    job = Job(
        layout,
        index,
        args.seed,
        args.full,
        args.chunks,
        args.holdfast,
        args.reader,
        args.trials,
    )
    return dataclasses.replace(job, **changes)


def missing_jobs(args: Any, answers: list[Answer]) -> list[Job]:
    """Returns jobs for pairs of damage and way, or of damage and layout, that
    did not occur."""
    seen = {(c.damage, c.way) for a in answers for c in a.cells}
    more: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
    for damage in DAMAGES:
        for way in WAYS:
            able = [
                answer.layout
                for answer in answers
                if damage in answer.damages and way in answer.ways
            ]
            if able and (damage, way) not in seen:
                # Use few layouts, since each has to be saved again.
                layout = min(able, key=lambda name: (name not in more, name))
                more[layout].append((damage, way))
    of_layout = {(c.damage, c.layout) for a in answers for c in a.cells}
    for answer in answers:
        for i, damage in enumerate(answer.damages):
            if (damage, answer.layout) not in of_layout:
                way = answer.ways[i % len(answer.ways)]
                more[answer.layout].append((damage, way))
    return [
        job_of(args, name, 0, pairs=tuple(pairs))
        for name, pairs in more.items()
    ]


def run_all(pool: Any, jobs: list[Job], show: int) -> list[Answer]:
    """Returns answers in the order of the jobs; prints each as it arrives."""
    futures = [pool.submit(cells.run, job) for job in jobs]
    for future in concurrent.futures.as_completed(futures):
        answer = future.result()
        counts = collections.Counter(c.outcome for c in answer.cells)
        told = ", ".join(f"{counts[o]} {o}" for o in OUTCOMES if counts[o])
        print(f"{answer.layout}: {told} ({answer.seconds:.1f} s)", flush=True)
        wrong = [cell for cell in answer.cells if cell.outcome == "wrong"]
        for cell in wrong[:show]:
            print(f"  WRONG {cell.damage} | {cell.way}\n    {cell.text}")
    return [future.result() for future in futures]


def table(title: str, names: Any, found: list[Cell], key: str) -> None:
    counts: dict[str, Any] = collections.defaultdict(collections.Counter)
    for cell in found:
        counts[getattr(cell, key)][cell.outcome] += 1
    print(f"\n{title:48}" + "".join(f"{o:>10}" for o in OUTCOMES))
    for name in names:
        row = "".join(f"{counts[name][o]:10}" for o in OUTCOMES)
        print(f"{name:48}{row}")


def report(args: Any, answers: list[Answer], seconds: float) -> int:
    found = [cell for answer in answers for cell in answer.cells]
    problems = [text for answer in answers for text in answer.problems]
    table("damage", DAMAGES, found, "damage")
    table("layout", LAYOUTS, found, "layout")
    table("way", WAYS, found, "way")
    wrong = [cell for cell in found if cell.outcome == "wrong"]
    for text in problems[: args.show]:
        print(f"\nNOT READ {text}")
    if args.json:
        rows = [dataclasses.asdict(cell) for cell in found]
        args.json.write_text(json.dumps(rows, indent=0))
    counts = collections.Counter(cell.outcome for cell in found)
    told = ", ".join(f"{counts[o]} {o}" for o in OUTCOMES)
    print(
        f"\n{len(found)} cells of {len(LAYOUTS)} layouts, {len(DAMAGES)} "
        f"damages, {len(WAYS)} ways in {seconds:.0f} s: {told}"
    )
    return 1 if wrong or problems or not found else 0


def main() -> int:
    args = arguments()
    # Workers have the full tables; only this process chooses from them.
    start = time.monotonic()
    keep_only(args)
    jobs = [job_of(args, name, i) for i, name in enumerate(LAYOUTS)]
    with concurrent.futures.ProcessPoolExecutor(
        args.jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=keep_only,
        initargs=(args,),
    ) as pool:
        answers = run_all(pool, jobs, args.show)
        if not args.full:
            answers += run_all(pool, missing_jobs(args, answers), args.show)
    return report(args, answers, time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
