#!/usr/bin/env python3
"""Checks and measures holdfast on a machine with a GPU, in a few minutes.

usage: scripts/accelerator --prepare [--wheels DIR]
       scripts/accelerator [--wheels DIR] [--out DIR] [--disk DIR]
                           [--minutes N] [--only correctness|bench] [--pretend]

  --prepare       where there is a network and a compiler: builds the wheel for
                  the Python that runs this, and fetches the peers' wheels; then
                  take this tree and the wheels to the machine with the GPU
  --wheels DIR    default: build/accelerator/wheels; if it holds no wheels, the
                  packages that Python finds are used
  --out DIR       results; default: build/accelerator/out. checks.json and
                  bench.json are rewritten after every check and measurement
  --disk DIR      a folder on the disk to measure; default: DIR of --out
  --minutes N     everything ends in this time; default: 8
  --only PART     one part; it gets all the time
  --pretend       tiny, on the CPU, to test these programs; never a result

The machine with the GPU needs no network: only Python, of the version that
prepared, with torch built for CUDA. jax, cupy and Orbax are used if they are
there. HOLDFAST_PYTHON is the Python to use; default: python3. Exit status 1
when a check or a measurement failed; without a GPU, 0 and a line that says so.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from typing import Any

import run_checks
from children import write_json

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL_BYTES_MAX = 64 << 20
PEERS = ("safetensors", "fastsafetensors", "instanttensor")
# glibc's versions whose tags the peers' wheels may have; pip matches exactly.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (17, 27, 28, 34)]
ABOUT = "about.json"
# The checks' share of the time if both parts run, and what the end may need.
CHECKS_SHARE = 0.4
END_SECONDS = 15.0
PACKAGES = ("torch", "jax", "numpy", "cupy-cuda13x", "cupy-cuda12x",
            "orbax-checkpoint", "holdfast", *PEERS)  # fmt: skip

_DEVICE = """
import torch
if not torch.cuda.is_available():
    raise SystemExit("torch " + torch.__version__ + " sees none")
torch.ones(1, device="cuda").sum().item()
"""


def prepare(wheels: pathlib.Path) -> int:
    """Fills the folder of wheels. Returns the exit status."""
    wheels.mkdir(parents=True, exist_ok=True)
    for old in wheels.glob("*.whl"):
        old.unlink()
    subprocess.run(
        [ROOT / "scripts/wheel", "--out", wheels],
        env={**os.environ, "HOLDFAST_PYTHON": sys.executable},
        check=True,
    )
    platforms = [f"--platform={each}" for each in PLATFORMS]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet",
         "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
         *platforms, f"--dest={wheels}", *PEERS],
        check=True,
    )  # fmt: skip
    sizes = {each.name: each.stat().st_size for each in wheels.glob("*.whl")}
    for name, size in sorted(sizes.items()):
        print(f"{size:12,} bytes  {name}")
    total = sum(sizes.values())
    print(f"{total:12,} bytes in {wheels}")
    if total > WHEEL_BYTES_MAX:
        print(f"more than {WHEEL_BYTES_MAX:,} bytes", file=sys.stderr)
        return 1
    about = {"commit": _commit(), "wheels": sizes}
    write_json(wheels / ABOUT, about)
    return 0


def _commit() -> str:
    """Returns the commit of this tree, marked if files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "HEAD") + (" with changes" if changed else "")


def install(wheels: pathlib.Path, site: pathlib.Path) -> None:
    """Unpacks the wheels into a folder for PYTHONPATH. An environment made from
    another environment would not see that one's torch, and pip may be absent.

    Raises ValueError for a wheel for another machine.
    """
    for wheel in sorted(wheels.glob("*.whl")):
        *_, python, abi, system = wheel.stem.split("-")
        if system != "any" and platform.machine() not in system:
            raise ValueError(f"{wheel.name} is not for {platform.machine()}")
        minor = sys.version_info.minor
        least = int(python[3:]) if python.startswith("cp") else 0
        if least > minor or (least < minor and abi.startswith("cp")):
            raise ValueError(f"{wheel.name} is not for Python 3.{minor}")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)


def site_of(wheels: pathlib.Path, out: pathlib.Path) -> str:
    """Returns PYTHONPATH with the wheels' packages first."""
    names = sorted(each.name for each in wheels.glob("*.whl"))
    given = os.environ.get("PYTHONPATH", "")
    if not names:
        return given
    stamp = "".join(
        f"{name} {(wheels / name).stat().st_mtime_ns}" for name in names
    )
    key = hashlib.sha256(stamp.encode()).hexdigest()[:12]
    site = out / f"site-{key}"
    if not site.exists():
        install(wheels, site)
    return os.pathsep.join([str(site), given])


