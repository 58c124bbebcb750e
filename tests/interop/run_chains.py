#!/usr/bin/env python3
"""Tests chains of deltas: damage, kills, and what stock tools read of them.

usage: run_chains.py [--trials N] [--kills N] [--seed S]

  stock    stock Orbax restores anchors and materialized steps, and opens deltas
           as arrays of bytes; TensorStore opens one of these arrays
  damage   N times: a random file of a random chain gets a flipped bit, is cut,
           emptied or removed, or is replaced by another step's file; every step
           must load as it was saved, or not at all
  kills    a process that saves deltas, one after the other, is killed at a
           random moment; every committed step must load as it was saved, and
           the next step must be saved
  behind   a follower that is 100 steps behind catches up
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts

import holdfast

warnings.simplefilter("ignore", holdfast.errors.HoldfastWarning)

SHAPES = {"w": (40, 50), "v": (3, 1000), "u": (7,)}
DTYPES = {"w": ml_dtypes.bfloat16, "v": np.float32, "u": np.int64}


def state_at(seed: int, step: int) -> dict[str, object]:
    """Returns the state of step `step` in the run `seed`."""
    state: dict[str, object] = {"step": step, "name": f"run {seed}"}
    for number, (name, shape) in enumerate(SHAPES.items()):
        dtype = np.dtype(DTYPES[name])
        draw = np.random.default_rng([seed, number])
        array = draw.standard_normal(shape).astype(dtype)
        words = array.reshape(-1).view(f"u{dtype.itemsize}")
        for past in range(1, step + 1):
            change = np.random.default_rng([seed, number, past])
            density = (0.0, 0.02, 0.5)[change.integers(3)]
            words += (change.random(words.shape) < density).astype(words.dtype)
        state[name] = array
    return state


def is_state(loaded: dict[str, object], seed: int, step: int) -> bool:
    want = state_at(seed, step)
    if loaded["step"] != step or loaded["name"] != want["name"]:
        return False
    return all(
        np.asarray(loaded[name]).tobytes() == want[name].tobytes()
        for name in SHAPES)


def save_chain(root: pathlib.Path, seed: int, count: int) -> None:
    for step in range(count):
        holdfast.save(root / str(step), state_at(seed, step), durable=False,
                      base=step - 1 if step else None)


def check_stock(folder: pathlib.Path) -> None:
    save_chain(folder / "run", 0, 4)
    holdfast.materialize(folder / "run" / "2")
    for step in (0, 2):
        restored = ocp.PyTreeCheckpointer().restore(folder / "run" / str(step))
        assert is_state(restored, 0, step), step
    assert is_state(holdfast.load(folder / "run" / "3"), 0, 3)
    raw = ocp.PyTreeCheckpointer().restore(folder / "run" / "1")
    assert set(raw) <= {"holdfast_delta", *SHAPES}, set(raw)
    for name, array in raw.items():
        assert array.dtype == np.uint8, name
        opened = ts.open({
            "driver": "zarr",
            "kvstore": {"driver": "ocdbt",
                        "base": f"file://{folder}/run/1/",
                        "path": f"{name}/"}}).result()
        assert np.array_equal(opened.read().result(), array), name


def damage(root: pathlib.Path, count: int, draw: random.Random) -> str:
    """Damages one file; returns a description of the damage."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    path = draw.choice(files)
    content = bytearray(path.read_bytes())
    kind = draw.choice(["flip", "flip", "cut", "empty", "remove", "swap"])
    if kind == "swap":
        step = path.relative_to(root).parts[0]
        rest = path.relative_to(root / step)
        other = root / str(draw.randrange(count)) / rest
        if other.is_file():
            path.write_bytes(other.read_bytes())
    elif kind == "remove":
        path.unlink()
    elif kind == "empty" or not content:
        path.write_bytes(b"")
    elif kind == "cut":
        path.write_bytes(content[:draw.randrange(len(content))])
    else:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
    return f"{kind} {path.relative_to(root)}"


def check_damage(folder: pathlib.Path, trials: int, first: int) -> str:
    count, chain_count = 5, 4
    for seed in range(chain_count):
        save_chain(folder / f"chain{seed}", seed, count)
    loads = failures = 0
    for trial in range(first, first + trials):
        draw = random.Random(trial)
        seed = draw.randrange(chain_count)
        root = folder / "damaged"
        shutil.copytree(folder / f"chain{seed}", root)
        what = damage(root, count, draw)
        for step in range(count):
            try:
                loaded = holdfast.load(root / str(step))
            except holdfast.errors.HoldfastError:
                failures += 1
                continue
            loads += 1
            assert is_state(loaded, seed, step), f"{what}: step {step}, {trial}"
        shutil.rmtree(root)
    assert failures > trials / 2, failures
    return f"{trials} damages: {loads} loads right, {failures} refused, 0 wrong"


def work(root: pathlib.Path, seed: int, first: int) -> None:
    """Saves deltas until it is killed."""
    for step in range(first, 1000):
        holdfast.save(root / str(step), state_at(seed, step), base=step - 1)
        print(step, flush=True)


def check_kills(folder: pathlib.Path, kills: int, seed: int) -> str:
    root = folder / "killed"
    holdfast.save(root / "0", state_at(1, 0))
    draw = random.Random(f"kills {seed}")
    for kill in range(kills):
        newest = max(holdfast.steps(root))
        with subprocess.Popen(
                [sys.executable, __file__, "--work", str(root), "1",
                 str(newest + 1)],
                stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline(), "no save was finished"
            time.sleep(draw.random() * 0.1)
            process.send_signal(signal.SIGKILL)
        steps = holdfast.steps(root)
        assert steps == list(range(len(steps))), steps
        assert len(steps) > newest + 1
        for step in steps[-3:]:
            assert is_state(holdfast.load(root / str(step)), 1, step), kill
    return f"{kills} kills over a chain of {len(steps)} steps"


def check_behind(folder: pathlib.Path) -> str:
    root = folder / "behind"
    save_chain(root, 2, 1)
    memory = {name: np.zeros(shape, DTYPES[name])
              for name, shape in SHAPES.items()}
    follower = holdfast.Follower(root, memory)
    assert follower.poll().step == 0
    for step in range(1, 101):
        holdfast.save(root / str(step), state_at(2, step), durable=False,
                      base=step - 1)
    update = follower.poll()
    assert (update.step, update.delta_count) == (100, 100)
    assert is_state({**memory, "step": 100, "name": "run 2"}, 2, 100)
    return "100 steps behind: caught up by 100 deltas"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", nargs=3)
    args = parser.parse_args()
    if args.work:
        work(pathlib.Path(args.work[0]), int(args.work[1]), int(args.work[2]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_stock(folder)
        print("stock Orbax and TensorStore read what they should")
        print(check_behind(folder))
        print(check_kills(folder, args.kills, args.seed))
        print(check_damage(folder, args.trials, args.seed << 32))


if __name__ == "__main__":
    main()
