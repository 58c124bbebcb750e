"""Runs one program as several processes, for tests.

The program is a file in python/tests/programs. Its arguments are its rank, the
number of ranks, an unused port of this machine, and the test's own arguments.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
# A test takes this long only if something hangs.
HANG_SECONDS = 240


@dataclasses.dataclass
class Ended:
    """How one process ended, and what it printed."""

    returncode: int
    output: str


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port


def run_ranks(
    program: str,
    count: int,
    *arguments: object,
    killed: int | None = None,
) -> list[str]:
    """Runs the program; returns the output of each rank.

    All ranks must succeed, except `killed`, which must have been killed.
    """
    port = free_port()
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    running = [
        subprocess.Popen(
            [
                sys.executable,
                PROGRAMS / program,
                *map(str, (rank, count, port, *arguments)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(count)
    ]
    ended = [_wait(process, running) for process in running]
    said = "\n".join(
        f"--- rank {rank}, {each.returncode}:\n{each.output}"
        for rank, each in enumerate(ended)
    )
    for rank, each in enumerate(ended):
        wanted = -signal.SIGKILL if rank == killed else 0
        assert each.returncode == wanted, said
    return [each.output for each in ended]


def _wait(
    process: subprocess.Popen[str], others: list[subprocess.Popen[str]]
) -> Ended:
    try:
        output, _ = process.communicate(timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        for each in others:
            each.kill()
        output, _ = process.communicate()
        output += f"\nkilled: it hung for {HANG_SECONDS} s"
    return Ended(process.returncode, output)
