"""Arguments and facts of a leaf: `orbax.checkpoint.type_handlers`.

Handlers of single leaf types are not part of this release: how each type is
saved and restored is fixed.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from holdfast.orbax._jax import is_jax_array, require_jax
from holdfast.orbax._later import attribute_error

PLACEHOLDER = ...
PLACEHOLDER_TYPESTR = "placeholder"
JAX_ARRAY_TYPE_STR = "jax.Array"


def is_placeholder(value: Any) -> bool:
    """True for `...`, a leaf to be left alone."""
    return value is PLACEHOLDER


@dataclasses.dataclass
class SaveArgs:
    """How one leaf is saved.

    Attributes:
        aggregate: ignored.
        dtype: a numpy dtype to store instead of the leaf's own.
        chunk_byte_size: upper bound of a chunk's decoded bytes.
        shard_axes: axes to split first when chunks are made smaller.
    """

    aggregate: bool = False
    dtype: Any | None = None
    chunk_byte_size: int | None = None
    shard_axes: tuple[int, ...] = ()


@dataclasses.dataclass
class RestoreArgs:
    """How one leaf is restored.

    Attributes:
        restore_type: np.ndarray, int, float, str, jax.Array; None: as saved.
        dtype: cast to this numpy dtype; None: as stored.
    """

    restore_type: Any | None = None
    dtype: Any | None = None


def _jax_array_type() -> Any:
    return require_jax("ArrayRestoreArgs").Array


@dataclasses.dataclass
class ArrayRestoreArgs(RestoreArgs):
    """How one leaf is restored as a jax.Array.

    Attributes:
        mesh: with `mesh_axes`, gives a NamedSharding.
        mesh_axes: a PartitionSpec.
        sharding: a jax Sharding, a Format, or ShardingMetadata.
        global_shape: in elements; None: as stored.
        shape: the same as `global_shape`.
        strict: refuse a shape that differs from the stored one; else pad with
            zeros, or cut, at the end of each dimension.

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
    """As `ArrayRestoreArgs`; one process reads every replica itself."""

    single_replica_sharding: Any | None = None


@dataclasses.dataclass(eq=False)
class ParamInfo:
    """What a save or restore knows about a parameter by itself."""

    name: str
    parent_dir: Any | None = None
    skip_deserialize: bool | None = None
    is_ocdbt_checkpoint: bool | None = None
    use_zarr3: bool | None = False
    value_typestr: str | None = None
    write_shape: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        # Messages that quote it read as Orbax's.
        return (
            "<orbax.checkpoint._src.serialization.types.ParamInfo object at"
            f" {id(self):#x}>"
        )


def is_ocdbt_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether the arrays of the item at `path` lie in an OCDBT database."""
    return os.path.exists(os.path.join(os.fspath(path), "manifest.ocdbt"))


def is_supported_empty_value(value: Any) -> bool:
    """True for None and for an empty dict, list or tuple."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return False
    return value is None or (
        isinstance(value, dict | list | tuple) and not value
    )


def is_supported_type(value: Any) -> bool:
    """True for what can be a leaf of a saved tree."""
    kinds = (str, int, float, np.number, np.ndarray, bytes)
    return (
        isinstance(value, kinds)
        or is_jax_array(value)
        or is_supported_empty_value(value)
    )


def supported_types() -> list[Any]:
    """The types of leaves that can be saved."""
    jax = require_jax("the list of supported types")
    kinds = [int, float, bytes, np.number, np.ndarray, jax.Array, str]
    return [*kinds, type(PLACEHOLDER)]


_LATER = frozenset(
    {
        "ArrayHandler",
        "NumpyHandler",
        "ScalarHandler",
        "SingleReplicaArrayHandler",
        "StringHandler",
        "TypeHandler",
        "TypeHandlerRegistry",
        "check_input_arguments",
        "create_type_handler_registry",
        "get_cast_tspec_deserialize",
        "get_cast_tspec_serialize",
        "get_json_tspec_read",
        "get_json_tspec_write",
        "get_ts_context",
        "get_type_handler",
        "has_type_handler",
        "merge_ocdbt_per_process_files",
        "register_standard_handlers_with_options",
        "register_type_handler",
    }
)


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, _LATER)
