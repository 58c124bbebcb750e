"""A drop-in for `megatron.core.dist_checkpointing` on zarr checkpoints.

Megatron Core wrote this format from 0.4 on; 0.15.3 was the last release that
reads or writes it. The names, arguments, results and error messages are those
of 0.8 to 0.15.3:

    from holdfast import megatron as dist_checkpointing

    state = dist_checkpointing.load(sharded_state_dict, "/ckpt/iter_0000100")
    dist_checkpointing.save(sharded_state_dict, "/ckpt/iter_0000200")

It works with Megatron Core's own `ShardedTensor` objects and with the same
classes in this package, on torch tensors and numpy arrays. The ranks are those
of torch.distributed; or one process calls `save_ranks` or `load_ranks` with the
arguments of all ranks. Reading never runs the code that a pickle names.
"""

from __future__ import annotations

from holdfast.megatron.core import (
    CheckpointingConfig,
    CheckpointingException,
    check_is_distributed_checkpoint,
    maybe_load_config,
    save_config,
)
from holdfast.megatron.mapping import (
    LocalNonpersistentObject,
    ShardedObject,
    ShardedTensor,
    ShardedTensorFactory,
)
from holdfast.megatron.serialization import (
    load,
    load_common_state_dict,
    load_content_metadata,
    load_plain_tensors,
    load_sharded_metadata,
    load_tensors_metadata,
    remove_sharded_tensors,
    save,
)
from holdfast.megatron.strategies.defaults import register_back_ends
from holdfast.megatron.strategies.zarr import (
    AbsentChunksWarning,
    ZarrLoadShardedStrategy,
    ZarrSaveShardedStrategy,
    register_default_zarr_strategies,
)
from holdfast.megatron.thread_ranks import load_ranks, save_ranks
from holdfast.megatron.validation import (
    StrictHandling,
    parse_strict_flag,
    validate_sharding_integrity,
)

__all__ = [
    "AbsentChunksWarning",
    "CheckpointingConfig",
    "CheckpointingException",
    "LocalNonpersistentObject",
    "ShardedObject",
    "ShardedTensor",
    "ShardedTensorFactory",
    "StrictHandling",
    "ZarrLoadShardedStrategy",
    "ZarrSaveShardedStrategy",
    "check_is_distributed_checkpoint",
    "load",
    "load_common_state_dict",
    "load_content_metadata",
    "load_plain_tensors",
    "load_ranks",
    "load_sharded_metadata",
    "load_tensors_metadata",
    "maybe_load_config",
    "parse_strict_flag",
    "register_default_zarr_strategies",
    "remove_sharded_tensors",
    "save",
    "save_config",
    "save_ranks",
    "validate_sharding_integrity",
]

register_back_ends()