def no_device() -> str:
    """Returns why this machine's GPU cannot be used, or ""."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _DEVICE],
            capture_output=True,
            text=True,
            timeout=120,
        )
    except subprocess.TimeoutExpired:
        return "torch does not answer in 120 s"
    if done.returncode == 0:
        return ""
    words = done.stderr.strip().splitlines()
    return words[-1] if words else f"status {done.returncode}"


def facts(wheels: pathlib.Path, pretend: bool) -> dict[str, Any]:
    """Returns what identifies the machine and the packages."""
    about: dict[str, Any] = {"commit": _commit()}
    if (wheels / ABOUT).exists():
        about = json.loads((wheels / ABOUT).read_text())
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "pretend": pretend,
        "gpu": {} if pretend else _gpu(),
        "processors": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "host_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": versions,
        **about,
    }


def _processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def _gpu() -> dict[str, str]:
    """Returns what nvidia-smi says about the first GPU."""
    fields = (
        "name driver_version memory.total pcie.link.gen.current"
        " pcie.link.gen.max pcie.link.width.current"
    ).split()
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(fields)}",
             "--format=csv,noheader"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        return {"error": (done.stdout + done.stderr).strip()}
    return dict(zip(fields, map(str.strip, lines[0].split(",")), strict=False))


class Accelerator:
    """One run of both parts, or of one."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._end: float = time.monotonic() + args.minutes * 60 - END_SECONDS

    def run(self) -> int:
        args = self._args
        args.out.mkdir(parents=True, exist_ok=True)
        _say(f"at most {args.minutes:g} minutes; results go to {args.out}")
        os.environ["PYTHONPATH"] = site_of(args.wheels, args.out.parent)
        sys.path[1:1] = os.environ["PYTHONPATH"].split(os.pathsep)
        reason = "" if args.pretend else no_device()
        if reason:
            print(f"no device: {reason}")
            return 0
        about = facts(args.wheels, args.pretend)
        _say(f"{about['gpu'].get('name', 'no GPU')}, holdfast"
             f" {about['versions'].get('holdfast', 'from PYTHONPATH')},"
             f" {about['commit']}")  # fmt: skip
        passed = True
        if args.only != "bench":
            passed = self._check(about) and passed
        if args.only != "correctness":
            passed = self._measure(about) and passed
        _say("everything passed" if passed else "FAILED: see above")
        return 0 if passed else 1

    def _left(self) -> float:
        return self._end - time.monotonic()

    def _check(self, about: dict[str, Any]) -> bool:
        seconds = self._left()
        if self._args.only is None:
            seconds *= CHECKS_SHARE
        _say(f"checks, in at most {seconds:.0f} s")
        checks = run_checks.Checks(
            self._args.out / "checks.json", seconds, self._args.pretend, about
        )
        passed = checks.run(run_checks.MODULES)
        print(run_checks.summary(checks.results), flush=True)
        return passed

    def _measure(self, about: dict[str, Any]) -> bool:
        """Runs the bench; what it prints is passed on."""
        args = self._args
        write_json(args.out / "facts.json", about)
        _say(f"bench, in at most {self._left():.0f} s")
        command = [
            sys.executable, str(ROOT / "bench/accelerator.py"),
            "--out", str(args.out / "bench.json"),
            "--facts", str(args.out / "facts.json"),
            "--disk", str(args.disk or args.out),
            "--seconds", f"{self._left():.0f}",
            *(["--pretend"] if args.pretend else []),
        ]  # fmt: skip
        try:
            done = subprocess.run(command, timeout=self._left() + 5)
        except subprocess.TimeoutExpired:
            print("the bench took too long and was stopped")
            return False
        return done.returncode == 0


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main(argv: Sequence[str]) -> int:
    folder = ROOT / "build/accelerator"
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument(
        "--wheels", type=pathlib.Path, default=folder / "wheels"
    )
    parser.add_argument("--out", type=pathlib.Path, default=folder / "out")
    parser.add_argument("--disk", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--only", choices=("correctness", "bench"))
    parser.add_argument("--pretend", action="store_true")
    args = parser.parse_args(argv)
    args.out = args.out.resolve()
    args.wheels = args.wheels.resolve()
    return prepare(args.wheels) if args.prepare else Accelerator(args).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
