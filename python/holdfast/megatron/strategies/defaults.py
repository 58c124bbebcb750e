"""The default strategies of Megatron Core's back ends."""

from __future__ import annotations

from holdfast.megatron.strategies import common, tensorstore, torch, zarr
from holdfast.megatron.strategies.base import register_back_end

__all__ = ["register_back_ends"]


def register_back_ends() -> None:
    """Registers all back ends with `get_default_strategy`."""
    register_back_end(
        "zarr",
        tensorstore.register_default_tensorstore_strategies,
        zarr.register_default_zarr_strategies,
    )
    register_back_end("torch_dist", torch.register_default_torch_strategies)
    register_back_end("torch", common.register_default_common_strategies)
