#!/usr/bin/env python3
"""Compares saves by 2 and 4 real processes in Orbax and holdfast.orbax.

usage: run_processes.py [--cases N] [--seed S] [--keep DIR] [--kills N]

For each random case (mesh, partition specs, options; half of them with 2
processes, half with 4), both packages save the same tree. `_METADATA`,
`_sharding`, `array_metadatas`, array metadata and chunk keys must be equal.
Then each restores both checkpoints on another mesh; all values must be equal.
The same holds if each process has its own directory. Four processes restore a
view of safetensors, and a checkpoint that they have saved with
also="safetensors". Then 1, 2 and 4 processes restore the golden checkpoints
that 2 and 3 processes wrote. Prints what differs, with its seed; exit status 1
on any.

With --kills, one process is killed at a random moment of each of N saves.
Earlier checkpoints must restore, no half-written checkpoint may be visible, and
the next save must succeed.
"""

import argparse
import itertools
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "python/tests"))

from process_jobs import Job  # noqa: E402
import view_cases  # noqa: E402

WRITERS = ("orbax", "holdfast")
LOCAL_CASES = 4
VIEWS = 6
# Golden checkpoints that several processes wrote: (case, item in it).
RECORDED = (("mp2_zarr2_ocdbt", "ckpt"), ("mp2_zarr3_dirs", "ckpt"),
            ("mp2_v1", "ckpt/state"), ("mp3_zarr2_ocdbt", "ckpt"),
            ("mp3_replica_separate_zarr3", "ckpt"),
            ("mp2_manager", "ckpt/4/state"))


def run_case(job, seed, root):
    """Runs a case; returns the problems as strings."""
    problems = []
    for which in WRITERS:
        problems += _errors(f"{which} saves", job.call(
            "process_cases:save", seed=seed, root=root, which=which))
    if problems:
        return problems
    differing = job.call("process_cases:compare", seed=seed, root=root,
                         only=[0])
    problems += _errors("files", differing)
    problems += [f"files: {p}" for o in differing.values()
                 for p in o.value or ()]
    for writer in WRITERS:
        for reader in WRITERS:
            outcomes = job.call("process_cases:restore", seed=seed, root=root,
                                writer=writer, reader=reader)
            what = f"{reader} restores {writer}'s"
            problems += _errors(what, outcomes)
            problems += [f"{what}, process {i}: {p}"
                         for i, o in outcomes.items() for p in o.value or ()]
    return problems


def _errors(what, outcomes):
    return [f"{what}, process {i}: {o.error}"
            for i, o in outcomes.items() if o.error]


def run_cases(processes, seeds, root, keep):
    """Prints what differs; returns the number of cases without differences."""
    good = 0
    with Job(processes, modules=HERE,
             environment={"JAX_ENABLE_X64": "1",
                          "TF_CPP_MIN_LOG_LEVEL": "3"}) as job:
        for seed in seeds:
            problems = run_case(job, seed, str(root))
            for problem in problems:
                print(f"FAILED {processes} processes, seed {seed}: "
                      f"{problem[:1500]}", flush=True)
            good += not problems
            if not (problems and keep):
                for path in root.glob(f"*-{seed}*"):
                    shutil.rmtree(path, ignore_errors=True)
    return good


def run_local(scratch):
    """Runs the cases in which each process has its own directory. Prints the
    differences; returns the number of cases without differences."""
    good = 0
    with Job(2, modules=HERE) as job:
        for use_ocdbt, use_zarr3 in itertools.product((True, False), repeat=2):
            root = f"{scratch}/local-{use_ocdbt}-{use_zarr3}"
            formats = {"use_ocdbt": use_ocdbt, "use_zarr3": use_zarr3}
            problems = []
            for which in WRITERS:
                problems += _errors(f"{which} saves", job.call(
                    "local_cases:save", root=root, which=which, **formats))
            calls = [("files", job.call(
                "local_cases:compare", root=root, use_ocdbt=use_ocdbt))]
            calls += [(f"{reader} restores {writer}'s", job.call(
                "local_cases:restore", root=root, writer=writer, reader=reader,
                **formats)) for writer in WRITERS for reader in WRITERS]
            for what, outcomes in calls:
                problems += _errors(what, outcomes)
                problems += [f"{what}, process {i}: {p}"
                             for i, o in outcomes.items()
                             for p in o.value or ()]
            for problem in problems:
                print(f"FAILED own directories, {formats}: {problem[:900]}",
                      flush=True)
            good += not problems
    return good


