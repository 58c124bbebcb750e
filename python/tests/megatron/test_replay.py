"""Replays the corpus of Megatron Core's checkpoints with the package."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "golden" / "megatron"
HAS_TORCH = importlib.util.find_spec("torch") is not None
# Runs replay.py as on a machine without torch.
WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# The cases that run with processes here: a save by four ranks, a load by two
# ranks that exchange what they have read, and a load that fails only on rank 0.
# They take seconds, because each rank imports torch. `scripts/test-long
# megatron` runs all cases with processes.
IN_PROCESSES = (
    "save w4_fully_parallel",
    "load w2_tp fully_parallel_w2",
    "load w2_strict strict_return_all_both_unvalidated",
)


def replay(*arguments: str, program: str | None = None) -> str:
    command = [sys.executable]
    if program is not None:
        command += ["-c", program]
    done = subprocess.run(
        [*command, str(GOLDEN / "replay.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    last = done.stdout.strip().rsplit("\n", 1)[-1]
    differs = [x for x in done.stdout.split("\n") if x.startswith("DIFFERS")]
    assert done.returncode == 0, f"{last} {differs[:20]}\n{done.stderr[-2000:]}"
    return last


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
def test_every_case_of_the_corpus() -> None:
    counted = replay("--arrays", "torch")

    assert "'load cases': 302" in counted
    assert "'units': 98" in counted
    assert "'saves': 19" in counted


def test_every_case_without_torch() -> None:
    counted = replay("--arrays", "numpy", program=WITHOUT_TORCH)

    assert "'load cases': 302" in counted
    assert "'units': 98" in counted


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
@pytest.mark.parametrize("case", IN_PROCESSES)
def test_ranks_that_are_processes(case: str) -> None:
    counted = replay("--ranks", "processes", "--only", case)

    assert "by rank': " in counted
