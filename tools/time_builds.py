#!/usr/bin/env python3
"""Times the README's commands on a bare Debian 12 with nothing cached.

usage: time_builds.py [--chroots DIR] [--out FILE] [COMMAND...]

The default COMMANDs are "scripts/demo" and "scripts/test --quick". Each runs in
its own clone of HEAD, in a minimal installation that debootstrap makes (kept
pristine in --chroots, default build/chroots), with an empty compiler cache.
Prints wall seconds, processor seconds of all processes, and how many of the
seconds `scripts/setup` took (mostly for downloads).

Needs root, debootstrap and a network. Compare only runs on quiet machines.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "wheel"))

from run_chroots import (  # noqa: E402
    SYSTEMS, Inside, make_chroot, pip_variables)

COMMANDS = ("scripts/demo", "scripts/test --quick")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(inside: Inside, command: str) -> tuple[float, float]:
    """Returns the wall and processor seconds of the command."""
    wall, cpu = time.monotonic(), cpu_seconds()
    inside.run("sh", "-c", f"cd /clone && {command}")
    return time.monotonic() - wall, cpu_seconds() - cpu


def time_command(command: str, chroots: Path) -> str:
    pristine = make_chroot("debian-12", SYSTEMS["debian-12"], chroots)
    with tempfile.TemporaryDirectory(dir=chroots) as folder:
        root = Path(folder) / "bare"
        subprocess.run(["cp", "-a", "--reflink=auto", pristine, root],
                       check=True)
        shutil.rmtree(root / "venv", ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", ROOT, root / "clone"],
                       check=True)
        inside = Inside(root, {**pip_variables(),
                               "DEBIAN_FRONTEND": "noninteractive"})
        setup = timed(inside, "scripts/setup")
        rest = timed(inside, command)
    return (f"| `{command}` | {setup[0]:.0f} | {rest[0]:.0f} | {rest[1]:.0f} |"
            f" {os.cpu_count()} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", default=COMMANDS)
    parser.add_argument("--chroots", type=Path,
                        default=ROOT / "build" / "chroots")
    parser.add_argument("--out", type=Path, help="a Markdown table")
    args = parser.parse_args()
    rows = ["| command | setup, s | wall, s | processor, s | cores |",
            "|---|--:|--:|--:|--:|"]
    for row in rows:
        print(row)
    for command in args.commands:
        rows.append(time_command(command, args.chroots.resolve()))
        print(rows[-1], flush=True)
    if args.out:
        args.out.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
