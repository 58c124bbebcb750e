"""Treats torch tensors and numpy arrays alike.

torch is used if the program can import it. A dtype is a torch.dtype, a numpy
dtype or a name; the engine uses the name ("bfloat16"). Elements of a type that
numpy lacks pass as integers of the same width.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import sys
from typing import Any

import numpy as np

from holdfast import _dtypes, _torch_arrays
from holdfast._lazy import importing

__all__ = [
    "array_of",
    "default_dtype",
    "default_wrap",
    "dtype_name",
    "dtype_text",
    "empty",
    "is_tensor",
    "is_torch",
    "item_bytes",
    "no_data_tensor",
    "numpy_carrier",
    "torch",
    "wrap",
]

Array = np.ndarray[Any, np.dtype[Any]]


# Element types by name, and the numpy dtype that holds their bits.
_CARRIERS = {name: name for name in _dtypes.NUMPYS} | _torch_arrays.CARRIERS


def torch() -> Any | None:
    """Returns the module torch; None if it is not installed."""
    module = sys.modules.get("torch", _ABSENT)
    if module is None:
        return None
    if module is _ABSENT:
        return _import_torch()
    return module


_ABSENT = object()


@functools.cache
def _import_torch() -> Any | None:
    if importlib.util.find_spec("torch") is None:
        return None
    with importing:
        import torch as module

    return module


def is_torch(value: Any) -> bool:
    """Returns whether `value` is a torch.Tensor or a torch.dtype; never imports
    torch."""
    module = sys.modules.get("torch")
    tensor = getattr(module, "Tensor", None)
    if module is None or tensor is None:
        return False
    return isinstance(value, (tensor, module.dtype))


def is_tensor(value: Any) -> bool:
    """Returns whether `value` is a torch.Tensor or a numpy array."""
    return isinstance(value, np.ndarray) or (
        is_torch(value) and hasattr(value, "shape")
    )


@functools.lru_cache(maxsize=256)
def dtype_name(dtype: Any) -> str:
    """Returns the name ("float32", "bfloat16", ...) of a torch.dtype, a numpy
    dtype or a name."""
    if isinstance(dtype, np.dtype):
        return _dtypes.dtype_name(dtype)
    text = str(dtype).removeprefix("torch.")
    if text in _CARRIERS or is_torch(dtype):
        return text
    try:
        return _dtypes.dtype_name(np.dtype(dtype))
    except TypeError:
        return text


def dtype_text(dtype: Any) -> str:
    """Returns the dtype as torch prints it: "torch.float32"."""
    return f"torch.{dtype_name(dtype)}"


def numpy_carrier(name: str) -> np.dtype[Any]:
    """Returns the numpy dtype whose arrays hold elements of type `name`."""
    carrier = _CARRIERS.get(name)
    return np.dtype(carrier) if carrier else _dtypes.numpy_dtype(name)


def item_bytes(name: str) -> int:
    return int(numpy_carrier(name).itemsize)


def default_dtype(name: str) -> Any:
    """Returns the torch.dtype if torch is installed, else the numpy dtype."""
    module = torch()
    if module is not None:
        return getattr(module, name)
    return _dtypes.numpy_dtype(name)


def array_of(data: Any) -> Array:
    """Returns a tensor's elements as a numpy array of the carrier's dtype.

    The array shares the memory of a tensor in host memory.
    """
    if isinstance(data, np.ndarray):
        name = dtype_name(data.dtype)
        if not data.dtype.isnative:
            data = data.astype(data.dtype.newbyteorder("="))
        carrier = numpy_carrier(name)
        same: Array = data if data.dtype == carrier else data.view(carrier)
        return same
    if not is_torch(data):
        return np.asarray(data)
    data = data.detach()
    if data.device.type != "cpu":
        data = data.cpu()
    if data.is_conj() or data.is_neg():
        data = data.resolve_conj().resolve_neg()
    carrier = numpy_carrier(dtype_name(data.dtype))
    module = torch()
    assert module is not None
    torch_carrier = getattr(module, carrier.name)
    if data.dtype != torch_carrier:
        data = data.view(torch_carrier)
    array: Array = data.numpy()
    return array


def empty(shape: tuple[int, ...], name: str) -> Array:
    """Allocates memory for elements of type `name`, in the carrier's dtype.

    torch allocates it if installed, because numpy asks for huge pages, which a
    virtual machine may first have to get from its host (1 GiB takes 1.0 s
    instead of 0.25 s).
    """
    dtype = numpy_carrier(name)
    module = torch()
    if module is None:
        return np.empty(shape, dtype)
    byte_count = math.prod(shape) * dtype.itemsize
    memory: Array = module.empty(byte_count, dtype=module.uint8).numpy()
    return memory.view(dtype).reshape(shape)


def wrap(array: Array, name: str, like: Any) -> Any:
    """Returns a tensor of element type `name` that uses a carrier array's
    memory.

    It is a torch tensor if `like` is a torch tensor or dtype, and a numpy array
    otherwise.
    """
    if not is_torch(like):
        carrier = numpy_carrier(name)
        dtype = _dtypes.numpy_dtype(name)
        return array if dtype == carrier else array.view(dtype)
    module = torch()
    assert module is not None
    tensor = module.from_numpy(array)
    dtype = getattr(module, name)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def default_wrap(array: Array, name: str) -> Any:
    """Returns a torch tensor if torch is installed, or else a numpy array."""
    return wrap(array, name, default_dtype(name))


def no_data_tensor(shape: tuple[int, ...], dtype: Any) -> Any:
    """Returns a tensor with shape and dtype, without memory if possible."""
    module = torch()
    if is_torch(dtype) and module is not None:
        return module.empty(shape, dtype=dtype, device="meta")
    carrier = numpy_carrier(dtype_name(dtype))
    return np.broadcast_to(np.zeros((), carrier), shape).view()


def element_count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
