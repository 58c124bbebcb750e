"""Ranks that fail or are missing, and ranks that share the work."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shards import cut, request, table

from holdfast import errors, megatron
from holdfast.megatron import ranks
from holdfast.megatron.strategies.fully_parallel import (
    FullyParallelLoadStrategyWrapper,
    FullyParallelSaveStrategyWrapper,
)
from holdfast.megatron.strategies.two_stage import (
    TwoStageDataParallelLoadShardedStrategy,
)
from holdfast.megatron.strategies.zarr import ZarrSaveShardedStrategy


class Fails(ZarrSaveShardedStrategy):
    """A strategy that fails, as with a full disk, before it writes."""

    def save(self, *_: Any) -> None:
        raise OSError("No space left on device")


def test_a_rank_that_fails_is_named_to_the_others(ckpt: Path) -> None:
    ckpt.mkdir()
    whole = table()

    results = megatron.save_ranks(
        [{"w": cut("w", whole, rank, 4)} for rank in range(4)],
        ckpt,
        lambda rank: Fails() if rank == 2 else ZarrSaveShardedStrategy(),
        return_exceptions=True,
    )

    assert isinstance(results[2], OSError)
    for rank in (0, 1, 3):
        assert "rank 2: OSError: No space left" in str(results[rank])
        assert results[rank].code == "RANK_FAILED"
    # The failed save has left no checkpoint, which could read as zeros.
    assert not megatron.check_is_distributed_checkpoint(ckpt)


def test_the_failure_itself_is_raised(ckpt: Path) -> None:
    ckpt.mkdir()

    with pytest.raises(OSError, match="No space left"):
        megatron.save_ranks(
            [{"w": cut("w", table(), rank, 2)} for rank in range(2)],
            ckpt,
            lambda rank: Fails() if rank == 1 else ZarrSaveShardedStrategy(),
        )


def test_a_rank_that_does_not_come_is_named(
    ckpt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "TIMEOUT_SECONDS", 0.2)
    ckpt.mkdir()
    others_have_ended = threading.Event()

    class Stays(ZarrSaveShardedStrategy):
        def save(self, *_: Any) -> None:
            others_have_ended.wait(60)

    class Goes(ZarrSaveShardedStrategy):
        def save(self, *arguments: Any) -> None:
            try:
                super().save(*arguments)
            finally:
                others_have_ended.set()

    results = megatron.save_ranks(
        [{"w": cut("w", table(), rank, 2)} for rank in range(2)],
        ckpt,
        lambda rank: Stays() if rank == 1 else Goes(),
        return_exceptions=True,
    )

    with pytest.raises(errors.DeadlineExceededError, match="rank 1"):
        raise results[0]
    assert not megatron.check_is_distributed_checkpoint(ckpt)


def replicated(whole: Any, rank: int) -> dict[str, Any]:
    """Returns the same two tensors on each rank; rank 0's are the main
    replicas."""
    return {key: cut(key, whole, 0, 1, replica_id=(0, 0, rank)) for key in "ab"}


def test_replicas_share_a_save_and_a_load(ckpt: Path) -> None:
    ckpt.mkdir()
    whole = table()
    wrappers = [
        FullyParallelSaveStrategyWrapper(ZarrSaveShardedStrategy())
        for _ in range(2)
    ]
    states = [replicated(whole, rank) for rank in range(2)]

    megatron.save_ranks(states, ckpt, lambda rank: wrappers[rank])

    saved_by = [
        [key for key in "ab" if states[rank][key].replica_id == 0]
        for rank in range(2)
    ]
    assert sorted(map(len, saved_by)) == [1, 1]
    results = megatron.load_ranks(
        [{key: request(key) for key in "ab"} for _ in range(2)],
        ckpt,
        lambda _: FullyParallelLoadStrategyWrapper(
            megatron.ZarrLoadShardedStrategy()
        ),
        validate_access_integrity=False,
    )
    for result in results:
        for key in "ab":
            np.testing.assert_array_equal(result[key], whole)
    assert not np.shares_memory(results[0]["a"], results[1]["a"])


def test_two_stages_fill_the_buffers(ckpt: Path) -> None:
    ckpt.mkdir()
    whole = table()
    megatron.save({"a": cut("a", whole, 0, 1)}, ckpt)
    buffers = [np.zeros((8, 6), np.float64) for _ in range(2)]

    results = megatron.load_ranks(
        [{"a": cut("a", buffer, 0, 1)} for buffer in buffers],
        ckpt,
        lambda _: TwoStageDataParallelLoadShardedStrategy(),
        validate_access_integrity=False,
    )

    for buffer, result in zip(buffers, results, strict=True):
        np.testing.assert_array_equal(buffer, whole)
        assert np.shares_memory(buffer, result["a"])


def test_common_state_that_differs_is_a_warning(
    ckpt: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ckpt.mkdir()

    megatron.save_ranks(
        [{"w": cut("w", table(), r, 2), "step": 7 + r} for r in range(2)], ckpt
    )

    assert "Rank 1 common state dict differs" in caplog.text
    assert megatron.load_common_state_dict(ckpt)["step"] == 7
