"""Converts torch tensors to and from numpy; CPU tensors share the memory.

numpy itself has no bfloat16 or float8. Tensors of these dtypes pass as integers
of the same width, and get their ml_dtypes dtype on the numpy side. Only called
when torch is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast import _dtypes, errors
from holdfast._lazy import importing

__all__ = [
    "adopted",
    "an_object",
    "as_numpy",
    "dense",
    "dtype_name",
    "empty",
    "has_dtype",
    "is_tensor",
    "on_host",
    "tensor_like",
    "tensor_on",
    "unsupported",
    "with_gradients_of",
]

# The torch dtypes that numpy lacks, and integer dtypes of the same width.
CARRIERS = {
    "bfloat16": "int16",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
}


def is_tensor(value: Any) -> bool:
    """Returns whether `value` is a torch.Tensor; never imports torch."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return tensor is not None and isinstance(value, tensor)


def dtype_name(tensor: Any) -> str:
    """Returns the dtype's name: "float32", "bfloat16", ..."""
    return str(tensor.dtype).removeprefix("torch.")


def dense(tensor: Any, name: str = "") -> Any:
    """Returns the tensor outside autograd, with its elements as they are stored
    in memory; a view if the tensor is not a lazy conjugate or negation.

    `name` is the leaf's name for errors. Raises InvalidArgumentError for
    tensors that are on the meta device, sparse or quantized.
    """
    with importing:
        import torch

    if tensor.device.type == "meta":
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: a tensor on the meta device has no elements"
        )
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: the tensor is {tensor.layout}"
            f"{', quantized' if tensor.is_quantized else ''}; only dense"
            " tensors can be saved; use .to_dense() or .dequantize()"
        )
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor


def as_numpy(tensor: Any, name: str = "") -> np.ndarray[Any, np.dtype[Any]]:
    """Returns a numpy array with the tensor's elements and shape.

    A CPU tensor shares its memory and strides with the array; a tensor on any
    other device is copied.

    `name` is the leaf's name for errors. Raises InvalidArgumentError for
    tensors that `dense` refuses, or of a dtype that cannot be stored.
    """
    with importing:
        import torch

    tensor = dense(tensor, name).cpu()
    kind = dtype_name(tensor)
    carrier = CARRIERS.get(kind)
    array: np.ndarray[Any, np.dtype[Any]]
    if carrier is not None:
        array = tensor.view(getattr(torch, carrier)).numpy()
        return array.view(_dtypes.numpy_dtype(kind, name))
    try:
        array = tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise unsupported(kind, name) from error
    return array


def on_host(
    tensor: Any, name: str = ""
) -> tuple[np.ndarray[Any, np.dtype[Any]], bool]:
    """Returns the array of `as_numpy`, and whether it is a copy, which the
    program cannot change."""
    return as_numpy(tensor, name), tensor.device.type != "cpu"


def unsupported(kind: str, name: str) -> errors.InvalidArgumentError:
    """Returns the error for a dtype that cannot be stored."""
    return errors.InvalidArgumentError(
        'Error parsing object member "dtype": Unsupported data type:'
        f' "{kind}" (leaf "{name}")'
    )


def tensor_on(array: np.ndarray[Any, np.dtype[Any]], kind: str) -> Any:
    """Returns a writable tensor of torch dtype `kind` that uses the memory of
    `array`."""
    with importing:
        import torch

    carrier = CARRIERS.get(kind)
    if carrier is None:
        return torch.from_numpy(array)
    carried = torch.from_numpy(array.view(carrier))
    return carried.view(getattr(torch, kind))


def adopted(array: np.ndarray[Any, np.dtype[Any]]) -> Any:
    """Returns a writable tensor of the array's dtype that uses its memory.

    Raises InvalidArgumentError for a dtype that torch lacks.
    """
    kind = _dtypes.dtype_name(array.dtype)
    try:
        return tensor_on(array, kind)
    except (TypeError, AttributeError) as error:
        raise errors.InvalidArgumentError(
            f'torch has no arrays of {kind}; load with arrays="numpy"'
        ) from error


def has_dtype(kind: str) -> bool:
    """Returns whether torch has a dtype called `kind`."""
    with importing:
        import torch

    return isinstance(getattr(torch, kind, None), torch.dtype)


def an_object() -> Any:
    """Returns a target for a stored Python object; its tensors become torch
    tensors."""
    with importing:
        import torch

    return torch.empty(0, device="meta")


def empty(shape: Sequence[int], kind: str, device: Any) -> Any:
    """Returns a new tensor of torch dtype `kind` on a device, with undefined
    elements."""
    with importing:
        import torch

    return torch.empty(
        tuple(shape), dtype=getattr(torch, kind), device=device
    )


def tensor_like(target: Any, array: np.ndarray[Any, np.dtype[Any]]) -> Any:
    """Returns a tensor like `target` with the elements of `array`.

    The tensor is on the target's device (the CPU for meta tensors), and is a
    Parameter if the target is.
    """
    tensor = tensor_on(array, dtype_name(target))
    if target.device.type not in ("cpu", "meta"):
        tensor = tensor.to(target.device)
    return with_gradients_of(target, tensor)


def with_gradients_of(target: Any, tensor: Any) -> Any:
    """Returns `tensor` as a Parameter if `target` is one, and with gradients if
    `target` has them."""
    with importing:
        import torch

    if isinstance(target, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad=target.requires_grad)
    if target.requires_grad:
        tensor.requires_grad_()
    return tensor
