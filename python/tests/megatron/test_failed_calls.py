"""A call that fails on some ranks costs no later call."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shards import cut, request, saved, table
from thread_ranks import groups_of, on_all

from holdfast import _process_group, megatron

# Of one meeting; only a test that hangs waits so long.
PATIENCE_SECONDS = 20.0


class World:
    """Ranks that are threads, as the processes of torch.distributed are."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._groups = groups_of(size)
        self._here = threading.local()

    def group(self) -> _process_group.ProcessGroup | None:
        """What this thread's rank has for torch.distributed."""
        return getattr(self._here, "group", None)

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """What `work(rank)` gives or raises, on all ranks at once."""

        def one(rank: int) -> Any:
            self._here.group = self._groups[rank]
            try:
                return work(rank)
            finally:
                self._here.group = None

        return on_all(self.size, one)


@pytest.fixture
def make_world(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[int], World]]:
    worlds: list[World] = []

    def here() -> _process_group.ProcessGroup | None:
        found = [world.group() for world in worlds]
        return next((group for group in found if group is not None), None)

    def make(size: int) -> World:
        worlds.append(World(size))
        return worlds[-1]

    monkeypatch.setattr(_process_group, "torch_world", here)
    yield make


def caught(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return error


def test_a_load_after_one_that_failed_by_design(
    ckpt: Path, make_world: Callable[[int], World]
) -> None:
    size = 8
    whole = saved(ckpt, size)
    world = make_world(size)

    def load(rank: int, shape: tuple[int, ...]) -> Any:
        return megatron.load(
            {"w": request(shape=shape)},
            ckpt,
            validate_access_integrity=True,
            timeout_seconds=PATIENCE_SECONDS,
        )

    def wrongly_then_rightly(rank: int) -> list[Any]:
        # Only rank 0's part is a main replica.
        def one(shape: tuple[int, ...]) -> Any:
            asked = request(shape=shape, replica_id=rank)
            return megatron.load(
                {"w": asked}, ckpt, timeout_seconds=PATIENCE_SECONDS
            )

        return [
            caught(lambda shape=shape: one(shape))
            for shape in [(8, 7), (8, 6)] * 5
        ]

    for outcomes in world.run(wrongly_then_rightly):
        assert isinstance(outcomes, list), outcomes
        for wrong, right in zip(outcomes[::2], outcomes[1::2], strict=True):
            assert isinstance(wrong, megatron.CheckpointingException), wrong
            assert "shape" in str(wrong)
            assert isinstance(right, dict), right
            np.testing.assert_array_equal(right["w"], whole)
