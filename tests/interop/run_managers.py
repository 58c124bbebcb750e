#!/usr/bin/env python3
"""Real Orbax and holdfast's C++ CheckpointManager take turns in saving a run.

usage: run_managers.py --driver MANAGER_STEPS

The other manager takes over every few steps of a run of 20 steps, with pruning.
After each part, the directories on disk, steps, best step and values must be
the same as in a run by only real Orbax. Prints each difference and a line with
the counts; exit status 1 on any difference.
"""

# The platform must be chosen before jax is imported.
# ruff: noqa: E402, I001

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import orbax_tools as tools
import numpy as np

ocp = tools.ocp
PARTS = [(0, 3), (3, 1), (4, 6), (10, 2), (12, 8)]
# max_to_keep, keep_period, best_mode, step_prefix
OPTIONS = [(3, 0, "none", ""), (2, 5, "none", "ckpt"), (2, 0, "min", ""),
           (3, 4, "max", "s"), (0, 0, "none", ""), (1, 0, "max", "")]


def loss(step):
    """Returns the step's loss, like LossOf in manager_steps.cc."""
    return step * 37 % 11 / 2


def train_stock(root, first, count, options):
    """Runs a part with real Orbax; returns the steps, the best, and `w`."""
    max_to_keep, keep_period, best_mode, prefix = options
    arguments = {}
    if best_mode != "none":
        arguments = {"best_fn": lambda m: m["loss"], "best_mode": best_mode}
    manager = ocp.CheckpointManager(root, options=ocp.CheckpointManagerOptions(
        max_to_keep=max_to_keep or None, keep_period=keep_period or None,
        step_prefix=prefix or None, **arguments))
    w = np.zeros(1)
    if manager.latest_step() is not None:
        w = manager.restore(manager.latest_step(),
                            args=ocp.args.StandardRestore())["w"]
    for step in range(first, first + count):
        w = w + 1
        manager.save(step, args=ocp.args.StandardSave({"w": w}),
                     metrics={"loss": loss(step)})
    manager.wait_until_finished()
    best = manager.best_step()
    known = {"steps": list(manager.all_steps()),
             "best": -1 if best is None else best, "w": float(w[0])}
    manager.close()
    return known


def train_ours(driver, root, first, count, options):
    """Runs a part with holdfast; returns the same."""
    ran = subprocess.run(
        [driver, str(root), str(first), str(count), *map(str, options)],
        capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return {"error": ran.stderr}
    return json.loads(ran.stdout)


def directories(root):
    """Returns the names of the steps on disk."""
    return sorted(path.name for path in root.iterdir()
                  if not path.name.startswith("."))


def compare(driver, scratch, options, first_is_ours):
    """Returns the differences between a mixed run and a run by only real
    Orbax."""
    mixed, alone = scratch / "mixed", scratch / "alone"
    turns = itertools.cycle([first_is_ours, not first_is_ours])
    differences = []
    for (first, count), is_ours in zip(PARTS, turns):
        wanted = train_stock(alone, first, count, options)
        got = (train_ours(driver, mixed, first, count, options) if is_ours
               else train_stock(mixed, first, count, options))
        where = f"{options} from {first} by {'ours' if is_ours else 'Orbax'}"
        if got != wanted:
            differences.append(f"{where}: got {got}, want {wanted}")
        if directories(mixed) != directories(alone):
            differences.append(f"{where}: got {directories(mixed)} on disk, "
                               f"want {directories(alone)}")
        if differences:
            break
    return differences


def main():
    """Prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", required=True)
    args = parser.parse_args()
    differences = []
    for options in OPTIONS:
        for first_is_ours in (False, True):
            with tempfile.TemporaryDirectory() as scratch:
                differences += compare(args.driver, pathlib.Path(scratch),
                                       options, first_is_ours)
    for difference in differences:
        print(difference)
    print(f"{2 * len(OPTIONS)} runs of 20 steps, "
          f"{len(differences)} differences")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
