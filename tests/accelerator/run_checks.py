#!/usr/bin/env python3
"""Runs the checks of this folder, each module's in a process of its own.

usage: run_checks.py --out FILE [--seconds N] [--pretend]
                     [MODULE | MODULE.CHECK]...

A check that kills its process, or takes too long, is the only one to fail: the
others go on in a new process. FILE is rewritten after every check: {facts,
pretend, checks, ended}, where each of `checks` is {module, name, what, ok,
skipped, seconds, message}. Exit status 1 when a check failed or there was no
time for it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from children import Child, ChildFailed, write_json

HERE = pathlib.Path(__file__).resolve().parent
MODULES = (
    "torch_saves",
    "torch_loads",
    "torch_streams",
    "torch_processes",
    "jax_arrays",
    "cupy_arrays",
)
# How many processes use the device at a time. A check uses several processors.
LANES = 4
START_SECONDS_MAX = 120.0
NOT_RUN = "not run"
# For every process: jax does not take the whole device for itself.
ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
PRETEND_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
}


class Checks:
    """One run of checks. `results` grows while `run` runs."""

    def __init__(
        self, out: pathlib.Path, seconds: float, pretend: bool, facts: Any
    ) -> None:
        self.results: list[dict[str, Any]] = []
        self._out = out
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._pretend = pretend
        self._facts = facts
        self._lock = threading.Lock()

    def run(self, names: Sequence[str], folder: pathlib.Path = HERE) -> bool:
        """Runs modules of a folder, or single checks; returns whether every
        check passed."""
        self._folder = folder
        self._names = set(names)
        modules = list(dict.fromkeys(name.split(".")[0] for name in names))
        with concurrent.futures.ThreadPoolExecutor(
            min(LANES, max(1, (os.cpu_count() or 1) // 2))
        ) as pool:
            by_itself = [
                each
                for lane in pool.map(self._shared, modules)
                for each in lane
            ]
            list(
                pool.map(
                    self._by_itself,
                    [each for each in by_itself if not each["fills_device"]],
                )
            )
        for each in by_itself:
            if each["fills_device"]:
                self._by_itself(each)
        self._write(ended=True)
        return bool(self.results) and all(
            result["ok"] for result in self.results
        )

    def _start(self, module: str, env: Mapping[str, str]) -> Child:
        command = [sys.executable, str(HERE / "checking.py"), module]
        if self._pretend:
            command.append("--pretend")
            env = {**PRETEND_ENVIRONMENT, **env}
        paths = [str(self._folder), os.environ.get("PYTHONPATH", "")]
        child = Child(
            command,
            {**ENVIRONMENT, **env, "PYTHONPATH": os.pathsep.join(paths)},
        )
        child.answer(min(START_SECONDS_MAX, max(1, self._left())))
        return child

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _shared(self, module: str) -> list[dict[str, Any]]:
        """Runs the checks of a module that share a process; returns the
        others."""
        if self._left() <= 0:
            self._add(module, {"name": "import"}, self._not_run())
            return []
        try:
            child = self._start(module, {})
            table = child.ask({"name": ""}, START_SECONDS_MAX)
        except ChildFailed as error:
            self._add(module, {"name": "import"}, _failure(str(error)))
            return []
        if table["missing"]:
            reason = f"{table['missing']} is not installed"
            skipped = {**_failure(reason), "ok": True, "skipped": True}
            self._add(module, {"name": "import"}, skipped)
        checks = [
            {**each, "module": module}
            for each in table["checks"]
            if self._names & {module, f"{module}.{each['name']}"}
        ]
        running: Child | None = child
        for each in checks:
            if not each["by_itself"]:
                running = self._one(running, each)
        if running is not None:
            running.close()
        return [each for each in checks if each["by_itself"]]

    def _by_itself(self, each: Mapping[str, Any]) -> None:
        child = self._one(None, each)
        if child is not None:
            child.close()

    def _one(
        self, child: Child | None, each: Mapping[str, Any]
    ) -> Child | None:
        """Runs a check in `child`, or in a new one; returns the child, or None
        if it has ended."""
        module, start = each["module"], time.monotonic()
        if self._left() <= 0:
            self._add(module, each, self._not_run())
            return child
        try:
            child = child or self._start(module, each["env"])
            seconds = min(each["seconds"], max(1, self._left()))
            result = child.ask({"name": each["name"]}, seconds)
        except ChildFailed as error:
            child = None
            result = _failure(str(error), time.monotonic() - start)
        self._add(module, each, result)
        return child

    def _not_run(self) -> dict[str, Any]:
        return _failure(
            f"{NOT_RUN}: the {self._seconds:.0f} s of the checks are over"
        )

    def _add(
        self, module: str, each: Mapping[str, Any], result: Mapping[str, Any]
    ) -> None:
        what = " ".join(each.get("what", "").split())
        with self._lock:
            self.results.append(
                {"module": module, "name": each["name"], "what": what, **result}
            )
            self._write(ended=False)
            print(_line(self.results[-1]), flush=True)

    def _write(self, *, ended: bool) -> None:
        write_json(
            self._out,
            {
                "facts": self._facts,
                "pretend": self._pretend,
                "checks": self.results,
                "ended": ended,
            },
        )


def _failure(message: str, seconds: float = 0.0) -> dict[str, Any]:
    return {
        "ok": False,
        "skipped": False,
        "seconds": round(seconds, 3),
        "message": message,
    }


def _line(result: Mapping[str, Any]) -> str:
    word = "skip" if result["skipped"] else "ok" if result["ok"] else "FAIL"
    name = f"{result['module']}.{result['name']}"
    line = f"{word:4} {name} {result['seconds']:.1f} s"
    message = result["message"].strip().splitlines()
    return f"{line}: {message[-1]}" if message else line


def summary(results: Sequence[Mapping[str, Any]]) -> str:
    """Returns the counts, and the complete messages of what failed."""
    failed = [result for result in results if not result["ok"]]
    skipped = sum(result["skipped"] for result in results)
    lines = [
        f"{len(results) - len(failed) - skipped} checks passed, {skipped} do"
        f" not apply here, {len(failed)} failed"
    ]
    for result in failed:
        name = f"{result['module']}.{result['name']}"
        if result["message"].startswith(NOT_RUN):
            lines.append(f"--- {name}: {NOT_RUN}")
        else:
            lines += [f"--- {name}: {result['what']}", result["message"]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=MODULES)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--pretend", action="store_true")
    args = parser.parse_args()
    checks = Checks(args.out, args.seconds, args.pretend, {})
    passed = checks.run(args.names)
    print(summary(checks.results))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
