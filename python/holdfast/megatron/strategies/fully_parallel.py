"""Saves and loads that divide the work among replicas.

On each rank, the wrapped strategy handles a part of the rank's shards. After a
load, the ranks exchange the shards that they want.
"""

from __future__ import annotations

from typing import Any

from holdfast.megatron import _tensors, ranks
from holdfast.megatron.core import CheckpointingException
from holdfast.megatron.dict_utils import (
    dict_list_map_outplace,
    nested_values,
)
from holdfast.megatron.exchange_utils import (
    ShardDistribution,
    determine_main_replica_uniform_distribution,
)
from holdfast.megatron.mapping import (
    ShardedStateDict,
    ShardedTensor,
    StateDict,
    adopt_megatron_core,
)
from holdfast.megatron.strategies.base import (
    AsyncSaveShardedStrategy,
    CheckpointDir,
    LoadShardedStrategy,
    SaveShardedStrategy,
)
from holdfast.megatron.utils import _sharded_tensor_shard_id
from holdfast.megatron.validation import (
    determine_global_metadata,
    validate_sharding_integrity,
)

__all__ = [
    "FullyParallelLoadStrategyWrapper",
    "FullyParallelSaveStrategyWrapper",
    "distribute_main_replicas_with_precomputed_distribution",
]

_EXCHANGES = ("broadcast", "gather_object", "gather_rounds")


