"""The results of `metadata`: abstract leaves, and facts about the checkpoint.
"""

from __future__ import annotations

import dataclasses
import datetime
import pprint
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from holdfast import _gc
from holdfast.orbax._handlers.pytree_metadata import Describer
from holdfast.orbax._restore.source import Source, open_item
from holdfast.orbax.metadata.sharding import ShardingMetadata
from holdfast.orbax.metadata.value import StorageMetadata
from holdfast.orbax.options import PyTreeMetadataOptions
from holdfast.orbax.tree_paths import add_leaf_type

T = TypeVar("T")
PyTreeMetadata: TypeAlias = Any


@dataclasses.dataclass
class NumpyMetadata:
    """A stored numpy array; as an abstract leaf, requests a numpy array.

    Attributes:
        shape: the array's shape, in elements.
        dtype: the stored dtype.
        storage_metadata: how the array is stored.
    """

    shape: tuple[int, ...] | None
    dtype: Any | None
    storage_metadata: StorageMetadata | None


@dataclasses.dataclass
class ArrayMetadata:
    """A stored jax.Array; as an abstract leaf, requests a jax.Array.

    Attributes:
        shape: the array's shape, in elements.
        dtype: the stored dtype; uint32 for PRNG keys.
        sharding_metadata: the recorded sharding, without devices.
        storage_metadata: how the array is stored.
    """

    shape: tuple[int, ...] | None
    dtype: Any | None
    sharding_metadata: ShardingMetadata | None
    storage_metadata: StorageMetadata | None

    @property
    def sharding(self) -> Any | None:
        """The recorded jax Sharding, over this process's devices."""
        if self.sharding_metadata is None:
            return None
        return self.sharding_metadata.to_jax_sharding()


add_leaf_type(NumpyMetadata)
add_leaf_type(ArrayMetadata)


def read_tree_metadata(
    directory: Any, options: PyTreeMetadataOptions | None = None
) -> Any:
    """Returns the tree of a pytree item, with an abstract leaf for each stored
    leaf.

    A scalar becomes a zero of its type, and a string becomes "string". Empty
    containers do not change.

    Raises:
        FileNotFoundError: the item has no `_METADATA`.
        ValueError: the metadata cannot be read.
    """
    with _gc.paused():
        return _describe(
            open_item(directory), options or PyTreeMetadataOptions()
        )


def _describe(source: Source, options: PyTreeMetadataOptions) -> Any:
    describe = _AbstractLeaves(source, options).describe
    leaves = [describe(i, row) for i, row in enumerate(source.rows)]
    return source.tree_of(leaves, options)


class _AbstractLeaves(Describer):
    """Describes leaves by the abstract leaves that `load` accepts."""

    def array(
        self,
        name: str,
        value_type: str,
        shape: Any,
        sharding: Any,
        dtype: Any,
        storage: StorageMetadata,
    ) -> Any:
        if value_type == "np.ndarray":
            return NumpyMetadata(shape, dtype, storage)
        return ArrayMetadata(shape, dtype, sharding, storage)

    def scalar(self, name: str, dtype: Any) -> Any:
        return np.zeros((), dtype).item()

    def string(self, name: str) -> Any:
        return "string"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CheckpointMetadata(Generic[T]):
    """The facts about a checkpoint, without its values.

    `metadata`, or the complete object, may be passed to `load` as the abstract
    state.

    Attributes:
        path: the checkpoint's path.
        metadata: a tree of abstract leaves, or a dict of such trees.
        init_timestamp_nsecs: start of the save, nanoseconds since 1970.
        commit_timestamp_nsecs: end of the save, nanoseconds since 1970.
        custom_metadata: the JSON object that was passed to the save.
    """

    path: Any
    _: dataclasses.KW_ONLY
    metadata: T
    init_timestamp_nsecs: int | None = None
    commit_timestamp_nsecs: int | None = None
    custom_metadata: Any | None = None

    @property
    def init_timestamp(self) -> datetime.datetime | None:
        """Start of the save, in UTC."""
        return _datetime(self.init_timestamp_nsecs)

    @property
    def commit_timestamp(self) -> datetime.datetime | None:
        """Time of the commit, in UTC."""
        return _datetime(self.commit_timestamp_nsecs)

    def _facts(self) -> dict[str, str]:
        names = (
            "metadata",
            "init_timestamp_nsecs",
            "commit_timestamp_nsecs",
            "custom_metadata",
        )
        return {name: str(getattr(self, name)) for name in names}

    def __repr__(self) -> str:
        return f"CheckpointMetadata({pprint.pformat(self._facts())})"


def _datetime(nsecs: int | None) -> datetime.datetime | None:
    if nsecs is None:
        return None
    return datetime.datetime.fromtimestamp(
        nsecs / 1e9, tz=datetime.timezone.utc
    )
