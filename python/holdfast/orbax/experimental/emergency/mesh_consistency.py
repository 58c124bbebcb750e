"""`orbax.checkpoint.experimental.emergency.mesh_consistency`: names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax.experimental.emergency._refusal import refused_function

__all__ = [
    "PyTree",
    "consistent_restore_mesh_from_metadata",
    "consistent_restore_mesh_to_global_mesh",
    "process_metadata_folder",
    "read_process_metadata",
    "save_process_metadata",
]

PyTree: TypeAlias = Any

consistent_restore_mesh_from_metadata = refused_function(
    __name__, "consistent_restore_mesh_from_metadata"
)
consistent_restore_mesh_to_global_mesh = refused_function(
    __name__, "consistent_restore_mesh_to_global_mesh"
)
process_metadata_folder = refused_function(__name__, "process_metadata_folder")
read_process_metadata = refused_function(__name__, "read_process_metadata")
save_process_metadata = refused_function(__name__, "save_process_metadata")
