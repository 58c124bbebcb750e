"""ParamInfo: describes a leaf to its handler, in addition to the caller's
arguments."""

from __future__ import annotations

import copy
import enum
from typing import Any, Protocol, cast

from holdfast.orbax._leaves.limits import ByteLimiter


class TransferPriority(enum.Enum):
    """When a jax.Array is copied to the host during a save.

    SYNCHRONOUS arrays are copied before the call returns. If
    `save_device_host_concurrent_gb` limits the copies, the other arrays are
    copied in the background: first ASYNCHRONOUS_PRIORITIZED, then
    ASYNCHRONOUS_DEPRIORITIZED.
    """

    SYNCHRONOUS = 0
    ASYNCHRONOUS_PRIORITIZED = 1
    ASYNCHRONOUS_DEPRIORITIZED = 2
    UNKNOWN = 3


class IsPrioritizedKeyFn(Protocol):
    """Returns whether the leaf at a key path is prioritized."""

    def __call__(self, keypath: tuple[Any, ...]) -> Any: ...


class ParamInfo:
    """Describes one parameter to its handler.

    Attributes:
        name: the parameter's keys, joined with dots.
        keypath: jax's key path in the tree; None if there is no tree.
        skip_deserialize: whether handlers skip the parameter.
        byte_limiter: limits the bytes being written or read.
        device_host_byte_limiter: limits the bytes being copied from devices.
        is_ocdbt_checkpoint: whether arrays are stored in an OCDBT database.
        use_compression: whether chunks are compressed with zstd.
        use_zarr3: whether arrays are zarr 3 instead of zarr 2.
        ocdbt_target_data_file_size: target size of data files in bytes; 0 means
            no limit.
        ts_context: resources of storage drivers; not used by the engine.
        value_typestr: the handler's type string for the value.
        enable_pinned_host_transfer: copy through pinned memory.
        raise_array_data_missing_error: raise for a missing chunk instead of
            reading zeros.
        write_shape: the shape that one device wrote, in elements.
        is_prioritized_key_fn: prioritizes copies from devices.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        parent_dir: Any | None = None,
        path: Any | None = None,
        keypath: tuple[Any, ...] | None = None,
        skip_deserialize: bool | None = None,
        byte_limiter: ByteLimiter | None = None,
        device_host_byte_limiter: ByteLimiter | None = None,
        is_ocdbt_checkpoint: bool | None = None,
        use_compression: bool | None = True,
        use_zarr3: bool | None = False,
        ocdbt_target_data_file_size: int | None = None,
        ts_context: Any | None = None,
        value_typestr: str | None = None,
        enable_pinned_host_transfer: bool = False,
        raise_array_data_missing_error: bool = True,
        write_shape: tuple[int, ...] | None = None,
        is_prioritized_key_fn: IsPrioritizedKeyFn | None = None,
    ) -> None:
        # The name is None only if a handler of complete trees makes the object.
        self.name: str = cast(str, name)
        self._parent_dir: Any = parent_dir
        if path is None and parent_dir is not None:
            path = parent_dir / self.name
        self._path = path
        self.keypath = keypath
        self.skip_deserialize = skip_deserialize
        self.byte_limiter = byte_limiter
        self.device_host_byte_limiter = device_host_byte_limiter
        self.is_ocdbt_checkpoint = is_ocdbt_checkpoint
        self.use_compression = use_compression
        self.use_zarr3 = use_zarr3
        self.ocdbt_target_data_file_size = ocdbt_target_data_file_size
        self.ts_context = ts_context
        self.value_typestr = value_typestr
        self.enable_pinned_host_transfer = enable_pinned_host_transfer
        self.raise_array_data_missing_error = raise_array_data_missing_error
        self.write_shape = write_shape
        self.is_prioritized_key_fn = is_prioritized_key_fn

    @property
    def parent_dir(self) -> Any:
        """The item's directory.

        Raises:
            ValueError: the directory does not exist yet.
        """
        if _is_awaited(self._parent_dir):
            raise ValueError(
                "parent_dir is a PathAwaitingCreation and has not been resolved"
                " yet. Call `await info.await_path_creation()` first."
            )
        return self._parent_dir

    @parent_dir.setter
    def parent_dir(self, value: Any) -> None:
        self._parent_dir = value

    @property
    def path(self) -> Any:
        """The path of the parameter's own files: `parent_dir / name`.

        Raises:
            ValueError: the directory does not exist yet, or there is no path.
        """
        if _is_awaited(self._path):
            raise ValueError(
                "path is a PathAwaitingCreation and has not been resolved yet."
                " Call `await info.await_path_creation()` first."
            )
        if self._path is None:
            raise ValueError("path is None.")
        return self._path

    @path.setter
    def path(self, value: Any) -> None:
        self._path = value

    def replace(self, **kwargs: Any) -> ParamInfo:
        """Returns a copy with changed attributes."""
        new = copy.copy(self)
        for name, value in kwargs.items():
            setattr(new, name, value)
        return new

    async def await_path_creation(self) -> None:
        """Waits until `parent_dir` exists."""
        if _is_awaited(self._parent_dir):
            self._parent_dir = await self._parent_dir.await_creation()
            self._path = self._parent_dir / self.name

    def __repr__(self) -> str:
        # Error messages that quote this must match Orbax's.
        return (
            "<orbax.checkpoint._src.serialization.types.ParamInfo object at"
            f" {id(self):#x}>"
        )


def _is_awaited(path: Any) -> bool:
    return hasattr(path, "await_creation")
