"""The caller's arguments for one leaf of a save or a restore."""

from __future__ import annotations

import abc
import dataclasses
import time
from typing import Any

import numpy as np

from holdfast._log import log
from holdfast.orbax._compat.orbax_classes import stands_for_orbaxs
from holdfast.orbax._devices.optional_jax import require_jax

PLACEHOLDER = ...
PLACEHOLDER_TYPESTR = "placeholder"
JAX_ARRAY_TYPE_STR = "jax.Array"

_WARNING_PERIOD_SECONDS = 12 * 60 * 60.0


def is_placeholder(value: Any) -> bool:
    """Returns whether the value is `...`, a leaf that is neither saved nor
    restored."""
    return value is PLACEHOLDER


class _RareWarning:
    """A warning that is logged at most every 12 hours."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next_seconds = 0.0

    def log(self) -> None:
        now_seconds = time.monotonic()
        if now_seconds >= self._next_seconds:
            self._next_seconds = now_seconds + _WARNING_PERIOD_SECONDS
            log.warning(self._text)


_AGGREGATE_IS_IGNORED = _RareWarning(
    "The `aggregate` option is deprecated and will be ignored."
)
_SINGLE_REPLICA_SHARDING_IS_IGNORED = _RareWarning(
    "`single_replica_sharding` is deprecated and will be removed in a future"
    " version. It is not needed, as Orbax code will automatically construct a"
    " single-replica sharding used for restoring before broadcasting."
)


@stands_for_orbaxs
@dataclasses.dataclass
class SaveArgs(metaclass=abc.ABCMeta):  # noqa: B024
    """How one leaf is saved.

    Attributes:
        aggregate: deprecated; ignored, with a warning.
        dtype: a numpy dtype to store instead of the leaf's own dtype.
        chunk_byte_size: maximum size of an uncompressed chunk, in bytes.
        shard_axes: axes to split first when chunks are made smaller.
        write_chunk_shape: shape of one written object, in elements; must divide
            the shard's shape. Needs zarr 3.
        read_chunk_shape: shape of the chunks inside a written object; must
            divide `write_chunk_shape`. Needs zarr 3.
    """

    aggregate: bool = False
    dtype: Any | None = None
    chunk_byte_size: int | None = None
    shard_axes: tuple[int, ...] = ()
    # Messages that quote the arguments leave out these two fields.
    write_chunk_shape: tuple[int, ...] | None = dataclasses.field(
        default=None, repr=False
    )
    read_chunk_shape: tuple[int, ...] | None = dataclasses.field(
        default=None, repr=False
    )

    def __post_init__(self) -> None:
        if self.aggregate:
            _AGGREGATE_IS_IGNORED.log()


@stands_for_orbaxs
@dataclasses.dataclass
class RestoreArgs(metaclass=abc.ABCMeta):  # noqa: B024
    """How one leaf is restored.

    Attributes:
        restore_type: np.ndarray, int, float, str, jax.Array, or any type that
            has a handler; None means the saved type.
        dtype: cast to this numpy dtype; None means the stored dtype.
    """

    restore_type: Any | None = None
    dtype: Any | None = None


def _jax_array_type() -> Any:
    return require_jax("ArrayRestoreArgs").Array


@stands_for_orbaxs
@dataclasses.dataclass
class ArrayRestoreArgs(RestoreArgs):
    """How one leaf is restored as a jax.Array.

    Attributes:
        mesh: with `mesh_axes`, defines a NamedSharding.
        mesh_axes: a PartitionSpec.
        sharding: a jax Sharding, a Format, or ShardingMetadata.
        global_shape: in elements; None means the stored shape.
        shape: a synonym of `global_shape`.
        strict: refuse a shape that differs from the stored shape. If False, pad
            with zeros or truncate at the end of each dimension.

    Raises:
        ValueError: `shape` and `global_shape` differ.
    """

    restore_type: Any | None = dataclasses.field(
        default_factory=_jax_array_type
    )
    mesh: Any | None = None
    mesh_axes: Any | None = None
    sharding: Any | None = None
    global_shape: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    strict: bool = True

    def __post_init__(self) -> None:
        if self.shape is None:
            self.shape = self.global_shape
        elif self.global_shape is None:
            self.global_shape = self.shape
        elif self.shape != self.global_shape:
            raise ValueError(
                "If `shape` and `global_shape` are both provided, they must"
                " match."
            )


@dataclasses.dataclass
class SingleReplicaArrayRestoreArgs(ArrayRestoreArgs):
    """How SingleReplicaArrayHandler restores one leaf; see `ArrayRestoreArgs`.

    Attributes:
        single_replica_sharding: deprecated; the devices of a replica are
            derived from `sharding`.
        replica_axis_index: unused; replaced by the handler's argument.
        primary_replica_id: unused; replaced by the handler's argument.
    """

    single_replica_sharding: Any | None = None
    # Messages that quote the arguments leave out these two fields.
    replica_axis_index: int | None = dataclasses.field(default=0, repr=False)
    primary_replica_id: int | None = dataclasses.field(default=0, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.single_replica_sharding is not None:
            _SINGLE_REPLICA_SHARDING_IS_IGNORED.log()


def default_restore_type(args: RestoreArgs) -> Any:
    """Returns the type to which a leaf without a recorded type is restored.

    Raises:
        ValueError: `args` are not RestoreArgs.
    """
    if isinstance(args, ArrayRestoreArgs):
        return _jax_array_type()
    if isinstance(args, RestoreArgs):
        return np.ndarray
    raise ValueError(f"Unsupported restore_args type: {type(args)}")
