"""wait_for_new_checkpoint and checkpoints_iterator."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import holdfast.orbax as ocp
from holdfast.orbax import checkpoint_utils


def save(root: Path, step: int, **options: object) -> None:
    chosen = ocp.CheckpointManagerOptions(**options)  # type: ignore[arg-type]
    with ocp.CheckpointManager(root, options=chosen) as manager:
        manager.save(
            step, args=ocp.args.StandardSave({"a": np.arange(3) + step})
        )


def test_snapshot_outlives_the_step(tmp_path: Path) -> None:
    save(tmp_path, 3)
    with checkpoint_utils.wait_for_new_checkpoint(tmp_path) as step:
        assert step == 3
        snapshot = checkpoint_utils.get_snapshot_dir_from_step_dir(
            tmp_path / "3"
        )
        assert os.fspath(snapshot) == str(tmp_path / "_SNAPSHOTS" / "3")
        shutil.rmtree(tmp_path / "3")
        found = ocp.CheckpointManager(snapshot.parent).restore(3)
        np.testing.assert_array_equal(found["a"], [3, 4, 5])
    assert os.listdir(tmp_path / "_SNAPSHOTS") == []


def test_timeout(tmp_path: Path) -> None:
    wait = checkpoint_utils.wait_for_new_checkpoint
    with wait(tmp_path / "none", timeout=0) as step:
        assert step == -1
    save(tmp_path, 3)
    with wait(tmp_path, until_step=4, timeout=0) as step:
        assert step == -1
    with wait(tmp_path, until_step=3, timeout=0) as step:
        assert step == 3
    answers = iter([False, True])
    with wait(
        tmp_path,
        until_step=4,
        timeout=0,
        seconds_to_sleep=0,
        timeout_fn=lambda: next(answers),
    ) as step:
        assert step == -1
    assert list(answers) == []


def test_other_names(tmp_path: Path) -> None:
    save(tmp_path, 5, step_prefix="ckpt", step_format_fixed_length=4)
    with checkpoint_utils.wait_for_new_checkpoint(
        tmp_path, step_prefix="ckpt", step_format_fixed_length=4
    ) as step:
        assert step == 5
        assert os.listdir(tmp_path / "_SNAPSHOTS") == ["ckpt_0005"]
    with pytest.raises(ValueError, match="No step path found"):
        with checkpoint_utils.wait_for_new_checkpoint(tmp_path):
            pass


def test_iterator(tmp_path: Path) -> None:
    """The iterator returns each step that another thread saves once, in
    order."""
    (tmp_path / "_SNAPSHOTS" / "7").mkdir(parents=True)  # of another program
    seen = []
    go_on = threading.Semaphore()

    def train() -> None:
        for step in range(4):
            go_on.acquire()
            save(tmp_path, step, max_to_keep=1)

    thread = threading.Thread(target=train)
    thread.start()
    for step in checkpoint_utils.checkpoints_iterator(
        tmp_path,
        seconds_to_sleep=0,
        timeout=30,
        timeout_fn=lambda: len(seen) == 4,
    ):
        assert os.listdir(tmp_path / "_SNAPSHOTS") == [str(step)]
        seen.append(step)
        go_on.release()
        if step == 3:
            break
    thread.join()
    assert seen == [0, 1, 2, 3]
