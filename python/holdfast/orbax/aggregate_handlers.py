"""A whole tree in one file, as old checkpoints keep small leaves:
`orbax.checkpoint.aggregate_handlers`.

New checkpoints have no such file; these classes read and make old ones.
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
            path: the file's.
            item: a pytree.
        """

    @abc.abstractmethod
    def deserialize(self, path: Any) -> PyTree:
        """The tree in the file at `path`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the use of the handler."""


class MsgpackHandler(AggregateHandler):
    """flax's dialect of msgpack. Thread-safety: any thread."""

    def __init__(
        self,
        primary_host: int | None = 0,
        pytree_metadata_options: PyTreeMetadataOptions = (
            PYTREE_METADATA_OPTIONS
        ),
    ) -> None:
        """Makes a handler.

        Args:
            primary_host: the process that writes; None: each.
            pytree_metadata_options: rich types have no form in such a file.
        """
        self._primary_host = primary_host
        self._pytree_metadata_options = pytree_metadata_options

    async def serialize(self, path: Any, item: PyTree) -> Future[None]:
        """Returns a future that writes the file, and replaces an old one.

        The leaves are arrays of any dtype and shape, numbers, texts and None;
        they are copied before this returns.

        Raises:
            ValueError: a leaf that the format does not have.
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
        """The tree in the file: dicts and lists of numpy arrays and numbers.

        Values that are stored elsewhere are texts, `PLACEHOLDER://name`.

        Raises:
            FileNotFoundError: there is no file.
            ValueError: it is damaged.
        """
        return _engine.read_aggregate(os.fspath(path))

    def close(self) -> None:
        """Does nothing."""
