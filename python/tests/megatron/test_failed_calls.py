"""A call that fails on some ranks does not disturb later calls."""

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

import holdfast
from holdfast import _process_group, megatron

# The time limit of a collective call. Only a test that hangs waits so long.
PATIENCE_SECONDS = 20.0


class World:
    """Ranks that are threads, each with a group as in torch.distributed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._groups = groups_of(size)
        self._here = threading.local()

    def group(self) -> _process_group.ProcessGroup | None:
        """Returns the group that takes torch.distributed's place for this
        thread's rank."""
        return getattr(self._here, "group", None)

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """Runs `work(rank)` on all ranks at once; returns the results or
        exceptions."""

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


class Broken(megatron.ZarrLoadShardedStrategy):
    """A strategy that fails as with a broken disk."""

    def load(self, *_: Any) -> Any:
        raise OSError("Input/output error")


class Full(megatron.ZarrSaveShardedStrategy):
    """A strategy that fails as with a full disk, before or after it writes."""

    def __init__(self, has_written: bool) -> None:
        super().__init__()
        self.has_written = has_written

    def save(self, *arguments: Any) -> None:
        if self.has_written:
            super().save(*arguments)
        raise OSError("No space left on device")


# The mistakes of a rank in a load: arguments that differ from the other ranks'.
def _mismatched(path: Path) -> dict[str, Any]:
    return {"sharded_state_dict": {"w": request(shape=(8, 7))}}


def _missing(path: Path) -> dict[str, Any]:
    return {"checkpoint_dir": path / "nowhere"}


def _unreadable(path: Path) -> dict[str, Any]:
    return {"sharded_strategy": Broken("zarr", 1)}


def _unexpected(path: Path) -> dict[str, Any]:
    return {"sharded_state_dict": {"other": request("other")}}


def _invalid(path: Path) -> dict[str, Any]:
    return {"strict": "no such mode"}


LOAD_FAULTS = [_mismatched, _missing, _unreadable, _unexpected, _invalid]


@pytest.mark.parametrize("seed", range(3))
def test_random_failures_cost_no_later_call(
    tmp_path: Path, make_world: Callable[[int], World], seed: int
) -> None:
    plan = random.Random(seed)
    size = plan.choice([2, 3, 5, 8])
    source = tmp_path / "source"
    whole = saved(source, 1)
    rows = table(size * 2, 3)
    world = make_world(size)
    calls = []
    for number in range(16):
        failing = plan.sample(range(size), plan.choice([0, 0, 1, 1, size]))
        calls.append(
            (
                number,
                plan.choice(["save", "load"]),
                set(failing),
                plan.randrange(len(LOAD_FAULTS)),
                plan.random() < 0.5,
            )
        )
        (tmp_path / str(number)).mkdir()

    def one(rank: int, call: Any) -> Any:
        number, kind, failing, fault, flag = call
        bad = rank in failing
        if kind == "save":
            return megatron.save(
                {"w": cut("w", rows, rank, size)},
                tmp_path / str(number),
                Full(flag) if bad else None,
                timeout_seconds=PATIENCE_SECONDS,
            )
        arguments: dict[str, Any] = {
            "sharded_state_dict": {"w": request(replica_id=rank)},
            "checkpoint_dir": source,
            "strict": "raise_all" if flag else "assume_ok_unexpected",
        }
        if bad:
            arguments |= LOAD_FAULTS[fault](source)
        return megatron.load(**arguments, timeout_seconds=PATIENCE_SECONDS)

    outcomes = world.run(
        lambda rank: [caught(lambda c=call: one(rank, c)) for call in calls]
    )

    for rank, mine in enumerate(outcomes):
        assert isinstance(mine, list), mine
        for call, outcome in zip(calls, mine, strict=True):
            number, kind, failing, _, _ = call
            if not failing:
                if kind == "load":
                    assert isinstance(outcome, dict), (call, outcome)
                    np.testing.assert_array_equal(outcome["w"], whole)
                else:
                    assert outcome is None, (call, outcome)
                    got = megatron.load_plain_tensors(tmp_path / str(number))
                    np.testing.assert_array_equal(got["w"], rows)
                continue
            assert isinstance(outcome, Exception), (call, rank, outcome)
            # Rank 0 checks that all shards fit, so its error may be its own.
            if rank not in failing and rank > 0:
                assert outcome.code == "RANK_FAILED", (call, outcome)
            if rank not in failing:
                assert any(f"rank {r}" in str(outcome) for r in failing)


def test_random_failures_of_plain_calls(tmp_path: Path) -> None:
    plan = random.Random(7)
    size = 5
    groups = groups_of(size)
    source = tmp_path / "source"
    holdfast.save(source, {"w": np.arange(6.0), "b": np.ones(2)})
    calls = [
        (
            number,
            plan.choice(["save", "load"]),
            set(plan.sample(range(size), plan.choice([0, 0, 1, 2, size]))),
            plan.randrange(3),
        )
        for number in range(24)
    ]

    def one(rank: int, call: Any) -> Any:
        number, kind, failing, fault = call
        bad = rank in failing
        options: dict[str, Any] = {
            "group": groups[rank],
            "timeout_seconds": PATIENCE_SECONDS,
        }
        if kind == "save":
            leaf: Any = {1, 2} if bad and fault == 0 else 3
            if bad and fault > 0:
                options["compression"] = "none such"
            return holdfast.save(
                tmp_path / str(number), {"w": np.ones(3), "x": leaf}, **options
            )
        target: dict[str, Any] = {"w": np.zeros(6), "b": np.zeros(2)}
        path = source
        if bad and fault == 0:
            target["w"] = np.zeros(7)
        elif bad and fault == 1:
            path = tmp_path / "nowhere"
        elif bad:
            target["b"] = Unfillable()
        return holdfast.load(path, target, **options)

    outcomes = on_all(
        size,
        lambda rank: [caught(lambda c=call: one(rank, c)) for call in calls],
    )

    for rank, mine in enumerate(outcomes):
        assert isinstance(mine, list), mine
        for call, outcome in zip(calls, mine, strict=True):
            number, kind, failing, _ = call
            if failing:
                assert isinstance(outcome, Exception), (call, rank, outcome)
                named = any(f"rank {r}" in str(outcome) for r in failing)
                named = named or f"ranks {min(failing)}" in str(outcome)
                assert named or rank in failing, (call, rank, outcome)
            elif kind == "load":
                assert outcome["w"].tolist() == list(range(6)), (call, outcome)
            else:
                assert isinstance(outcome, holdfast.Stats), (call, outcome)
                assert holdfast.load(tmp_path / str(number))["x"] == 3


class Unfillable:
    """An object that is not a valid leaf of a target."""
