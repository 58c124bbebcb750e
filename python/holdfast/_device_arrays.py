"""Arrays in the memory of CUDA devices, described for the engine.

The engine copies their elements itself, in pieces, while it saves
(`doc/accelerators.md`). Arrays that it cannot read in this way are copied to
the host first: those of other accelerators, those with packed elements or
layouts of their own, and all of them if this process cannot use CUDA's driver,
or if HOLDFAST_DEVICES is 0.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pathlib
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from holdfast import _dtypes, _engine, _torch_arrays, errors
from holdfast._lazy import importing
from holdfast._log import log

__all__ = [
    "can_describe",
    "can_fill",
    "has_interface",
    "is_usable",
    "of_interface",
    "of_jax",
    "of_tensor",
    "to_fill",
]

# The handle of CUDA's legacy default stream in `__cuda_array_interface__`.
_LEGACY_STREAM = 1


@functools.cache
def is_usable() -> bool:
    """Returns whether this process can read the memory of devices.

    Logs why not, once. REQUIRES: an array is on a device.
    """
    if os.environ.get("HOLDFAST_DEVICES", "1") == "0":
        return False
    nvrtc = _nvrtc_path(sys.path)
    if nvrtc is not None:
        _engine.set_nvrtc_path(nvrtc)
    problem = _engine.device_problem()
    if problem:
        log.warning(
            "arrays on devices are copied to the host before they are saved,"
            " which is slower and needs memory for all of them: %s",
            problem,
        )
    return not problem


def _nvrtc_path(folders: Iterable[str]) -> str | None:
    """Returns the newest NVRTC that a package of NVIDIA has brought, as torch
    and jax need it."""
    found = [
        (int(path.name.removeprefix("libnvrtc.so.").partition(".")[0]), path)
        for folder in folders
        for path in pathlib.Path(folder).glob("nvidia/*/lib/libnvrtc.so.[1-9]*")
    ]
    return str(max(found)[1]) if found else None


def can_describe(tensor: Any) -> bool:
    """Returns whether `of_tensor` can describe a torch tensor."""
    return (
        tensor.device.type == "cuda" and tensor.numel() > 0 and is_usable()
    )


def of_tensor(tensor: Any, name: str = "") -> _engine.DeviceArray:
    """Describes a torch tensor that `_torch_arrays.dense` returned.

    The elements are those that the current stream of the tensor's device will
    have written once its queued work is done. Raises InvalidArgumentError for a
    dtype that cannot be stored. REQUIRES: `can_describe`.
    """
    with importing:
        import torch

    kind = _torch_arrays.dtype_name(tensor)
    itemsize = tensor.element_size()
    try:
        return _engine.DeviceArray(
            tuple(tensor.shape),
            _dtypes.numpy_dtype(kind, name),
            tensor.data_ptr(),
            strides=[stride * itemsize for stride in tensor.stride()],
            stream=torch.cuda.current_stream(tensor.device).cuda_stream,
            owner=tensor,
        )
    except (TypeError, errors.InvalidArgumentError) as error:
        raise _torch_arrays.unsupported(kind, name) from error


def of_jax(array: Any) -> _engine.DeviceArray | None:
    """Describes a jax.Array on a single device; None if the engine cannot read
    it there.

    The description keeps the array's buffer, so that a jitted function that
    gets the array as a donated argument cannot reuse it. Nothing is waited for
    until elements are needed. If the array is deleted all the same, reading it
    raises DeletedArrayError.
    """
    (device,) = array.devices()
    if math.prod(array.shape) == 0 or not _is_cuda(device):
        return None
    if not _is_plain(array) or not is_usable():
        return None
    return _engine.DeviceArray(
        array.shape,
        np.dtype(array.dtype),
        functools.partial(_address, array),
        owner=(array, _hold(array)),
        check=functools.partial(_check_not_deleted, array),
    )


def _is_cuda(device: Any) -> bool:
    """Returns whether a device of jax is one of CUDA."""
    version = str(device.client.platform_version).lower()
    return device.platform in ("gpu", "cuda") and "cuda" in version


def _is_packed(dtype: Any) -> bool:
    """Returns whether several elements of the dtype share a byte on devices."""
    return str(dtype).endswith(("int2", "int4", "float4_e2m1fn"))


def _is_plain(array: Any) -> bool:
    """Returns whether the elements are in C order in the device's own memory,
    each in bytes of its own."""
    layout = array.format.layout
    return (
        array.sharding.memory_kind in (None, "device")
        and not _is_packed(array.dtype)
        and layout.major_to_minor == tuple(range(array.ndim))
        and not layout.tiling
    )


def _hold(array: Any) -> Any:
    """Returns an object that keeps the array's buffer from donation.

    It is None for dtypes that DLPack lacks; `_check_not_deleted` then notices a
    donation.
    """
    with contextlib.suppress(Exception):
        return array.__dlpack__()
    return None


def _address(array: Any) -> int:
    _check_not_deleted(array)
    array.block_until_ready()
    address: int = array.unsafe_buffer_pointer()
    return address


def _check_not_deleted(array: Any) -> None:
    if array.is_deleted():
        raise errors.DeletedArrayError(
            f"a jax.Array of shape {array.shape} was deleted, or given away by"
            " donation, before it was saved; wait for the save first, or pass"
            ' snapshot="host"'
        )


def can_fill(device: Any, dtype: np.dtype[Any]) -> bool:
    """Returns whether `to_fill` can describe arrays on a device of jax."""
    return _is_cuda(device) and not _is_packed(dtype) and is_usable()


def to_fill(array: Any) -> _engine.DeviceArray:
    """Describes a new jax.Array on a single device, whose elements are to be
    read from a checkpoint.

    Nobody else may have seen the array, because arrays never change.
    REQUIRES: `can_fill`; the array has the default layout.
    """
    return _engine.DeviceArray(
        array.shape, np.dtype(array.dtype), _address(array), owner=array
    )


def has_interface(value: Any) -> bool:
    """Returns whether `value` has a `__cuda_array_interface__`, as arrays of
    cupy and numba do."""
    return hasattr(type(value), "__cuda_array_interface__")


def of_interface(
    value: Any, name: str = ""
) -> _engine.DeviceArray | np.ndarray[Any, np.dtype[Any]]:
    """Describes an array with a `__cuda_array_interface__`; a numpy array if it
    has no elements.

    Format: version 3 of the interface
    (https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html).

    Raises InvalidArgumentError for masked arrays and dtypes that cannot be
    stored, and FailedPreconditionError if this process cannot use the devices.
    """
    if not is_usable():
        problem = _engine.device_problem() or "HOLDFAST_DEVICES is 0"
        raise errors.FailedPreconditionError(
            f"leaf {name!r} is on a device: {problem}"
        )
    interface = value.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: a masked array has no stored form"
        )
    dtype = _dtype_of(value, interface["typestr"])
    if not dtype.isnative:
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: elements of dtype {dtype.str} on a device have"
            " the other byte order"
        )
    shape = tuple(interface["shape"])
    if math.prod(shape) == 0:
        return np.empty(shape, dtype)
    address, _ = interface["data"]
    stream = interface.get("stream")
    try:
        return _engine.DeviceArray(
            shape,
            dtype,
            address,
            strides=interface.get("strides"),
            stream=0 if stream in (None, _LEGACY_STREAM) else stream,
            owner=value,
        )
    except errors.InvalidArgumentError as error:
        raise errors.InvalidArgumentError(f"leaf {name!r}: {error}") from error


def _dtype_of(value: Any, typestr: str) -> np.dtype[Any]:
    """Returns the dtype; that of `value` itself for dtypes that numpy lacks,
    which the interface calls void."""
    dtype = np.dtype(typestr)
    own = getattr(value, "dtype", None)
    if dtype.kind == "V" and isinstance(own, np.dtype):
        return own
    return dtype
