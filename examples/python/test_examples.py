"""Runs the examples as a user would.

HOLDFAST_READER names the built example_read_checkpoint; if it is unset, the C++
reader is not tested.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


def run(script, *arguments, expect=0):
    done = subprocess.run(
        [sys.executable, HERE / script, *map(str, arguments)],
        stdout=subprocess.PIPE, encoding="utf-8",
        env={**os.environ, "JAX_PLATFORMS": "cpu"})
    assert done.returncode == expect, done.stdout
    return done.stdout


def losses(text):
    return dict(re.findall(r"step (\d+) loss (\S+)", text))


def test_jax_loop_survives_being_killed(tmp_path):
    pytest.importorskip("jax")
    whole = losses(run("train_jax.py", tmp_path / "whole"))
    assert len(whole) == 30

    folder = tmp_path / "killed"
    run("train_jax.py", folder, "--die-at", 17, expect=-9)
    assert (folder / "15").is_dir()
    resumed = run("train_jax.py", folder)
    assert re.match(r"resumed from step 1[57]\n", resumed)
    after = losses(resumed)
    assert "30" in after and "15" not in after
    assert after == {step: whole[step] for step in after}
    assert float(after["30"]) < float(whole["1"])


def test_jax_loop_starts_over_when_nothing_was_committed(tmp_path):
    pytest.importorskip("jax")
    run("train_jax.py", tmp_path, "--die-at", 3, expect=-9)
    again = run("train_jax.py", tmp_path, "--steps", 6)
    assert {"4", "5", "6"} <= losses(again).keys()


def test_torch_loop_resumes(tmp_path):
    pytest.importorskip("torch")
    whole = losses(run("train_torch.py", tmp_path / "whole"))
    first = losses(run("train_torch.py", tmp_path / "stopped",
                       "--stop-after", 12))
    second = run("train_torch.py", tmp_path / "stopped")
    assert second.startswith("resumed from step 10\n")
    assert whole == {**first, **losses(second)}


def test_trainer_goes_on_after_a_kill_as_if_there_were_none(tmp_path):
    pytest.importorskip("torch")
    whole = losses(run("train_trainer.py", tmp_path / "whole"))
    assert len(whole) == 40
    folder = tmp_path / "killed"
    first = losses(run("train_trainer.py", folder, "--die-at", 23, expect=-9))
    second = run("train_trainer.py", folder)
    assert re.match(r"resumed from step (14|21)\n", second)
    assert whole == {**first, **losses(second)}


@pytest.mark.parametrize("script", ["train_fsdp.py", "train_dcp.py"])
def test_fsdp_loops_resume_on_more_processes(tmp_path, script):
    pytest.importorskip("torch.distributed.fsdp")
    whole = losses(run(script, tmp_path, "--processes", 1, "--steps", 8))
    resumed = run(script, tmp_path, "--processes", 2, "--steps", 8)
    assert resumed.startswith("resumed from step 5 with 2 processes\n")
    after = losses(resumed)
    assert list(after) == ["6", "7", "8"]
    for step, loss in after.items():
        assert float(loss) == pytest.approx(float(whole[step]), rel=1e-4)


def test_other_mesh(tmp_path):
    pytest.importorskip("jax")
    assert "restored on another mesh" in run("other_mesh.py",
                                             tmp_path / "checkpoint")


def test_cpp_reads_what_python_wrote(tmp_path):
    reader = os.environ.get("HOLDFAST_READER")
    if not reader:
        pytest.skip("HOLDFAST_READER is not set")
    import numpy as np

    import holdfast
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    holdfast.save(tmp_path / "checkpoint", {"params": {"w": weights}})
    done = subprocess.run([reader, tmp_path / "checkpoint", "params.w"],
                          stdout=subprocess.PIPE, encoding="utf-8", check=True)
    assert done.stdout == "params.w: float32 (3, 4), sum 66.000\n"


def test_metrics_are_logged_after_each_save(tmp_path):
    # Without a tracker, metrics are printed.
    text = run("log_metrics.py", tmp_path, "--steps", 2)
    if "step 1" in text:
        lines = text.splitlines()
        assert len(lines) == 2
        assert all(" checkpoint/saves=1 " in line for line in lines)
