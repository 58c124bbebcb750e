"""Chooses the rank that saves or loads a shard that several ranks have."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeVar

from holdfast.megatron import _tensors, ranks
from holdfast.megatron.dict_utils import nested_values
from holdfast.megatron.mapping import (
    ShardedStateDict,
    ShardedTensor,
    is_main_replica,
)
from holdfast.megatron.utils import ShardId, _sharded_tensor_shard_id

__all__ = [
    "ShardDistribution",
    "determine_main_replica_uniform_distribution",
    "distribute_shards_to_ranks",
]

T = TypeVar("T")


class ShardDistribution(NamedTuple):
    """The assignment of shards to ranks in one group."""

    main_rank_for_shard: dict[ShardId, int]
    shards_in_this_group: set[ShardId]
    shard_to_metadata: dict[ShardId, ShardedTensor]
    all_ranks_for_shard: dict[ShardId, list[int]]


def _shard_size(sh_ten: ShardedTensor) -> int:
    """Returns the size of the shard's data in bytes."""
    flat = sh_ten.flattened_range
    count = (
        math.prod(sh_ten.local_shape)
        if flat is None
        else flat.stop - flat.start
    )
    return count * _tensors.item_bytes(_tensors.dtype_name(sh_ten.dtype))


def distribute_shards_to_ranks(
    shard_to_ranks: dict[T, list[int]],
    shard_to_size: dict[T, int],
    num_ranks: int,
    cross_parallelization_group_loads: set[T],
) -> dict[T, int]:
    """Assigns each shard to one of its ranks, with similar bytes for each rank.

    The algorithm is greedy and the same on all ranks. Shards of this group come
    first, then shards with the fewest ranks, then with the most bytes, then by
    id. Each shard goes to the rank with the fewest bytes so far, or to the
    lowest such rank.
    """

    def order(shard: Any) -> Any:
        return (
            shard in cross_parallelization_group_loads,
            len(shard_to_ranks[shard]),
            -shard_to_size[shard],
            _sortable(shard),
        )

    loads = [0] * num_ranks
    chosen: dict[T, int] = {}
    for shard in sorted(shard_to_ranks, key=order):
        rank = min(shard_to_ranks[shard], key=lambda r: (loads[r], r))
        chosen[shard] = rank
        loads[rank] += shard_to_size[shard]
    return chosen


def _sortable(shard: Any) -> Any:
    """Returns an id that can be sorted even if its flattened range is None."""
    if isinstance(shard, tuple):
        return tuple(
            (x is not None, x) if x is not None else (False,) for x in shard
        )
    return shard


def determine_main_replica_uniform_distribution(
    sharded_state_dict: ShardedStateDict,
    parallelization_group: Any = None,
    ignore_groups: bool = False,
) -> ShardDistribution | None:
    """Returns the distribution within a group; all its ranks make the call.

    `ignore_groups` includes shards whose main replica is in another group, as
    in a load. Returns None for a group of one.
    """
    local = [
        each.without_data()
        for each in nested_values(sharded_state_dict)
        if isinstance(each, ShardedTensor)
    ]
    with ranks.call(""), ranks.subgroup(parallelization_group) as group:
        if group.size <= 1:
            return None
        everything = group.all_gather(local)
    holders: dict[ShardId, list[int]] = {}
    metadata: dict[ShardId, ShardedTensor] = {}
    with_main: set[ShardId] = set()
    for rank, shards in enumerate(everything):
        for each in shards:
            shard = _sharded_tensor_shard_id(each)
            holders.setdefault(shard, []).append(rank)
            metadata.setdefault(shard, each)
            if is_main_replica(each.replica_id):
                with_main.add(shard)
    chosen = set(holders) if ignore_groups else with_main
    holders = {k: v for k, v in holders.items() if k in chosen}
    sizes = {k: _shard_size(v) for k, v in metadata.items()}
    main_ranks = distribute_shards_to_ranks(
        holders, sizes, len(everything), chosen - with_main
    )
    return ShardDistribution(main_ranks, chosen, metadata, holders)
