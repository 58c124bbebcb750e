"""The checks of this folder: how they are declared, and what they get.

A check is a function of a `Context`, which passes if it returns. A module's
checks share one process, in which they run one after another; those that may
break CUDA, or need an environment of their own, run by themselves.

Run as a program, it answers the requests of `run_checks.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
MESSAGE_CHARACTERS_MAX = 3000


class Skipped(Exception):
    """The check does not apply to this machine; the message says why."""


class Context:
    """The argument of a check.

    Attributes:
      scratch: a folder of its own, which is removed afterwards.
      pretend: the CPU stands in for the device, to test the check itself.
      device: torch's name of the device.
    """

    def __init__(self, scratch: pathlib.Path, pretend: bool) -> None:
        self.scratch = scratch
        self.pretend = pretend
        self.device = "cpu" if pretend else "cuda:0"

    def needs_gpu(self) -> None:
        if self.pretend:
            raise Skipped("needs a GPU")

    def python(self, code: str, *arguments: str, **env: str) -> str:
        """Runs code in a new process, which finds this folder's modules;
        returns what it prints. Raises AssertionError if it fails."""
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, **env, "PYTHONPATH": _python_path()},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, (
            f"status {done.returncode}: {done.stderr[-MESSAGE_CHARACTERS_MAX:]}"
        )
        return done.stdout


def _python_path() -> str:
    return os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])


@dataclasses.dataclass(frozen=True)
class Check:
    """A declared check.

    Attributes:
      by_itself: it gets a process of its own, with `env`.
      fills_device: no other check runs at the same time.
      seconds: after which it is stopped.
    """

    name: str
    function: Callable[[Context], None]
    by_itself: bool
    fills_device: bool
    env: Mapping[str, str]
    seconds: float

    def summary(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": (self.function.__doc__ or "").strip().split("\n\n")[0],
            "by_itself": self.by_itself,
            "fills_device": self.fills_device,
            "env": dict(self.env),
            "seconds": self.seconds,
        }


_checks: dict[str, dict[str, Check]] = {}


def check(
    *,
    by_itself: bool = False,
    fills_device: bool = False,
    env: Mapping[str, str] | None = None,
    seconds: float = 60,
) -> Callable[[Callable[[Context], None]], Callable[[Context], None]]:
    """Declares a check; its docstring says what it checks."""

    def declare(
        function: Callable[[Context], None],
    ) -> Callable[[Context], None]:
        _checks.setdefault(function.__module__, {})[function.__name__] = Check(
            function.__name__,
            function,
            by_itself or fills_device or bool(env),
            fills_device,
            env or {},
            seconds,
        )
        return function

    return declare


def outcome(function: Callable[[Context], None], pretend: bool) -> Any:
    """Runs a check; returns {ok, skipped, seconds, message}."""
    start = time.perf_counter()
    ok, skipped, message = True, False, ""
    memory = pathlib.Path("/dev/shm")  # the checks sync thousands of files
    scratch = pathlib.Path(
        tempfile.mkdtemp(
            prefix="holdfast-check-",
            dir=memory if os.access(memory, os.W_OK) else None,
        )
    )
    try:
        function(Context(scratch, pretend))
    except Skipped as reason:
        skipped, message = True, str(reason)
    except BaseException:
        ok, message = False, traceback.format_exc()[-MESSAGE_CHARACTERS_MAX:]
    shutil.rmtree(scratch, ignore_errors=True)
    return {
        "ok": ok,
        "skipped": skipped,
        "seconds": round(time.perf_counter() - start, 3),
        "message": message,
    }


def _missing_package(module: str) -> str:
    """Returns which package a module of checks needs and does not find."""
    package = module.split("_")[0]
    if package not in ("torch", "jax", "cupy"):
        return ""
    return "" if importlib.util.find_spec(package) else package


def main() -> None:
    # Imported as a module, so that `check` declares into the same table.
    import checking
    import children

    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--pretend", action="store_true")
    args = parser.parse_args()
    if args.pretend:
        import pretend

        pretend.install()
    missing = _missing_package(args.module)
    if not missing:
        importlib.import_module(args.module)
    checks = checking._checks.get(args.module, {})

    def answer(request: dict[str, Any]) -> Any:
        if request["name"] == "":
            return {
                "missing": missing,
                "checks": [each.summary() for each in checks.values()],
            }
        return checking.outcome(checks[request["name"]].function, args.pretend)

    children.serve(answer)


if __name__ == "__main__":
    main()
