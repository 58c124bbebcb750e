"""`orbax.checkpoint.experimental.emergency.multihost`: names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import refused_function
from holdfast.orbax.multihost import runtime_to_distributed_ids
from holdfast.orbax.multihost._flags import define_bool

__all__ = [
    "EXPERIMENTAL_USE_DISTRIBUTED_ID_FOR_MESH_CONSISTENCY",
    "consistent_restore_mesh",
    "process_index_from_device_id",
    "runtime_to_distributed_ids",
]

EXPERIMENTAL_USE_DISTRIBUTED_ID_FOR_MESH_CONSISTENCY = define_bool(
    "experimental_use_distributed_id_for_mesh_consistency",
    "Decides how to Map how device ids changed across restarts. If True, use"
    " remapping distributed id for consistent restore mesh logic. If False,"
    " remaps mesh according to jax.devices() order.",
    default=True,
)

consistent_restore_mesh = refused_function(__name__, "consistent_restore_mesh")
process_index_from_device_id = refused_function(
    __name__, "process_index_from_device_id"
)
