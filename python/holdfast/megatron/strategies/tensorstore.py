"""The default loader for zarr checkpoints.

Megatron Core's loader used TensorStore. This one uses the engine, like
`ZarrLoadShardedStrategy`. The two classes differ as the originals did: in error
messages, and in how they treat slices past the end.
"""

from __future__ import annotations

from typing import Any

from holdfast.megatron.mapping import ShardedTensor
from holdfast.megatron.strategies._zarr_read import load_tensors
from holdfast.megatron.strategies.base import (
    CheckpointDir,
    StrategyAction,
    register_default_strategy,
)
from holdfast.megatron.strategies.zarr import ZarrLoadShardedStrategy

__all__ = [
    "TensorStoreLoadShardedStrategy",
    "merge_global_slice_with_shape",
    "register_default_tensorstore_strategies",
]


def register_default_tensorstore_strategies() -> None:
    """Makes TensorStoreLoadShardedStrategy the default for zarr version 1."""
    register_default_strategy(
        StrategyAction.LOAD_SHARDED,
        "zarr",
        1,
        TensorStoreLoadShardedStrategy(),
    )


class TensorStoreLoadShardedStrategy(ZarrLoadShardedStrategy):
    """Loads zarr arrays with the messages and rules of the default loader.

    With `load_directly_on_device`, the original's first argument, elements are
    read into the `data` of the ShardedTensors.
    """

    mode = "tensorstore"

    def __init__(
        self,
        backend: str | bool = "zarr",
        version: int = 1,
        *,
        load_directly_on_device: bool = False,
        threads: int = 0,
    ) -> None:
        is_flag = isinstance(backend, bool)
        super().__init__(
            "zarr" if is_flag else str(backend),
            version,
            into_buffers=bool(backend) if is_flag else load_directly_on_device,
            threads=threads,
        )

    @property
    def load_directly_on_device(self) -> bool:
        """Whether elements are read into the ShardedTensors' `data`."""
        return self.into_buffers


def merge_global_slice_with_shape(
    global_slice: tuple[Any, ...], actual_shape: tuple[int, ...], key: str
) -> tuple[Any, ...]:
    """Returns the slice, cut at the end of the stored array.

    Raises AssertionError for a slice that starts at or after the end, or has a
    different number of axes.
    """
    assert len(global_slice) == len(actual_shape), (
        global_slice,
        actual_shape,
        key,
    )
    merged = []
    for item, size in zip(global_slice, actual_shape, strict=True):
        if isinstance(item, slice):
            assert item.start < size, (
                f"Got empty slice for ShardedTensor {key} ({item}, {size})"
            )
            item = slice(item.start, min(item.stop, size), item.step)
        merged.append(item)
    return tuple(merged)


def _load_from_array(
    sharded_tensor: ShardedTensor,
    checkpoint_dir: CheckpointDir,
    load_directly_on_device: bool = False,
    apply_flattened_range: bool = True,
) -> Any:
    """Loads the tensor that `sharded_tensor` describes."""
    assert isinstance(sharded_tensor, ShardedTensor), type(sharded_tensor)
    return load_tensors(
        [sharded_tensor],
        checkpoint_dir,
        "tensorstore",
        into_buffers=load_directly_on_device,
        apply_flattened_range=apply_flattened_range,
    )[0]
