"""An operation that fails on some processes does not disturb later operations.

Here, the processes are threads, and a dict replaces jax.distributed's store.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from thread_ranks import on_all

import holdfast.orbax as ocp
from holdfast import errors
from holdfast.orbax import multihost
from holdfast.orbax._processes import operations as _processes
from holdfast.orbax._processes.operations import Operation, Processes

# Only a test that hangs waits so long.
PATIENCE_SECONDS = 20


class Store:
    """Replaces the client of jax.distributed."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def key_value_set_bytes(
        self, key: str, value: bytes, allow_overwrite: bool = False
    ) -> None:
        with self._changed:
            if key in self._values and not allow_overwrite:
                raise RuntimeError(f"ALREADY_EXISTS: {key}")
            self._values[key] = value
            self._changed.notify_all()

    def blocking_key_value_get_bytes(self, key: str, timeout_ms: int) -> bytes:
        with self._changed:
            if not self._changed.wait_for(
                lambda: key in self._values, timeout_ms / 1e3
            ):
                raise RuntimeError(f"DEADLINE_EXCEEDED: {key}")
            return self._values[key]

    def key_value_delete(self, key: str) -> None:
        with self._changed:
            self._values.pop(key, None)


class Fleet:
    """Runs a function as several processes."""

    def __init__(self) -> None:
        self.size = 1
        self.store = Store()
        self._here = threading.local()

    def index(self) -> int:
        return getattr(self._here, "index", 0)

    def run(self, size: int, work: Callable[[int], Any]) -> list[Any]:
        """Runs `work(index)` in all processes at once; returns the results or
        exceptions."""

        def one(index: int) -> Any:
            self._here.index = index
            return work(index)

        self.size = size
        try:
            return on_all(size, one)
        finally:
            self.size = 1


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    made = Fleet()
    monkeypatch.setattr(multihost, "process_count", lambda: made.size)
    monkeypatch.setattr(multihost, "process_index", made.index)
    monkeypatch.setattr(
        multihost, "get_jax_distributed_client", lambda: made.store
    )
    monkeypatch.setattr(
        multihost._State, "coordination_timeout_secs", PATIENCE_SECONDS
    )
    monkeypatch.setattr(_processes, "_NEXT_CALLS", {})
    yield made


def caught(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return error


@pytest.mark.parametrize("seed", range(3))
def test_random_failures_cost_no_later_operation(
    fleet: Fleet, seed: int
) -> None:
    plan = random.Random(seed)
    size = plan.choice([2, 3, 5, 8])
    places = ["start", "write", "commit"]
    operations = [
        (
            number,
            set(plan.sample(range(size), plan.choice([0, 0, 1, 1, size]))),
            plan.randrange(1, len(places)),
        )
        for number in range(8)
    ]

    def one(index: int, number: int, failing: set[int], fault: int) -> Any:
        operation = Processes().start(places[0], f"/{number}", value=number)
        for i, place in enumerate(places[1:], 1):
            with operation.phase(place):
                if i == fault and index in failing:
                    raise OSError(f"disk {index} of {number}")
        return operation.values

    outcomes = fleet.run(
        size,
        lambda index: [caught(lambda o=o: one(index, *o)) for o in operations],
    )

    for index, mine in enumerate(outcomes):
        assert isinstance(mine, list), mine
        for (number, failing, _), outcome in zip(operations, mine, strict=True):
            if not failing:
                assert outcome == dict.fromkeys(range(size), number), outcome
                continue
            assert isinstance(outcome, OSError | errors.HoldfastError), outcome
            told = [f"disk {each} of {number}" for each in failing]
            assert any(text in str(outcome) for text in told), outcome
            if index not in failing:
                assert any(
                    re.search(rf"ranks? [\d, -]*{each}", str(outcome))
                    for each in failing
                )


def begin(place: str, directory: str, timeout_secs: float) -> Operation:
    return Processes().start(
        place, directory, value=directory, timeout_secs=timeout_secs
    )


@pytest.mark.parametrize("late", [0, 1])
def test_who_comes_late_fails_with_the_others(fleet: Fleet, late: int) -> None:
    others_have_failed = threading.Event()

    def work(index: int) -> list[Any]:
        if index == late:
            assert others_have_failed.wait(60)
        # At the next place, process 0 learns that another process gave up.
        first = caught(lambda: begin("a", "/1", 0.2).meet("b"))
        others_have_failed.set()
        # The other processes may be in the next operation already.
        return [first, begin("a", "/2", PATIENCE_SECONDS).values]

    for outcome in fleet.run(2, work):
        assert isinstance(outcome, list), outcome
        failure, values = outcome
        assert isinstance(failure, errors.DeadlineExceededError), failure
        assert values == {0: "/2", 1: "/2"}


@pytest.mark.parametrize("idle", [0, 1])
def test_who_left_one_out_follows(fleet: Fleet, idle: int) -> None:
    def alone(index: int) -> Any:
        if index != idle:
            return caught(lambda: begin("a", "/1", 0.2))
        return None

    failed = fleet.run(2, alone)
    assert isinstance(failed[1 - idle], errors.DeadlineExceededError)

    for values in fleet.run(
        2, lambda index: begin("a", "/2", PATIENCE_SECONDS).values
    ):
        assert values == {0: "/2", 1: "/2"}


@pytest.mark.parametrize("size", [2, 4])
def test_saves_and_restores(fleet: Fleet, tmp_path: Path, size: int) -> None:
    plan = random.Random(size)
    calls = [
        (number, plan.choice(["save", "restore"]), plan.choice([None, None, 1]))
        for number in range(8)
    ]
    tree = {"w": np.arange(6.0), "step": 3}
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "source", tree)

    def one(index: int, call: Any) -> Any:
        number, kind, bad = call
        with ocp.PyTreeCheckpointer() as checkpointer:
            if kind == "restore":
                name = "nowhere" if index == bad else "source"
                return checkpointer.restore(tmp_path / name)
            saved: Any = {"w": object()} if index == bad else tree
            return checkpointer.save(tmp_path / str(number), saved)

    outcomes = fleet.run(
        size,
        lambda index: [caught(lambda c=call: one(index, c)) for call in calls],
    )

    for index, mine in enumerate(outcomes):
        assert isinstance(mine, list), mine
        for call, outcome in zip(calls, mine, strict=True):
            number, kind, bad = call
            if bad is not None:
                assert isinstance(outcome, Exception), (call, outcome)
                assert index == bad or f"rank {bad}" in str(outcome)
            elif kind == "restore":
                np.testing.assert_array_equal(outcome["w"], tree["w"])
            else:
                assert outcome is None, (call, outcome)
                got = ocp.PyTreeCheckpointer().restore(tmp_path / str(number))
                np.testing.assert_array_equal(got["w"], tree["w"])
