"""holdfast top on a bucket: how many requests the view of a tree takes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import servers

LEAF_COUNT = 10_000
LATENCY_MS = 20


@pytest.fixture(scope="module")
def large(cli: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one step of many leaves."""
    folder = tmp_path_factory.mktemp("large")
    np.savez(folder / "arrays.npz", **{
        f"layers.{i // 10}.w{i % 10}": np.full(4, i, np.float32)
        for i in range(LEAF_COUNT)})
    subprocess.run([cli, "convert", "--quiet", "--to", "orbax", "--nest",
                    str(folder / "arrays.npz"), str(folder / "run" / "7")],
                   check=True)
    return folder / "run"


def seconds_to_view(cli: str, url: str, environment: dict[str, str]) -> float:
    """Until `top` shows the tree, which it does without its statistics."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        os.execve(cli, [cli, "top", "--no-statistics", url],
                  {**environment, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
    begun = time.monotonic()
    seen = b""
    while f"{LEAF_COUNT} leaves".encode() not in seen:
        seen += os.read(terminal, 1 << 16)
    seconds = time.monotonic() - begun
    os.write(terminal, b"q")
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:  # the other end is closed
        pass
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)
    return seconds


# Bounds: one that asks more has to say why. A checkpoint is eight files, which
# are asked for in three batches; whether it is a root of steps costs a list, of
# a root what is there costs three more, and what each step lacks its files.
@pytest.mark.parametrize(("below", "requests"), [("/7", 10), ("", 23)])
def test_a_large_tree_is_seen_after_few_requests(
        moto: servers.Server, cli: str, run: Callable[..., Any], large: Path,
        below: str, requests: int) -> None:
    root = f"{moto.root}/{uuid.uuid4().hex}"
    assert run(moto, "cp", str(large), root).returncode == 0
    with servers.chaos(moto, latency_ms=LATENCY_MS) as counting:
        seconds = seconds_to_view(cli, root + below, counting.environment())
        asked = counting.requests()
    print(below, len(asked), f"{seconds:.3f} s", *asked, sep="\n  ")
    assert len(asked) <= requests
