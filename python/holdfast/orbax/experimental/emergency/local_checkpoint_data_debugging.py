"""`orbax.checkpoint.experimental.emergency.local_checkpoint_data_debugging`:
names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax.experimental.emergency._refusal import refused_function

__all__ = [
    "ChunkId",
    "Index",
    "PyTree",
    "Shape",
    "chunk_id_to_index",
    "get_chunk_ids_from_tensorstore",
    "get_present_and_missing_chunks",
    "index_to_chunk_id",
    "open_tensorstore",
    "print_chunk_debug_info",
    "print_devices_indices_debug_info",
]

ChunkId: TypeAlias = tuple[int, ...]
Index: TypeAlias = tuple[slice, ...]
PyTree: TypeAlias = Any
Shape: TypeAlias = tuple[int, ...]

chunk_id_to_index = refused_function(__name__, "chunk_id_to_index")
get_chunk_ids_from_tensorstore = refused_function(
    __name__, "get_chunk_ids_from_tensorstore"
)
get_present_and_missing_chunks = refused_function(
    __name__, "get_present_and_missing_chunks"
)
index_to_chunk_id = refused_function(__name__, "index_to_chunk_id")
open_tensorstore = refused_function(__name__, "open_tensorstore")
print_chunk_debug_info = refused_function(__name__, "print_chunk_debug_info")
print_devices_indices_debug_info = refused_function(
    __name__, "print_devices_indices_debug_info"
)
