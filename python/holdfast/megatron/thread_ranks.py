"""Saves or loads for all ranks in one process, with a thread for each rank."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from holdfast.megatron.ranks import run_in_threads
from holdfast.megatron.serialization import load, save

__all__ = ["load_ranks", "save_ranks"]


def save_ranks(
    sharded_state_dicts: Sequence[dict[str, Any]],
    checkpoint_dir: str | os.PathLike[str],
    sharded_strategy: Any = None,
    *,
    return_exceptions: bool = False,
    **kwargs: Any,
) -> list[Any]:
    """Runs `save` on one rank for each state dict, in one call.

    Args:
      sharded_state_dicts: the state dict of each rank.
      sharded_strategy: as for `save`, or a function of the rank.
      return_exceptions: return a rank's error as its result. If False, raise
        the first failed rank's own error.
      **kwargs: more arguments of `save`.

    Each rank is a thread; the elements are written without the GIL.
    """

    def one(rank: int) -> Any:
        return save(
            sharded_state_dicts[rank],
            os.fspath(checkpoint_dir),
            _of_rank(sharded_strategy, rank),
            **kwargs,
        )

    return run_in_threads(len(sharded_state_dicts), one, return_exceptions)


def load_ranks(
    sharded_state_dicts: Sequence[dict[str, Any]],
    checkpoint_dir: str | os.PathLike[str],
    sharded_strategy: Any = None,
    *,
    return_exceptions: bool = False,
    **kwargs: Any,
) -> list[Any]:
    """Runs `load` on one rank for each state dict, in one call.

    Returns the result of each rank's `load`. Arguments as for `save_ranks`.
    """

    def one(rank: int) -> Any:
        return load(
            sharded_state_dicts[rank],
            os.fspath(checkpoint_dir),
            _of_rank(sharded_strategy, rank),
            **kwargs,
        )

    return run_in_threads(len(sharded_state_dicts), one, return_exceptions)


def _of_rank(strategy: Any, rank: int) -> Any:
    is_maker = callable(strategy) and not hasattr(
        strategy, "check_version_compatibility"
    )
    return strategy(rank) if is_maker else strategy
