"""CUDA devices in host memory: the libcuda.so.1 of tests/twins/cuda_twin.h,
and torch tensors that are on them.

The engine finds the library by its name, because the twin is loaded first. A
process that has asked for CUDA before cannot use it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

_BUILT = "build/dev/tests/twins/cuda/libcuda.so.1"
LIBRARY = pathlib.Path(
    os.environ.get(
        "HOLDFAST_CUDA_TWIN", pathlib.Path(__file__).parents[2] / _BUILT
    )
)
if not LIBRARY.exists():
    pytest.skip(f"{LIBRARY} is not built", allow_module_level=True)

_RESULTS = {
    "twin_allocate": ctypes.c_uint64,
    "twin_new_stream": ctypes.c_uint64,
    "twin_pinned_bytes_peak": ctypes.c_uint64,
    "twin_device_bytes": ctypes.c_uint64,
    "twin_device_bytes_peak": ctypes.c_uint64,
    "twin_handle_count": ctypes.c_uint64,
    "twin_violation": ctypes.c_char_p,
}


class Twin:
    """The controls of the library; cuda_twin.h describes them."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(LIBRARY))
        for name, result in _RESULTS.items():
            getattr(self.library, name).restype = result
        self.streams: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.library, f"twin_{name}")

        def call(*given: Any) -> Any:
            return function(*(_as_c(each) for each in given))

        return call

    def violations(self) -> list[str]:
        return [
            self.violation(i).decode() for i in range(self.violation_count())
        ]

    def read_bytes(self, address: int, byte_count: int) -> bytes:
        out = ctypes.create_string_buffer(byte_count)
        self.read(address, out, byte_count)
        return out.raw

    def copy_on_stream(
        self, device: int, target: int, source: int, byte_count: int
    ) -> None:
        """Queues a copy on the program's stream, as torch does."""
        with self._context(device):
            assert 0 == self.library.cuMemcpyAsync(
                ctypes.c_uint64(target),
                ctypes.c_uint64(source),
                ctypes.c_size_t(byte_count),
                ctypes.c_uint64(self.streams.get(device, 0)),
            )

    def finish_stream(self, device: int) -> None:
        """Does the work that is queued on the program's stream, unless the
        device has failed."""
        event = ctypes.c_uint64()
        with self._context(device):
            if self.library.cuEventCreate(ctypes.byref(event), 2) != 0:
                return
            stream = ctypes.c_uint64(self.streams.get(device, 0))
            if self.library.cuEventRecord(event, stream) == 0:
                not_ready = 600
                for _ in range(1000):
                    if self.library.cuEventQuery(event) != not_ready:
                        break
            self.library.cuEventDestroy_v2(event)

    @contextlib.contextmanager
    def _context(self, device: int) -> Iterator[None]:
        handle = ctypes.c_int()
        context = ctypes.c_void_p()
        cuda = self.library
        cuda.cuInit(0)
        cuda.cuDeviceGet(ctypes.byref(handle), device)
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
        cuda.cuCtxPushCurrent_v2(context)
        try:
            yield
        finally:
            cuda.cuCtxPopCurrent_v2(ctypes.byref(context))


def _as_c(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return ctypes.c_uint64(value)
    return value


TWIN = Twin()


class TwinTensor(torch.Tensor):
    """A tensor on a device of the twin. It can be detached, cloned, copied to
    the host, and made a Parameter."""

    @staticmethod
    def __new__(
        cls: Any, like: Any, address: int, device: int = 0, owner: Any = None
    ) -> Any:
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            like.shape,
            strides=like.stride(),
            dtype=like.dtype,
            device=f"cuda:{device}",
            requires_grad=like.requires_grad,
        )
        tensor.address = address
        tensor.like = torch.empty_strided(
            like.shape, like.stride(), dtype=like.dtype, device="meta"
        )
        tensor.owner = owner or _Memory(address, device)
        return tensor

    def data_ptr(self) -> int:
        return self.address

    def on_host(self) -> Any:
        """Returns the elements as they are in the twin's memory now."""
        byte_count = _extent_bytes(self.like)
        if byte_count == 0:
            return torch.empty(self.like.shape, dtype=self.like.dtype)
        memory = torch.frombuffer(
            bytearray(TWIN.read_bytes(self.address, byte_count)),
            dtype=torch.uint8,
        ).view(self.like.dtype)
        return memory.as_strided(self.like.shape, self.like.stride(), 0)

    @classmethod
    def __torch_dispatch__(
        cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        aten = torch.ops.aten
        (self, *_) = args
        index = self.device.index
        if func is aten.detach.default:
            return cls(self.like, self.address, index, self.owner)
        if func is aten.clone.default:
            byte_count = _extent_bytes(self.like)
            copy = cls(self.like, _allocate(byte_count, index), index)
            TWIN.copy_on_stream(index, copy.address, self.address, byte_count)
            return copy
        if func is aten._to_copy.default and kwargs["device"].type == "cpu":
            return self.on_host().clone()
        raise NotImplementedError(str(func))


class _Memory:
    """Frees the twin's memory when no tensor uses it, and no queued work of the
    program."""

    def __init__(self, address: int, device: int) -> None:
        self.address = address
        self.device = device

    def __del__(self) -> None:
        TWIN.finish_stream(self.device)
        TWIN.free(self.address)


def _extent_bytes(tensor: Any) -> int:
    if tensor.numel() == 0:
        return 0
    last = sum(
        (extent - 1) * stride
        for extent, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return (last + 1) * tensor.element_size()


def _allocate(byte_count: int, device: int, content: bytes = b"") -> int:
    content = content or b"\xdd" * byte_count
    address: int = TWIN.allocate(device, content, byte_count)
    return address


def on_device(tensor: Any, device: int = 0) -> TwinTensor:
    """Returns a copy of a CPU tensor on a device, with the same strides."""
    byte_count = _extent_bytes(tensor)
    if byte_count == 0:
        return TwinTensor(tensor, _allocate(1, device), device)
    storage = tensor.detach().as_strided(
        (byte_count // tensor.element_size(),), (1,)
    )
    content = storage.contiguous().view(torch.uint8).numpy().tobytes()
    return TwinTensor(tensor, _allocate(byte_count, device, content), device)


def empty(shape: Any, kind: str, device: Any) -> TwinTensor:
    """Stands in for `_torch_arrays.empty`."""
    like = torch.empty(tuple(shape), dtype=getattr(torch, kind), device="meta")
    index = torch.device(device).index
    return TwinTensor(like, _allocate(_extent_bytes(like), index), index)


class _Stream:
    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


@contextlib.contextmanager
def torch_on_twin(device_bytes: int = 1 << 30) -> Iterator[Twin]:
    """Lets torch.cuda and holdfast see the twin's device."""
    from holdfast import _torch_arrays

    TWIN.reset(2)
    TWIN.set_device_bytes_max(device_bytes)

    def index_of(device: Any) -> int:
        return torch.device(device).index or 0

    def mem_get_info(device: Any) -> tuple[int, int]:
        used = TWIN.device_bytes(index_of(device))
        return device_bytes - used, device_bytes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            torch.cuda,
            "current_stream",
            lambda device: _Stream(TWIN.streams.get(index_of(device), 0)),
        )
        patch.setattr(torch.cuda, "mem_get_info", mem_get_info)
        patch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
        patch.setattr(torch.cuda, "max_memory_allocated", lambda device: 0)
        patch.setattr(_torch_arrays, "empty", empty)
        yield TWIN
    TWIN.streams.clear()
    violations = TWIN.violations()
    TWIN.reset(2)
    assert violations == [], violations
