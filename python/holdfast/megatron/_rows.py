"""Sharded tensors and objects as plain tuples for the engine."""

from __future__ import annotations

from typing import Any

from holdfast.megatron import _tensors
from holdfast.megatron.mapping import ShardedBase, ShardedObject

__all__ = ["Row", "row_of"]

# (kind, key, replica_id, global_shape, global_offset) and, for tensors,
# (dtype, local_shape, axis_fragmentations, prepend_axis_num,
# allow_shape_mismatch, flattened_range, data).
Row = tuple[Any, ...]


def row_of(part: ShardedBase, with_data: bool = False) -> Row:
    """Returns the row of a ShardedTensor or ShardedObject; `data` is an array
    or None."""
    replica_id = part.replica_id
    if not isinstance(replica_id, int):
        replica_id = tuple(map(int, replica_id))
    head = (
        part.key,
        replica_id,
        tuple(map(int, part.global_shape)),  # type: ignore[attr-defined]
        tuple(map(int, part.global_offset)),  # type: ignore[attr-defined]
    )
    if isinstance(part, ShardedObject):
        return ("object", *head)
    tensor: Any = part
    flat = tensor.flattened_range
    cut = tensor.axis_fragmentations
    data = tensor.data if with_data else None
    return (
        "tensor",
        *head,
        _tensors.dtype_name(tensor.dtype),
        tuple(map(int, tensor.local_shape)),
        None if cut is None else tuple(map(int, cut)),
        int(tensor.prepend_axis_num),
        bool(tensor.allow_shape_mismatch),
        None if flat is None else (int(flat.start), int(flat.stop)),
        None if data is None else _tensors.array_of(data),
    )
