"""Helpers shared by all saves of leaves, with or without a tree."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

from holdfast import _files
from holdfast._future import Future
from holdfast.orbax._checkpointer.paths import handler_path
from holdfast.orbax._leaves.args import SaveArgs
from holdfast.orbax._leaves.limits import ByteLimiter, LimitInFlightBytes
from holdfast.orbax._leaves.param_info import ParamInfo

# dtype name, chunk_byte_size, shard_axes, write_chunk_shape, read_chunk_shape
EngineSaveArgs = tuple[
    str | None,
    int | None,
    tuple[int, ...],
    tuple[int, ...] | None,
    tuple[int, ...] | None,
]

DEFAULT_CONCURRENT_BYTES = 96 * 10**9


def engine_args(args: SaveArgs) -> EngineSaveArgs:
    """Converts save arguments to the engine's form.

    Orbax's own SaveArgs have no chunk shapes.

    Raises:
        AttributeError: the dtype is not a numpy dtype.
    """
    dtype = args.dtype
    name = None
    if dtype is not None:
        # As in Orbax, a dtype without a size, such as `float`, is an error.
        _ = dtype.itemsize
        name = dtype.name
    return (
        name,
        args.chunk_byte_size,
        tuple(args.shard_axes),
        _shape(getattr(args, "write_chunk_shape", None)),
        _shape(getattr(args, "read_chunk_shape", None)),
    )


def check_storable(array: Any) -> None:
    """Checks that an array's dtype can be stored.

    Raises:
        ValueError: the dtype cannot be stored.
    """
    if array.dtype.kind not in "biufcV" or array.dtype.names is not None:
        raise ValueError(
            'Error parsing object member "dtype": Unsupported data type:'
            f' "{array.dtype.name}"'
        )


def _shape(shape: Any) -> tuple[int, ...] | None:
    return None if shape is None else tuple(shape)


def has_any(args: SaveArgs) -> bool:
    """Returns whether any argument is set."""
    # Do not use ==, because numpy's float64 equals None.
    return (
        args.dtype is not None
        or args.chunk_byte_size is not None
        or bool(args.shard_axes)
        or getattr(args, "write_chunk_shape", None) is not None
        or getattr(args, "read_chunk_shape", None) is not None
    )


def data_file_bytes(size: int | None, use_ocdbt: bool = True) -> int | None:
    """Returns the engine's data file size for the caller's option.

    0 means no limit, and None means the engine's default.

    Raises:
        ValueError: the size is negative.
    """
    if size is None or not use_ocdbt:
        return None
    if size < 0:
        raise ValueError(
            "OCDBT target_data_file_size must be >= 0, where 0 means no limit;"
            f" got {size}"
        )
    return size


def budget_options(limiter: ByteLimiter | None) -> dict[str, int]:
    """Returns the engine's budget options for a byte limiter."""
    if not isinstance(limiter, LimitInFlightBytes):
        return {}
    # Orbax's default suits the largest hosts; the engine's default is better.
    if limiter.max_bytes >= DEFAULT_CONCURRENT_BYTES:
        return {}
    return {"memory_bytes": max(1, int(limiter.max_bytes))}


def check_absolute(path: str) -> None:
    """Refuses a relative path, as Orbax's storage does.

    Raises:
        ValueError: the path is relative.
    """
    if not _files.isabs(path):
        raise ValueError(f"Checkpoint path should be absolute. Got {path}")


def as_path(directory: Any) -> Any:
    """Returns the directory as an object that handlers can join names to."""
    if isinstance(directory, str | bytes):
        return handler_path(os.fsdecode(directory))
    return directory


def common_ocdbt_setting(infos: Sequence[ParamInfo]) -> bool:
    """Returns whether all parameters are stored in an OCDBT database.

    Raises:
        ValueError: the parameters differ, or do not have this setting.
    """
    use_ocdbt = infos[0].is_ocdbt_checkpoint
    for info in infos:
        if info.is_ocdbt_checkpoint != use_ocdbt:
            raise ValueError(
                f"OCDBT settings for parameter {info.name} don't match those"
                f" for the rest of parameters: got ({info.is_ocdbt_checkpoint=}"
                f", expected {use_ocdbt=}."
            )
    if use_ocdbt is None:
        raise ValueError("Setting of `use_ocdbt` may not be None.")
    return use_ocdbt


def commit(
    work: Callable[[], Any], infos: Sequence[ParamInfo], name: str
) -> Future[Any]:
    """Returns a future that runs `work` once the directory exists."""

    def run(_: Any) -> Any:
        await_paths_now(infos)
        return work()

    return Future(run, what=name)


def await_paths_now(infos: Sequence[ParamInfo]) -> None:
    """Waits until the parameters' directory exists."""
    if not infos or not hasattr(infos[0]._parent_dir, "await_creation"):
        return

    async def wait() -> None:
        for info in infos:
            await info.await_path_creation()

    asyncio.run(wait())


async def await_paths(infos: Sequence[ParamInfo]) -> None:
    """Waits until the parameters' directories exist."""
    for info in infos:
        await info.await_path_creation()


def args_or_defaults(
    args: Sequence[Any] | None, kind: type, count: int
) -> Sequence[Any]:
    """Returns the arguments, or `count` default arguments."""
    return args or [kind()] * count
