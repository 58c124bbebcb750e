"""A load in which one rank of a group reads each shard for all ranks.

The elements go into the buffers of the request, which become the results.
"""

from __future__ import annotations

from typing import Any

from holdfast.megatron import _tensors, ranks
from holdfast.megatron.dict_utils import dict_list_map_inplace, nested_values
from holdfast.megatron.mapping import (
    ShardedStateDict,
    ShardedTensor,
    StateDict,
    adopt_megatron_core,
)
from holdfast.megatron.strategies._zarr_read import (
    copied,
    load_arrays,
    request_row,
)
from holdfast.megatron.strategies.base import CheckpointDir
from holdfast.megatron.strategies.tensorstore import (
    TensorStoreLoadShardedStrategy,
)
from holdfast.megatron.strategies.zarr import flatten_range

__all__ = [
    "TwoStageDataParallelLoadShardedStrategy",
    "sharded_tensor_chunk_id",
]


def sharded_tensor_chunk_id(sharded_tensor: ShardedTensor) -> tuple[Any, ...]:
    """Returns the id of the box. A flattened range has the id of its complete
    box."""
    return (sharded_tensor.key, sharded_tensor.global_offset)


class TwoStageDataParallelLoadShardedStrategy(TensorStoreLoadShardedStrategy):
    """Loads each box once in a group, and copies it into the buffers.

    Args:
      data_parallel_group: a torch.distributed group; None means all ranks.
      cpu_transfer: whether the group may send tensors in host memory.
    """

    # The ranks communicate only after the request has been checked.
    is_collective = True

    def __init__(
        self, data_parallel_group: Any = None, cpu_transfer: bool = True
    ) -> None:
        super().__init__()
        self.cpu_transfer = cpu_transfer
        self.data_parallel_group_orig = data_parallel_group

    def load(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> StateDict:
        """Replaces each ShardedTensor with its filled `data`, in place."""
        adopt_megatron_core()
        tensors = list(nested_values(sharded_state_dict))
        with (
            ranks.call(checkpoint_dir),
            ranks.subgroup(self.data_parallel_group_orig) as group,
        ):
            boxes = self._boxes(group, tensors, checkpoint_dir)

        def filled(x: ShardedTensor) -> Any:
            name, array = boxes[sharded_tensor_chunk_id(x)]
            x.init_data("cpu")
            loaded = _tensors.wrap(array, name, x.data)
            if x.flattened_range is not None:
                loaded = flatten_range(x, loaded)
            return copied(x.data, loaded)

        dict_list_map_inplace(filled, sharded_state_dict)
        return sharded_state_dict

    def _boxes(
        self,
        group: ranks.Ranks,
        tensors: list[ShardedTensor],
        checkpoint_dir: CheckpointDir,
    ) -> dict[Any, Any]:
        """Returns (dtype name, array) for each box that this rank requests."""
        wanted = {sharded_tensor_chunk_id(x): x for x in tensors}
        asked = group.all_gather(list(wanted))
        mine = {
            box: x
            for box, x in wanted.items()
            if all(box not in other for other in asked[: group.rank])
        }
        arrays = load_arrays(
            [
                request_row(x, apply_flattened_range=False)
                for x in mine.values()
            ],
            [None] * len(mine),
            checkpoint_dir,
            self.mode,
        )
        return group.share(dict(zip(mine, arrays, strict=True)), set(wanted))
