"""`orbax.checkpoint.experimental.emergency.path`: names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import refused_function

__all__ = [
    "get_per_replica_local_steps",
    "sync_global_data",
]

get_per_replica_local_steps = refused_function(
    __name__, "get_per_replica_local_steps"
)
sync_global_data = refused_function(__name__, "sync_global_data")
