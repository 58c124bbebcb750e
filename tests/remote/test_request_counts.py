"""Tests how many requests each API sends, and how many of them are repeated.

Each API saves, opens, looks for the latest step and restores, in a bucket
behind a counting proxy. The numbers are bounds. A change that sends fewer
requests should lower them, and a change that sends more must explain why.
HOLDFAST_SHOW_REQUESTS=1 (with `-s`) prints the requests. The requests with
which a save checks that it still holds its lease depend on time, and do not
count.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import servers
from python_programs import this_process_at

import holdfast
import holdfast.orbax as ocp
from holdfast.orbax import v1
from holdfast.remote import RemotePath


@pytest.fixture(scope="module")
def proxy() -> Iterator[servers.Chaos]:
    with (
        servers.gcs() as server,
        servers.chaos(server) as counting,
        this_process_at(counting),
    ):
        yield counting


def tree() -> dict[str, Any]:
    return {"w": np.arange(512, dtype=np.float32), "step": 3}


class Counted:
    """Counts the requests of each phase, and how many were repeated."""

    def __init__(self, proxy: servers.Chaos) -> None:
        self._proxy = proxy
        self.counts: dict[str, tuple[int, int]] = {}

    def __call__(self, phase: str, call: Callable[[], Any]) -> Any:
        """Makes a call, counts its requests, and returns its result."""
        self._proxy.reset()
        result = call()
        requests = [
            line
            for line in self._proxy.requests()
            if "_HOLDFAST_SAVE" not in line
        ]
        if os.environ.get("HOLDFAST_SHOW_REQUESTS"):
            print(phase, len(requests), *requests, sep="\n  ")
        questions = [line for line in requests if line.startswith("GET")]
        again = len(questions) - len(set(questions))
        self.counts[phase] = (len(requests), again)
        return result


def plain(counted: Counted, root: RemotePath) -> None:
    counted("save", lambda: holdfast.save(root / "1", tree()))
    assert counted("latest", lambda: holdfast.steps(root)) == [1]
    opened = counted("open", lambda: holdfast.open(root / "1"))
    assert "w" in opened
    counted("restore", lambda: holdfast.load(root / "1"))


def v0(counted: Counted, root: RemotePath) -> None:
    def made() -> ocp.CheckpointManager:
        return ocp.CheckpointManager(
            root,
            options=ocp.CheckpointManagerOptions(
                enable_async_checkpointing=False
            ),
        )

    args = ocp.args.StandardSave(tree())
    with made() as manager:
        counted("save", lambda: manager.save(1, args=args))
    with counted("open", made) as manager:
        assert counted("latest", manager.latest_step) == 1
        restored = counted(
            "restore",
            lambda: manager.restore(1, args=ocp.args.StandardRestore()),
        )
    assert restored["step"] == 3


def v1_training(counted: Counted, root: RemotePath) -> None:
    with v1.training.Checkpointer(root) as run:
        counted("save", lambda: run.save(1, tree()))
    with counted("open", lambda: v1.training.Checkpointer(root)) as run:
        assert counted("latest", lambda: run.latest).step == 1
        restored = counted("restore", lambda: run.load(1))
    assert restored["step"] == 3


# Bounds of a phase: requests, and repeated requests.
#   plain latest: lists the sizes of all files in addition to its reads.
#   save: lists the existing files before and after the item's marker is
#   written; v1 looks for the step before it checks whether it may be replaced.
BOUNDS: list[tuple[Any, dict[str, tuple[int, int]]]] = [
    (
        plain,
        {"save": (22, 0), "latest": (7, 1), "open": (7, 0), "restore": (7, 0)},
    ),
    (
        v0,
        {"save": (36, 1), "open": (1, 0), "latest": (0, 0), "restore": (14, 0)},
    ),
    (
        v1_training,
        {"save": (27, 2), "open": (1, 0), "latest": (3, 0), "restore": (21, 1)},
    ),
]


@pytest.mark.parametrize(("door", "bounds"), BOUNDS)
def test_no_more_is_asked_than_before(
    proxy: servers.Chaos,
    door: Callable[[Counted, RemotePath], None],
    bounds: dict[str, tuple[int, int]],
) -> None:
    counted = Counted(proxy)
    door(counted, RemotePath(proxy.root) / uuid.uuid4().hex[:8])
    for phase, (requests, again) in bounds.items():
        assert counted.counts[phase][0] <= requests, counted.counts
        assert counted.counts[phase][1] <= again, counted.counts
