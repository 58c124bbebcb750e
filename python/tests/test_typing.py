"""The package passes mypy's strict checks, and users' calls are checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

SAMPLE = """
from typing import Any
import numpy as np
import holdfast

stats: holdfast.Stats = holdfast.save("a", {"w": np.ones(3)})
future: holdfast.Future[holdfast.Stats] = holdfast.save(
    "b", {"w": 1}, background=True, compression="fast", threads=2
)
seconds: float = future.result(timeout=3.0).total_seconds
tree: Any = holdfast.load("a", select=["w"])
opened: holdfast.Checkpoint = holdfast.open("a", step=3)
names: list[str] = list(opened)
one: str = holdfast.digest("a", "w")
every: dict[str, str] = holdfast.digest("a")
report: holdfast.VerifyReport = holdfast.verify("a")
ok: bool = report.ok
with holdfast.TieredManager(
    "c", parity=holdfast.ParityOptions(data_shards=3), compression=None
) as tiers:
    begun: bool = tiers.save(1, {"w": 1}, files={"a": b""})
    restored: holdfast.TierRestore | None = tiers.restored
    sources: list[bool] = [step.is_shared for step in tiers.steps()]
"""

WRONG = """
import holdfast

holdfast.save("a", {}, compression="gzip")
text: str = holdfast.save("a", {})
"""


def mypy(tmp_path: Path, program: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(program)
    package = Path(holdfast.__file__).parent
    environment = {"PATH": ""}
    if package.parent.name != "site-packages":  # mypy looks there by itself
        environment["MYPYPATH"] = str(package.parent)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            str(tmp_path / "cache"),
            "--follow-imports=silent",
            str(tmp_path / "program.py"),
        ],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )


def test_a_typed_program(tmp_path: Path) -> None:
    done = mypy(tmp_path, SAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_types_are_found(tmp_path: Path) -> None:
    done = mypy(tmp_path, WRONG)
    assert "Found 2 errors" in done.stdout or done.returncode == 1
    assert "program.py:4" in done.stdout and "program.py:5" in done.stdout


def test_the_package_itself_is_strict() -> None:
    pytest.importorskip("mypy")
    package = Path(holdfast.__file__).parent
    environment = {"PATH": ""}
    if package.parent.name != "site-packages":  # mypy looks there by itself
        environment["MYPYPATH"] = str(package.parent)
    root = package.parent.parent
    if not (root / "pyproject.toml").exists():
        pytest.skip("installed without its configuration")
    sources = sorted(map(str, package.glob("*.py")))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *sources],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
