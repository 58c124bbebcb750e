"""Stores a tree in one file: `orbax.checkpoint.aggregate_handlers`.

Old checkpoints keep small leaves in such a file; new checkpoints do not.
"""

from __future__ import annotations

import abc
import os
from typing import Any

from holdfast import _engine
from holdfast._adapt import adapt
from holdfast._future import Future
from holdfast.orbax.multihost import is_primary_host
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    PyTreeMetadataOptions,
)
from holdfast.orbax.tree_paths import serialize_tree

PyTree = Any


class AggregateHandler(abc.ABC):
    """Writes and reads a pytree as one file."""

    @abc.abstractmethod
    async def serialize(self, path: Any, item: PyTree) -> Future[None]:
        """Returns a future that writes `item` to `path`.

        Args:
            path: the file's path.
            item: a pytree.
        """

    @abc.abstractmethod
    def deserialize(self, path: Any) -> PyTree:
        """Returns the tree in the file at `path`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Releases the handler's resources."""


class MsgpackHandler(AggregateHandler):
    """Stores trees in flax's msgpack dialect. Thread-safety: any thread."""

    def __init__(
        self,
        primary_host: int | None = 0,
        pytree_metadata_options: PyTreeMetadataOptions = (
            PYTREE_METADATA_OPTIONS
        ),
    ) -> None:
        """Makes a handler.

        Args:
            primary_host: the process that writes; None means every process.
            pytree_metadata_options: must not ask for rich types, which this
                format cannot store.
        """
        self._primary_host = primary_host
        self._pytree_metadata_options = pytree_metadata_options

    async def serialize(self, path: Any, item: PyTree) -> Future[None]:
        """Returns a future that writes or replaces the file.

        Leaves may be arrays of any dtype and shape, numbers, strings and None;
        they are copied before the call returns.

        Raises:
            ValueError: the format cannot store a leaf.
        """
        if self._pytree_metadata_options.support_rich_types:
            raise NotImplementedError(
                "Orbax does not support rich typed metadata in legacy msgpack"
                " checkpoint format. Please set"
                " PyTreeMetadataOptions.support_rich_types to False."
            )
        tree = _engine.build_tree(
            serialize_tree(item, keep_empty_nodes=True),
            adapt=adapt,
            snapshot=True,
        )
        target = os.fspath(path)
        is_primary = is_primary_host(self._primary_host)

        def write(_: Any) -> None:
            if is_primary:
                _engine.write_aggregate(target, tree)

        return Future(write, what="msgpack save")

    def deserialize(self, path: Any) -> PyTree:
        """Returns the file's tree: dicts and lists of numpy arrays and numbers.

        A value stored elsewhere is represented by a string,
        `PLACEHOLDER://name`.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: the file is damaged.
        """
        return _engine.read_aggregate(os.fspath(path))

    def close(self) -> None:
        """Does nothing."""
