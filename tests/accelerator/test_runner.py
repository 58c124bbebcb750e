"""The programs of scripts/accelerator themselves: what they do with checks that
fail, crash or hang, and with the end of the time. Needs no GPU."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import run_accelerator
import run_checks

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHECKS = '''
import os
import signal
import threading
from checking import Skipped, check

@check()
def passes(ctx):
    """It passes."""
    print("not JSON")
    (ctx.scratch / "file").write_text("x")

@check()
def fails(ctx):
    """It fails."""
    assert 1 == 2, "one is not two"

@check()
def crashes(ctx):
    """It crashes."""
    os.kill(os.getpid(), signal.SIGSEGV)

@check(seconds=1)
def hangs(ctx):
    """It hangs."""
    threading.Event().wait()

@check()
def skips(ctx):
    """It does not apply."""
    raise Skipped("not here")

@check(env={"FAKE_VALUE": "7"})
def has_its_environment(ctx):
    """It has a process of its own."""
    assert os.environ["FAKE_VALUE"] == "7"

@check()
def passes_after_the_others(ctx):
    """It passes, in a new process."""
'''


def _run(
    folder: pathlib.Path, *names: str, seconds: float = 60
) -> tuple[bool, dict[str, Any]]:
    (folder / "fake.py").write_text(CHECKS)
    checks = run_checks.Checks(folder / "out.json", seconds, False, {"a": 1})
    passed = checks.run(names, folder)
    data = json.loads((folder / "out.json").read_text())
    assert data["ended"] and data["facts"] == {"a": 1}
    return passed, {each["name"]: each for each in data["checks"]}


def test_a_failure_does_not_end_the_others(tmp_path: pathlib.Path) -> None:
    passed, results = _run(tmp_path, "fake")
    assert not passed
    ok = {name for name, each in results.items() if each["ok"]}
    assert ok == {
        "passes",
        "skips",
        "has_its_environment",
        "passes_after_the_others",
    }
    assert results["skips"]["skipped"] and not results["passes"]["skipped"]
    assert "one is not two" in results["fails"]["message"]
    assert "status -11" in results["crashes"]["message"]
    assert "longer than 1 s" in results["hangs"]["message"]
    words = run_checks.summary(list(results.values()))
    assert words.startswith("3 checks passed, 1 do not apply here, 3 failed")


def test_single_checks(tmp_path: pathlib.Path) -> None:
    passed, results = _run(tmp_path, "fake.passes", "fake.skips")
    assert passed and results.keys() == {"passes", "skips"}
    passed, results = _run(tmp_path, "fake.unknown")
    assert not passed and not results


def test_a_module_that_cannot_be_imported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_package")
    passed, results = _run(tmp_path, "broken", "fake.passes")
    assert not passed and results["passes"]["ok"]
    assert "no_such_package" in results["import"]["message"]


def test_no_time(tmp_path: pathlib.Path) -> None:
    passed, results = _run(tmp_path, "fake", seconds=0)
    assert not passed
    assert results["import"]["message"].startswith("not run: the 0 s")


def test_the_time_ends_between_checks(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        run_checks.Checks, "_left", lambda self: 0 if self.results else 60
    )
    passed, results = _run(tmp_path, "fake")
    assert not passed and results["passes"]["ok"]
    late = [each for name, each in results.items() if name != "passes"]
    assert len(late) == 6
    for each in late:
        assert each["message"].startswith("not run: "), each


def _script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts/accelerator", *arguments],
        env={**os.environ, "HOLDFAST_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.skipif(not run_accelerator.no_device(), reason="there is a device")
def test_without_a_device(tmp_path: pathlib.Path) -> None:
    done = _script("--out", str(tmp_path), "--wheels", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no device: " in done.stdout
    assert not list(tmp_path.glob("*.json"))


def test_pretended_results_are_not_rendered(tmp_path: pathlib.Path) -> None:
    done = _script(
        "--pretend", "--only", "bench", "--minutes", "0.5",
        "--out", str(tmp_path), "--wheels", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads((tmp_path / "bench.json").read_text())
    assert data["pretend"] and data["ended"] and data["results"]
    assert any(each["skipped"] == "no time" for each in data["results"])
    done = subprocess.run(
        [sys.executable, ROOT / "bench/accelerator.py", "--render",
         tmp_path / "bench.json"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "no result" in done.stderr


def test_wheels_for_other_pythons_are_refused(tmp_path: pathlib.Path) -> None:
    for name in (
        "x-1-cp399-cp399-manylinux_2_28_x86_64.whl",
        "x-1-cp37-cp37m-manylinux_2_28_x86_64.whl",
        "x-1-cp310-abi3-manylinux_2_28_other.whl",
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(b"")
        with pytest.raises(ValueError, match="is not for"):
            run_accelerator.install(folder, tmp_path / "site")