class FullyParallelSaveStrategyWrapper(AsyncSaveShardedStrategy):
    """Saves each shard on only one of the ranks that have it.

    Args:
      strategy: the strategy that saves.
      parallelization_group: the ranks that share the work; None means all.
      do_cache_distribution: reuse the first save's assignment of shards,
        because later saves have the same shards on each rank.
    """

    def __init__(
        self,
        strategy: SaveShardedStrategy,
        parallelization_group: Any = None,
        do_cache_distribution: bool = False,
    ) -> None:
        super().__init__(strategy.backend, strategy.version)
        self.base_strategy = strategy
        self.parallelization_group = parallelization_group
        self.do_cache_distribution = do_cache_distribution
        self.cached_distribution: ShardDistribution | None = None
        # For a group of one, the cached distribution is None.
        self._has_cached = False

    def async_save(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> Any:
        """Raises CheckpointingException unless the wrapped strategy supports
        background saves."""
        if not isinstance(self.base_strategy, AsyncSaveShardedStrategy):
            raise CheckpointingException(
                "Cannot apply async_save to non-async base strategy"
                f" {self.base_strategy}",
                code="ASYNC_UNSUPPORTED",
            )
        self.apply_saving_parallelization(sharded_state_dict)
        return self.base_strategy.async_save(sharded_state_dict, checkpoint_dir)

    def save(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> None:
        """Saves with the wrapped strategy. All ranks call it."""
        adopt_megatron_core()
        with ranks.call(checkpoint_dir):
            self.apply_saving_parallelization(sharded_state_dict)
            self.base_strategy.save(sharded_state_dict, checkpoint_dir)

    def apply_saving_parallelization(
        self, sharded_state_dict: ShardedStateDict
    ) -> None:
        """Sets the shards' replica ids to 0 if this rank saves them."""
        was_cached = self._has_cached
        distribution = self.cached_distribution
        if not was_cached:
            distribution = determine_main_replica_uniform_distribution(
                sharded_state_dict, self.parallelization_group
            )
        distribute_main_replicas_with_precomputed_distribution(
            sharded_state_dict, self.parallelization_group, distribution
        )
        if not was_cached:
            validate_sharding_integrity(
                determine_global_metadata(sharded_state_dict)[1]
            )
        if self.do_cache_distribution:
            self.cached_distribution = distribution
            self._has_cached = True

    @property
    def can_handle_sharded_objects(self) -> bool:
        return self.base_strategy.can_handle_sharded_objects


class FullyParallelLoadStrategyWrapper(LoadShardedStrategy):
    """Reads each shard on only one of the ranks that want it.

    Args:
      strategy: the strategy that loads.
      parallelization_group: the ranks that share the work; None means all.
      do_cache_distribution: reuse the first load's assignment of shards,
        because later loads request the same shards on each rank.
      exchange_algo: "broadcast", "gather_object" or "gather_rounds", which have
        the same effect here.
    """

    def __init__(
        self,
        strategy: LoadShardedStrategy,
        parallelization_group: Any = None,
        do_cache_distribution: bool = False,
        exchange_algo: str = "broadcast",
    ) -> None:
        if exchange_algo not in _EXCHANGES:
            raise NotImplementedError(
                f"Unrecognized gather algorithm: {exchange_algo}"
            )
        self.base_strategy = strategy
        self.parallelization_group = parallelization_group
        self.do_cache_distribution = do_cache_distribution
        self.exchange_algo = exchange_algo
        self.cached_distribution: ShardDistribution | None = None
        # For a group of one, the cached distribution is None.
        self._has_cached = False

    # The ranks communicate only after the request has been checked.
    is_collective = True

    def load(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> StateDict:
        """Loads with the wrapped strategy. All ranks of the group call it."""
        adopt_megatron_core()
        with ranks.call(checkpoint_dir):
            distribution = self._distribution(sharded_state_dict)
            if distribution is None:
                return self.base_strategy.load(
                    sharded_state_dict, checkpoint_dir
                )
            with ranks.subgroup(self.parallelization_group) as group:
                return self._load(
                    group, distribution, sharded_state_dict, checkpoint_dir
                )

    def _distribution(
        self, sharded_state_dict: ShardedStateDict
    ) -> ShardDistribution | None:
        if self._has_cached:
            return self.cached_distribution
        distribution = determine_main_replica_uniform_distribution(
            sharded_state_dict, self.parallelization_group, True
        )
        if self.do_cache_distribution:
            self.cached_distribution = distribution
            self._has_cached = True
        return distribution

    def _load(
        self,
        group: ranks.Ranks,
        distribution: ShardDistribution,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> StateDict:
        leaves = list(nested_values(sharded_state_dict))
        tensors = {
            _sharded_tensor_shard_id(x): x
            for x in leaves
            if isinstance(x, ShardedTensor)
        }
        # Objects by position; every rank reads them itself.
        objects = {
            str(i): x
            for i, x in enumerate(leaves)
            if not isinstance(x, ShardedTensor)
        }
        mine = {
            shard: x
            for shard, x in tensors.items()
            if distribution.main_rank_for_shard[shard] == group.rank
        }
        loaded = self.base_strategy.load(
            {"tensors": list(mine.values()), "objects": objects},
            checkpoint_dir,
        )
        carried = {
            shard: (_tensors.dtype_name(x.dtype), _tensors.array_of(x))
            for shard, x in zip(mine, loaded["tensors"], strict=True)
        }
        shared = group.share(carried, set(tensors))
        missing = set(tensors) - set(shared)
        if missing:
            raise CheckpointingException(
                f"Missing shards after fully parallel loading: {missing}"
            )
        position = iter(range(len(leaves)))

        def filled(x: Any) -> Any:
            index = str(next(position))
            if not isinstance(x, ShardedTensor):
                return loaded["objects"][index]
            name, array = shared[_sharded_tensor_shard_id(x)]
            like = x.dtype if x.data is None else x.data
            return _tensors.wrap(array.copy(), name, like)

        result: StateDict = dict_list_map_outplace(filled, sharded_state_dict)
        return result

    @property
    def can_handle_sharded_objects(self) -> bool:
        return self.base_strategy.can_handle_sharded_objects

    def load_tensors_metadata(
        self, checkpoint_dir: CheckpointDir
    ) -> ShardedStateDict:
        """Returns the wrapped strategy's result."""
        return self.base_strategy.load_tensors_metadata(checkpoint_dir)

    def load_sharded_metadata(
        self, checkpoint_dir: CheckpointDir
    ) -> ShardedStateDict:
        """Returns the wrapped strategy's result."""
        return self.base_strategy.load_sharded_metadata(checkpoint_dir)

    def check_backend_compatibility(self, loaded_backend: Any) -> None:
        """Calls the wrapped strategy's check."""
        self.base_strategy.check_backend_compatibility(loaded_backend)

    def check_version_compatibility(self, loaded_version: Any) -> None:
        """Calls the wrapped strategy's check."""
        self.base_strategy.check_version_compatibility(loaded_version)


def distribute_main_replicas_with_precomputed_distribution(
    sharded_state_dict: ShardedStateDict,
    parallelization_group: Any,
    precomputed_distribution: ShardDistribution | None,
) -> None:
    """Sets replica ids: 0 for shards assigned to this rank, and 1 for others.

    A group of one keeps its replica ids.
    """
    with ranks.call(""), ranks.subgroup(parallelization_group) as group:
        size, rank = group.size, group.rank
    if size <= 1:
        return
    if precomputed_distribution is None:
        raise ValueError(
            "precomputed_distribution must be not None for non-trivial"
            " parallelization group"
        )
    for each in nested_values(sharded_state_dict):
        if isinstance(each, ShardedTensor):
            shard = _sharded_tensor_shard_id(each)
            main = precomputed_distribution.main_rank_for_shard.get(shard)
            each.replica_id = 0 if main == rank else 1
