"""Loads one leaf of a target: buffers to read into, then a value.

Handles numpy arrays and scalars, Python numbers, strings, jax arrays under any
sharding, typed PRNG keys, torch tensors and this process's part of DTensors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast import (
    _device_arrays,
    _dtensor,
    _dtypes,
    _engine,
    _torch_arrays,
    errors,
)
from holdfast._buffers import Buffer, DeviceBuffer, Request
from holdfast._lazy import importing
from holdfast._pytree import jax_if_imported
from holdfast._stored_array import StoredArray

__all__ = [
    "DeviceTensor",
    "LeafPlanner",
    "OnDevice",
    "Request",
    "Slot",
    "put_all",
]


@dataclasses.dataclass
class Slot:
    """A leaf of the result: what to read, and how to make its value."""

    requests: list[Request]
    finish: Callable[[], Any]
    # For a jax array, the parts to put on its devices before `finish`.
    placement: Any = None


def put_all(placements: Sequence[Any]) -> None:
    """Puts filled buffers on their devices with `_jax_arrays.put_all`."""
    if placements:
        with importing:
            from holdfast import _jax_arrays

        _jax_arrays.put_all(placements)


class OnDevice:
    """A target that accepts any array, and puts it on a device.

    Attributes:
        library: "torch" or "jax".
        device: the library's own device object.
    """

    # A dataclass would be a container of the target.
    __slots__ = ("device", "library")

    def __init__(self, library: str, device: Any) -> None:
        self.library = library
        self.device = device


class DeviceTensor:
    """A new torch tensor on a CUDA device, and the buffer that is read into
    it. REQUIRES: it has elements."""

    def __init__(
        self, device: Any, shape: Sequence[int], dtype: str, name: str
    ) -> None:
        """`dtype` is torch's name for it; `name` is the leaf's, for errors."""
        self._name = name
        self._device = device
        self._shape = shape
        self._dtype = dtype
        self._tensor: Any = None
        self.buffer = DeviceBuffer((0,) * len(shape), self._make)

    def _make(self) -> _engine.DeviceArray:
        self._tensor = _torch_arrays.empty(
            self._shape, self._dtype, self._device
        )
        return _device_arrays.of_tensor(self._tensor, self._name)

    def finish(self) -> Any:
        """Returns the tensor. REQUIRES: the buffer was read."""
        return self._tensor


class LeafPlanner:
    """Makes the slots of one checkpoint's leaves."""

    def __init__(
        self,
        checkpoint: _engine.Checkpoint,
        cast: bool,
        takes_devices: bool = False,
    ) -> None:
        """With `takes_devices`, elements for CUDA devices are read there."""
        self._checkpoint = checkpoint
        self._leaves = checkpoint.leaves
        self._cast = cast
        self._takes_devices = takes_devices

    def slot(self, target: Any, leaf: int, name: str) -> Slot:
        info = self._leaves[leaf]
        if info.problem is not None:
            raise info.problem
        if info.kind in ("string", "bytes", "json") or isinstance(target, str):
            return self._text_slot(target, leaf, info, name)
        if info.kind == "object":
            tensor = (
                _torch_arrays.tensor_on
                if _torch_arrays.is_tensor(target)
                else None
            )
            return Slot(
                [],
                lambda: _engine.read_torch_file(
                    self._checkpoint.read(leaf), tensor
                ),
            )
        if info.kind not in ("array", "scalar"):
            return Slot([], lambda: self._checkpoint.read(leaf))
        if isinstance(target, OnDevice):
            return self._on_device_slot(target, leaf, info, name)
        jax = jax_if_imported()
        if jax is not None and isinstance(
            target, (jax.Array, jax.ShapeDtypeStruct)
        ):
            return self._jax_slot(target, leaf, info, name)
        if _dtensor.is_dtensor(target):
            return self._dtensor_slot(target, leaf, info, name)
        if _torch_arrays.is_tensor(target):
            return self._torch_slot(target, leaf, info, name)
        if isinstance(target, (np.ndarray, StoredArray)):
            return self._numpy_slot(target, leaf, info, name)
        if isinstance(target, np.generic):
            return self._numpy_scalar_slot(target, leaf, info, name)
        if isinstance(target, (bool, int, float, complex)):
            return self._number_slot(target, leaf, info, name)
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: the target is a {type(target).__qualname__}; want"
            " a numpy array, a jax.Array or jax.ShapeDtypeStruct, a torch"
            " tensor, a number, a string, None or ... (Ellipsis)"
        )

    def _check(
        self,
        info: _engine.LeafInfo,
        shape: Sequence[int],
        dtype: str,
        name: str,
    ) -> None:
        if tuple(shape) != info.shape:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: shape: the checkpoint has {info.shape}, the"
                f" target {tuple(shape)}"
            )
        if not self._cast and dtype != info.dtype:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: dtype: the checkpoint has {info.dtype}, the"
                f" target {dtype}; cast=True casts"
            )

    def _whole(
        self, leaf: int, shape: Sequence[int], dtype: np.dtype[Any]
    ) -> tuple[list[Request], Buffer]:
        buffer = Buffer((0,) * len(shape), shape, dtype)
        return [(leaf, buffer)], buffer

    def _text_slot(
        self, target: Any, leaf: int, info: _engine.LeafInfo, name: str
    ) -> Slot:
        is_text = info.kind in ("string", "bytes", "json")
        if not (is_text and isinstance(target, (str, bytes))):
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: the checkpoint has a {info.kind}, the target"
                f" a {type(target).__qualname__}"
            )
        return Slot([], lambda: self._checkpoint.read(leaf))

    def _numpy_slot(
        self,
        target: np.ndarray[Any, np.dtype[Any]] | StoredArray,
        leaf: int,
        info: _engine.LeafInfo,
        name: str,
    ) -> Slot:
        dtype = target.dtype
        if not dtype.isnative:
            dtype = dtype.newbyteorder("=")
        self._check(info, target.shape, _dtypes.dtype_name(dtype), name)
        requests, buffer = self._whole(leaf, info.shape, dtype)
        return Slot(requests, lambda: buffer.array)

    def _numpy_scalar_slot(
        self, target: np.generic, leaf: int, info: _engine.LeafInfo, name: str
    ) -> Slot:
        self._check(info, (), _dtypes.dtype_name(target.dtype), name)
        requests, buffer = self._whole(leaf, (), target.dtype)
        return Slot(requests, lambda: buffer.array[()])

    def _number_slot(
        self, target: complex, leaf: int, info: _engine.LeafInfo, name: str
    ) -> Slot:
        kind = type(target)
        for base in (bool, int, float, complex):
            if isinstance(target, base):
                kind = base
                break
        dtype = _number_dtype(kind, info.dtype or "")
        if dtype is None and self._cast:
            dtype = {bool: "bool", int: "int64", float: "float64"}.get(
                kind, "complex128"
            )
        if dtype is None:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: dtype: the checkpoint has {info.dtype}, the"
                f" target a Python {kind.__name__}; cast=True casts"
            )
        self._check(info, (), info.dtype or "", name)
        requests, buffer = self._whole(
            leaf, (), _dtypes.numpy_dtype(dtype, name)
        )
        return Slot(requests, lambda: kind(buffer.array.item()))

    def _torch_slot(
        self, target: Any, leaf: int, info: _engine.LeafInfo, name: str
    ) -> Slot:
        dtype = _torch_arrays.dtype_name(target)
        self._check(info, tuple(target.shape), dtype, name)
        if self._takes_devices and _device_arrays.can_describe(target):
            tensor = DeviceTensor(target.device, info.shape, dtype, name)
            return Slot(
                [(leaf, tensor.buffer)],
                lambda: _torch_arrays.with_gradients_of(
                    target, tensor.finish()
                ),
            )
        requests, buffer = self._whole(
            leaf, info.shape, _dtypes.numpy_dtype(dtype, name)
        )
        return Slot(
            requests, lambda: _torch_arrays.tensor_like(target, buffer.array)
        )

    def _on_device_slot(
        self, target: OnDevice, leaf: int, info: _engine.LeafInfo, name: str
    ) -> Slot:
        dtype = _dtypes.numpy_dtype(info.dtype or "", name)
        if target.library == "jax":
            with importing:
                from holdfast import _jax_arrays

            _jax_arrays.check_keeps(dtype)
            placed = _jax_arrays.placement_on(info.shape, dtype, target.device)
            return self._placed(placed, leaf)
        kind = info.dtype or ""
        has_elements = 0 not in info.shape
        if (
            self._takes_devices
            and has_elements
            and target.device.type == "cuda"
            and _device_arrays.is_usable()
            and _torch_arrays.has_dtype(kind)
        ):
            tensor = DeviceTensor(target.device, info.shape, kind, name)
            return Slot([(leaf, tensor.buffer)], tensor.finish)
        requests, buffer = self._whole(leaf, info.shape, dtype)
        return Slot(
            requests,
            lambda: _torch_arrays.adopted(buffer.array).to(target.device),
        )

    def _dtensor_slot(
        self, target: Any, leaf: int, info: _engine.LeafInfo, name: str
    ) -> Slot:
        dtype = _torch_arrays.dtype_name(target)
        self._check(info, tuple(target.shape), dtype, name)
        local, parts = _dtensor.local_buffers(target, name)
        return Slot(
            [(leaf, part) for part in parts],
            lambda: _dtensor.tensor_like(target, local.array),
        )

    def _jax_slot(
        self, target: Any, leaf: int, info: _engine.LeafInfo, name: str
    ) -> Slot:
        with importing:
            from holdfast import _jax_arrays

        if _jax_arrays.is_key_dtype(target.dtype):
            return self._key_slot(target, leaf, info, name)
        dtype = _dtypes.dtype_name(np.dtype(target.dtype))
        is_number = info.kind == "scalar" and not self._cast
        if is_number and _is_of_kind(target.dtype, info.dtype or ""):
            return self._weak_slot(target, leaf, info, name)
        self._check(info, target.shape, dtype, name)
        placement = _jax_arrays.placement(
            info.shape,
            target.dtype,
            getattr(target, "sharding", None),
            name=name,
        )
        return self._placed(placement, leaf)

    def _weak_slot(
        self, target: Any, leaf: int, info: _engine.LeafInfo, name: str
    ) -> Slot:
        """Plans a weakly typed number, which takes the target's dtype.

        The stored number's width does not matter, in jax as in Python.
        `jax.eval_shape` has already chosen the target's dtype."""
        with importing:
            import jax

        self._check(info, target.shape, info.dtype or "", name)
        requests, buffer = self._whole(
            leaf, (), _dtypes.numpy_dtype(info.dtype or "", name)
        )

        def finish() -> Any:
            value = buffer.array.astype(target.dtype)
            if value.dtype.kind in "iu" and value != buffer.array:
                raise errors.InvalidArgumentError(
                    f"leaf {name!r}: the checkpoint has {buffer.array.item()},"
                    f" which the target's {value.dtype} cannot hold"
                )
            sharding = getattr(target, "sharding", None)
            if sharding is None:
                return jax.device_put(value)
            return jax.make_array_from_callback(
                (), sharding, lambda index: value
            )

        return Slot(requests, finish)

    def _key_slot(
        self, target: Any, leaf: int, info: _engine.LeafInfo, name: str
    ) -> Slot:
        """Plans a typed PRNG key: reads its data and wraps the data again."""
        with importing:
            import jax

            from holdfast import _jax_arrays

        impl = str(
            jax.random.key_impl(target)
            if isinstance(target, jax.Array)
            else target.dtype._impl.name
        )
        if info.prng_impl and info.prng_impl != impl:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: the checkpoint has a {info.prng_impl} key,"
                f" the target a {impl} one"
            )
        keys = jax.ShapeDtypeStruct(target.shape, target.dtype)
        data = jax.eval_shape(jax.random.key_data, keys)
        self._check(info, data.shape, str(data.dtype), name)
        sharding = None
        if isinstance(target, jax.Array):
            sharding = jax.random.key_data(target).sharding
        placement = _jax_arrays.placement(
            data.shape, data.dtype, sharding, prng_impl=impl, name=name
        )
        slot = self._placed(placement, leaf)
        wanted = getattr(target, "sharding", None)
        if sharding is not None or wanted is None:
            return slot
        return Slot(
            slot.requests,
            lambda: jax.device_put(slot.finish(), wanted),
            slot.placement,
        )

    def _placed(self, placement: Any, leaf: int) -> Slot:
        return Slot(
            placement.requests(leaf, takes_devices=self._takes_devices),
            placement.finish,
            placement,
        )


def _is_of_kind(target: Any, stored: str) -> bool:
    """Returns whether both are bools, both integers or both floats."""
    name = _dtypes.dtype_name(np.dtype(target))
    return any(
        word in name and word in stored for word in ("bool", "int", "float")
    )


def _number_dtype(kind: type, stored: str) -> str | None:
    """Returns the dtype to read a Python number as; None if it does not fit."""
    if kind is bool:
        return "bool" if stored == "bool" else None
    if kind is int:
        if stored.startswith("uint"):
            return "uint64"
        return "int64" if stored.startswith("int") else None
    if kind is float:
        is_float = "float" in stored  # float32, bfloat16, float8_e5m2, ...
        return "float64" if is_float else None
    return "complex128" if stored.startswith("complex") else None
