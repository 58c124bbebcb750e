"""Times a manager of 1,000 steps with metrics, and the engine's part of it.

    python bench/manager_steps.py [STEPS]

Prints milliseconds of processor time, the least of five runs, for the engine
and for the drop-in's CheckpointManager with `best_fn`, when it is asked for its
best step. The engine does what the C++ CheckpointManager does when it is
constructed: it finds the steps, checks that each is a checkpoint and reads its
metadata.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import holdfast.orbax as ocp
from holdfast import _engine


def milliseconds(call: Callable[[], Any]) -> float:
    """Returns the least processor time of five calls."""
    times = []
    for _ in range(5):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times) * 1e3


def put_step(root: pathlib.Path, step: int) -> None:
    """Writes the files of a committed step that a manager looks at."""
    directory = root / str(step)
    (directory / "default").mkdir(parents=True)
    (directory / "metrics").mkdir()
    times = {"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": step * 10**9}
    (directory / "_CHECKPOINT_METADATA").write_text(json.dumps(times))
    loss = json.dumps({"loss": step * 0.5})
    (directory / "metrics" / "metrics").write_text(loss)


def main() -> None:
    """Runs the program that the module's docstring describes."""
    step_count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for step in range(step_count):
            put_step(root, step)

        def engine() -> None:
            rows = _engine.scan_steps(str(root))
            _engine.hold_checkpoints([f"{root}/{row[1]}" for row in rows])

        def drop_in() -> None:
            options = ocp.CheckpointManagerOptions(
                best_fn=lambda metrics: metrics["loss"], create=False
            )
            with ocp.CheckpointManager(root, options=options) as manager:
                assert manager.best_step() == step_count - 1

        least, whole = milliseconds(engine), milliseconds(drop_in)
    print(f"engine {least:.1f} ms, drop-in {whole:.1f} ms", end=", ")
    print(f"ratio {whole / least:.2f}")


if __name__ == "__main__":
    main()
