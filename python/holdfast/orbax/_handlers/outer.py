"""Handlers that delegate their work to another handler."""

from __future__ import annotations

import abc
from typing import Any, Generic, TypeVar

from holdfast.orbax._handlers.base import AsyncCheckpointHandler
from holdfast.orbax.metadata.tree import TreeMetadata

_SaveArgs = TypeVar("_SaveArgs")


class OuterHandler(AsyncCheckpointHandler, Generic[_SaveArgs]):
    """Saves and restores a tree with another handler, but has its own
    arguments.

    Thread-safety: one call at a time.
    """

    _impl: Any

    @abc.abstractmethod
    def _impl_args(
        self, item: Any, save_args: Any, args: _SaveArgs | None
    ) -> Any:
        """Makes the other handler's arguments from the arguments of `save`.

        Raises:
            ValueError: the tree cannot be saved.
        """

    def save(
        self,
        directory: Any,
        item: Any | None = None,
        save_args: Any | None = None,
        args: _SaveArgs | None = None,
    ) -> None:
        """Writes the item's files into `directory`, which exists.

        Args:
            directory: the absolute path, as any path-like object.
            item: the tree, if `args` is not given.
            save_args: options for the leaves, if `args` is not given.
            args: the tree and its options.

        Raises:
            ValueError: the tree cannot be saved, or the path is relative.
            TypeError: `custom_metadata` is not a JSON value.
            OSError: the files cannot be written.
            Exception: any error from a type handler.
        """
        self._impl.save(directory, args=self._impl_args(item, save_args, args))

    async def async_save(
        self,
        directory: Any,
        item: Any | None = None,
        save_args: Any | None = None,
        args: _SaveArgs | None = None,
    ) -> Any:
        """Copies the tree, and returns futures that write the files.

        The tree is copied before the call returns. Arguments and errors are the
        same as for `save`.
        """
        return await self._impl.async_save(
            directory, args=self._impl_args(item, save_args, args)
        )

    def metadata(self, directory: Any) -> TreeMetadata:
        """Returns the metadata of each leaf, without reading any values.

        Raises:
            FileNotFoundError: the item has no `_METADATA`.
            ValueError: the metadata cannot be read.
        """
        metadata: TreeMetadata = self._impl.metadata(directory)
        return metadata

    def finalize(self, directory: Any) -> None:
        """Merges databases that are not merged yet, and validates the item.

        The primary calls this after all processes have written.

        Args:
            directory: the item's directory.

        Raises:
            ValueError: the processes' data do not match.
        """
        self._impl.finalize(directory)

    def close(self) -> None:
        """Closes the handler."""
        self._impl.close()
