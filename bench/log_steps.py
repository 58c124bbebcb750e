#!/usr/bin/env python3
"""Times `holdfast log` on a root of many steps.

usage: log_steps.py HOLDFAST [STEPS] [ROUNDS]

HOLDFAST is the command. Makes a root of STEPS (1000) steps, each with one
tensor and metrics, in a temporary directory. Prints, as Markdown, the least and
the median seconds of ROUNDS (9) runs of each command, including process start.
"""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import holdfast.orbax as ocp


def make_root(root: pathlib.Path, step_count: int) -> None:
    options = ocp.CheckpointManagerOptions(
        best_fn=lambda metrics: metrics["loss"],
        enable_async_checkpointing=False)
    state = {"w": np.ones(256, np.float32)}
    with ocp.CheckpointManager(root, options=options) as manager:
        for step in range(step_count):
            state["w"][:] = np.nan if step > step_count * 0.6 else step
            manager.save(step, args=ocp.args.StandardSave(state),
                         metrics={"loss": 1 / (step + 1)})


def main() -> None:
    holdfast = sys.argv[1]
    step_count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    round_count = int(sys.argv[3]) if len(sys.argv) > 3 else 9
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory) / "run"
        make_root(root, step_count)
        commands = {
            "log": ["log", root],
            "log -n 20": ["log", "-n", "20", root],
            "log --metric loss": ["log", "--metric", "loss", root],
            "log --json": ["log", "--json", root],
            "bisect --bad-if nan(*)": ["bisect", root, "--bad-if", "nan(*)"],
            "info ROOT@best:loss": ["info", f"{root}@best:loss"],
            "info ROOT@step=500": ["info", f"{root}@step=500"],
        }
        print(f"{step_count} steps\n")
        print("| command | least s | median s |\n|---|--:|--:|")
        for name, words in commands.items():
            seconds = []
            for _ in range(round_count):
                start = time.perf_counter()
                subprocess.run([holdfast, *map(str, words)], check=True,
                               stdout=subprocess.DEVNULL)
                seconds.append(time.perf_counter() - start)
            print(f"| `{name}` | {min(seconds):.3f} |"
                  f" {statistics.median(seconds):.3f} |")


if __name__ == "__main__":
    main()
