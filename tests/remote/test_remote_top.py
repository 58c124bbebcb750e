"""Tests how many requests holdfast top sends to show a tree in a bucket."""

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
    """Returns a root with one step, which has many leaves."""
    folder = tmp_path_factory.mktemp("large")
    np.savez(folder / "arrays.npz", **{
        f"layers.{i // 10}.w{i % 10}": np.full(4, i, np.float32)
        for i in range(LEAF_COUNT)})
    subprocess.run([cli, "convert", "--quiet", "--to", "orbax", "--nest",
                    str(folder / "arrays.npz"), str(folder / "run" / "7")],
                   check=True)
    return folder / "run"


def seconds_to_view(cli: str, url: str, environment: dict[str, str]) -> float:
    """Returns the seconds until `top` shows the tree, without statistics."""
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


# The numbers are bounds. A change that sends more requests must explain why.
# The view needs one list and four of a checkpoint's eight files: the checksums,
# the tree, the manifest and its root node. A root costs four lists, and two
# requests for each step, for its checksums and its times.
@pytest.mark.parametrize(("below", "requests"), [("/7", 5), ("", 13)])
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


@pytest.mark.parametrize("verb", ["ls", "tree"])
def test_a_listing_asks_as_little(
        moto: servers.Server, cli: str, run: Callable[..., Any], large: Path,
        verb: str) -> None:
    root = f"{moto.root}/{uuid.uuid4().hex}"
    assert run(moto, "cp", str(large), root).returncode == 0
    with servers.chaos(moto) as counting:
        listed = subprocess.run([cli, verb, "--json", root + "/7"], check=True,
                                env=counting.environment(), capture_output=True)
        asked = counting.requests()
    here = subprocess.run([cli, verb, "--json", str(large / "7")], check=True,
                          capture_output=True)
    assert listed.stdout.replace(root.encode(), str(large).encode()) \
        == here.stdout
    assert len(asked) <= 5, asked