def run_views(scratch):
    """Prints what Orbax and holdfast restore wrongly; returns the number of
    correct restores."""
    good = 0
    root = f"{scratch}/views"
    view_cases.make(root)
    with Job(4, modules=HERE, environment={"TF_CPP_MIN_LOG_LEVEL": "3"}) as job:
        problems = _errors("save", job.call("view_cases:save_both", root=root))
        problems += view_cases.face_problems(root)
        for reader, name in itertools.product(view_cases.READERS,
                                              view_cases.NAMES):
            outcomes = job.call("view_cases:restore", root=root, name=name,
                                reader=reader)
            wrong = _errors(name, outcomes)
            wrong += [f"process {i}: {p}" for i, o in outcomes.items()
                      for p in o.value or ()]
            problems += [f"{reader} restores {name}: {p}" for p in wrong]
            good += not wrong
    for problem in problems:
        print(f"FAILED views, {problem[:900]}", flush=True)
    return 0 if problems else good


def run_recorded(processes, corpus):
    """Prints what is restored wrongly; returns the number of checkpoints that
    are restored correctly."""
    good = 0
    with Job(processes, modules=ROOT / "python/tests/orbax") as job:
        for case, item in RECORDED:
            outcomes = job.call(
                "process_functions:restore_recorded",
                path=str(corpus / case / item),
                expected=str(corpus / case / "expected.json"))
            problems = _errors(case, outcomes)
            problems += [f"{case}, process {i}: {p}"
                         for i, o in outcomes.items() for p in o.value or ()]
            for problem in problems:
                print(f"FAILED {processes} processes, {problem}", flush=True)
            good += not problems
    return good


def run_kills(count, seed, scratch):
    """Kills a process at a random moment of each save; returns the number of
    kills without problems.

    The step before must restore, no half-written step may be visible, and the
    next save to the same path must succeed.
    """
    random = np.random.default_rng(seed)
    root = pathlib.Path(scratch)
    functions = ROOT / "python/tests/orbax"
    good = committed = 0
    save_seconds = 0.0
    for i in range(count):
        api = ("pytree", "standard", "v1")[i % 3]
        before, path = root / f"before-{i}", root / f"killed-{i}"
        problems = []
        with Job(2 + i % 2, modules=functions) as job:
            job.run("process_functions:save_much", path=str(before), api=api)
            if i < 3:
                outcomes = job.call("process_functions:save_much",
                                    path=f"{path}-timed", api=api)
                save_seconds = max(save_seconds, outcomes[0].seconds)
            job.call_and_kill(
                "process_functions:save_much",
                victim=int(random.integers(0, job.processes)),
                after=float(random.random() * save_seconds),
                path=str(path), api=api)
        committed += path.exists()
        seen = [name for name in os.listdir(root) if name.startswith("killed")
                and "orbax-checkpoint-tmp" not in name and "timed" not in name]
        if seen != ([path.name] if path.exists() else []):
            problems.append(f"there is {seen}")
        with Job(2, modules=functions) as job:
            if not path.exists():
                outcomes = job.call("process_functions:save_much",
                                    path=str(path), api=api)
                problems += _errors("the next save", outcomes)
            for each in (before, path):
                outcomes = job.call("process_functions:restore_much",
                                    path=str(each), api=api)
                problems += _errors(f"restore of {each.name}", outcomes)
                problems += [str(o.value) for o in outcomes.values() if o.value]
        for problem in problems:
            print(f"FAILED kill {i}, {api}: {problem[:900]}", flush=True)
        good += not problems
        for each in root.iterdir():
            shutil.rmtree(each, ignore_errors=True)
    print(f"{good} of {count} kills harmless ({committed} after the commit)")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--keep", help="keep failed checkpoints here")
    parser.add_argument("--kills", type=int, default=0,
                        help="instead: kill a process in so many saves")
    args = parser.parse_args()
    if args.kills:
        with tempfile.TemporaryDirectory(prefix="holdfast-kills-") as scratch:
            good = run_kills(args.kills, args.seed, scratch)
        return 0 if good == args.kills else 1
    start = time.monotonic()
    good = 0
    share = -(-args.cases // len(args.processes))
    with tempfile.TemporaryDirectory(prefix="holdfast-processes-") as scratch:
        root = pathlib.Path(args.keep or scratch).resolve()
        root.mkdir(parents=True, exist_ok=True)
        for i, processes in enumerate(args.processes):
            first = args.seed + i * share
            seeds = range(first, min(first + share, args.seed + args.cases))
            good += run_cases(processes, seeds, root, args.keep)
        local = run_local(scratch)
        views = run_views(scratch)
    with tempfile.TemporaryDirectory(prefix="holdfast-corpus-") as scratch:
        with tarfile.open(ROOT / "tests/golden/corpus/open.tar.xz") as archive:
            archive.extractall(scratch)
        corpus = pathlib.Path(scratch) / "open"
        recorded = sum(run_recorded(n, corpus) for n in (1, 2, 4))
    wanted = 3 * len(RECORDED)
    print(f"{good} of {args.cases} cases and {local} of {LOCAL_CASES} with own "
          f"directories alike, {views} of {VIEWS} restores of views and {recorded} of {wanted} "
          f"restores of recorded checkpoints right, in "
          f"{time.monotonic() - start:.0f} s")
    is_good = (good, local, views, recorded) == (
        args.cases, LOCAL_CASES, VIEWS, wanted)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
