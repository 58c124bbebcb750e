"""Makes sparse, nested and meta tensors from their records in a torch.save
file.

Only called when torch tensors are requested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast import _dtypes, _torch_arrays, errors
from holdfast._lazy import importing
from holdfast._pickle_record import PickleRecord

__all__ = ["with_tensors"]


def with_tensors(tree: Any) -> Any:
    """Returns a tree of dicts and lists with tensor records as CPU tensors.

    Raises DataLossError if the parts of a record do not form a tensor.
    """
    if isinstance(tree, dict):
        return {key: with_tensors(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [with_tensors(value) for value in tree]
    if isinstance(tree, PickleRecord) and tree.module == "torch._utils":
        return _made(tree)
    return tree


def _made(record: PickleRecord) -> Any:
    makers: dict[str, Callable[..., Any]] = {
        "_rebuild_sparse_tensor": _sparse,
        "_rebuild_nested_tensor": _nested,
        "_rebuild_meta_tensor_no_storage": _meta,
    }
    make = makers.get(record.name)
    if make is None:
        return record
    try:
        return make(*record.args)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise errors.DataLossError(
            f"torch file: {record.name} makes no tensor: {error}"
        ) from error


def _tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"want a tensor, got {type(value).__name__}")
    return _torch_arrays.tensor_on(value, _dtypes.dtype_name(value.dtype))


def _sparse(layout: Any, parts: Any) -> Any:
    with importing:
        import torch

    name = layout.args[0] if isinstance(layout, PickleRecord) else ""
    if name == "torch.sparse_coo":
        indices, values, size, *coalesced = parts
        return torch.sparse_coo_tensor(
            _tensor(indices),
            _tensor(values),
            tuple(size),
            check_invariants=True,
            is_coalesced=coalesced[0] if coalesced else None,
        )
    compressed, plain, values, size = parts
    return torch.sparse_compressed_tensor(
        _tensor(compressed),
        _tensor(plain),
        _tensor(values),
        tuple(size),
        layout=getattr(torch, str(name).removeprefix("torch.")),
        check_invariants=True,
    )


def _nested(values: Any, sizes: Any, strides: Any, offsets: Any) -> Any:
    with importing:
        import torch

    buffer = _tensor(values)
    # This checks each part against the buffer.
    parts = [
        buffer.as_strided(size, stride, offset)
        for size, stride, offset in zip(
            sizes.tolist(), strides.tolist(), offsets.tolist(), strict=True
        )
    ]
    return torch.nested.nested_tensor(parts, dtype=buffer.dtype)


def _meta(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    with importing:
        import torch

    return torch.empty_strided(
        tuple(size),
        tuple(stride),
        dtype=dtype,
        device="meta",
        requires_grad=bool(requires_grad),
    )
