"""`orbax.checkpoint.experimental.emergency.multi_tier_checkpointing.pathways_topology`:
names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import (
    Refused,
    refused_function,
)

__all__ = [
    "Topology",
    "Worker",
    "remap_nested_device_ids",
    "worker_key_sort_key",
    "worker_rank_array",
    "worker_rank_from_array",
]


class Topology(Refused):
    """Not supported yet: making one says so."""


class Worker(Refused):
    """Not supported yet: making one says so."""


remap_nested_device_ids = refused_function(__name__, "remap_nested_device_ids")
worker_key_sort_key = refused_function(__name__, "worker_key_sort_key")
worker_rank_array = refused_function(__name__, "worker_rank_array")
worker_rank_from_array = refused_function(__name__, "worker_rank_from_array")
