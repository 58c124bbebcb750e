"""Handlers for a single random key of jax or numpy."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

from holdfast.orbax._devices.optional_jax import (
    is_jax_array,
    is_prng_key_dtype,
    require_jax,
)
from holdfast.orbax._handlers.base import ORBAX_HANDLERS, AsyncCheckpointHandler
from holdfast.orbax._handlers.pytree_save import wait_for_all
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax.array_handler import ArrayRestoreArgs, ArraySaveArgs
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)
from holdfast.orbax.composite_checkpoint_handler import (
    CompositeArgs,
    CompositeCheckpointHandler,
)
from holdfast.orbax.json_handler import JsonRestoreArgs, JsonSaveArgs
from holdfast.orbax.pytree_checkpoint_handler import (
    PyTreeRestoreArgs,
    PyTreeSaveArgs,
)
from holdfast.orbax.type_handlers import RestoreArgs, SaveArgs

_MODULE = f"{ORBAX_HANDLERS}.random_key_checkpoint_handler"


class BaseRandomKeyCheckpointHandler(AsyncCheckpointHandler):
    """Saves a key and its JSON metadata as two items in one directory."""

    def __init__(self, key_name: str) -> None:
        """Makes a handler.

        Args:
            key_name: name of the key's item.
        """
        self._key_name = key_name
        self._handler = CompositeCheckpointHandler()

    @abc.abstractmethod
    def checkpoint_restore_args(self, args: Any) -> CheckpointArgs:
        """Returns the restore arguments for the key's item."""

    @abc.abstractmethod
    def post_restore(self, item: Any, metadata: Any) -> Any:
        """Builds the key from the stored data and the JSON metadata."""

    @abc.abstractmethod
    def checkpoint_save_args(
        self, args: Any
    ) -> tuple[CheckpointArgs, JsonSaveArgs]:
        """Returns the save arguments for the key's item and the JSON item."""

    def save(self, directory: Any, *args: Any, **kwargs: Any) -> None:
        """Saves the key.

        Args:
            directory: the directory that will hold the two items' directories.
            *args: the handler's arguments.
            **kwargs: the handler's arguments, given as `args=`.

        Raises:
            TypeError: the value is not a key.
            OSError: files cannot be written.
        """
        wait_for_all(run_sync(self.async_save(directory, *args, **kwargs)))

    async def async_save(self, directory: Any, args: Any) -> Any:
        """Copies the key, and returns futures that write it; see `save`."""
        key_args, document_args = self.checkpoint_save_args(args)
        items = {
            self._key_name: key_args,
            f"{self._key_name}_metadata": document_args,
        }
        return await self._handler.async_save(directory, CompositeArgs(**items))

    def finalize(self, directory: Any) -> None:
        """Commits the two items."""
        self._handler.finalize(directory)

    def restore(self, directory: Any, args: Any) -> Any:
        """Restores the key.

        Args:
            directory: the directory that holds the two items' directories.
            args: the handler's arguments.

        Raises:
            KeyError: an item is missing.
            FileNotFoundError: a file is missing.
            ValueError: the key cannot be read as requested, or is damaged.
        """
        metadata_name = f"{self._key_name}_metadata"
        items = {
            self._key_name: self.checkpoint_restore_args(args),
            metadata_name: JsonRestoreArgs(),
        }
        restored = self._handler.restore(directory, CompositeArgs(**items))
        return self.post_restore(
            restored[self._key_name], restored[metadata_name]
        )

    def close(self) -> None:
        self._handler.close()


class JaxRandomKeyCheckpointHandler(BaseRandomKeyCheckpointHandler):
    """Saves and restores a typed or untyped jax key.

    A restored typed key always has jax's default implementation.
    """

    TYPESTR = f"{_MODULE}.JaxRandomKeyCheckpointHandler"

    def __init__(self, key_name: str | None = None) -> None:
        """Makes a handler.

        Args:
            key_name: name of the key's item; "jax_random_key" by default.
        """
        super().__init__(key_name or "jax_random_key")

    def checkpoint_save_args(
        self, args: JaxRandomKeySaveArgs
    ) -> tuple[CheckpointArgs, JsonSaveArgs]:
        if not is_jax_array(args.item):
            raise TypeError(f"Unsupported type: {type(args.item)}.")
        key_data = require_jax("a PRNG key").random.key_data(args.item)
        document = {"typed": is_prng_key_dtype(args.item.dtype)}
        return ArraySaveArgs(key_data, args.save_args), JsonSaveArgs(document)

    def checkpoint_restore_args(
        self, args: JaxRandomKeyRestoreArgs
    ) -> CheckpointArgs:
        return ArrayRestoreArgs(restore_args=args.restore_args)

    def post_restore(self, item: Any, metadata: Any) -> Any:
        if not metadata["typed"]:
            return item
        return require_jax("a typed PRNG key").random.wrap_key_data(item)


@register_with_handler(JaxRandomKeyCheckpointHandler, for_save=True)
@dataclasses.dataclass
class JaxRandomKeySaveArgs(CheckpointArgs):
    """The key to save.

    Attributes:
        item: a jax random key.
        save_args: how to store the key's data.
    """

    item: Any
    save_args: SaveArgs | None = None


@register_with_handler(JaxRandomKeyCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class JaxRandomKeyRestoreArgs(CheckpointArgs):
    """How to restore the key.

    Attributes:
        restore_args: type, dtype and sharding of the key's data.
    """

    restore_args: RestoreArgs | None = None


class NumpyRandomKeyCheckpointHandler(BaseRandomKeyCheckpointHandler):
    """Saves and restores a numpy generator's state, a tuple or a dict."""

    TYPESTR = f"{_MODULE}.NumpyRandomKeyCheckpointHandler"

    def __init__(self, key_name: str | None = None) -> None:
        """Makes a handler.

        Args:
            key_name: name of the key's item; "np_random_key" by default.
        """
        super().__init__(key_name or "np_random_key")

    def checkpoint_save_args(
        self, args: NumpyRandomKeySaveArgs
    ) -> tuple[CheckpointArgs, JsonSaveArgs]:
        if not isinstance(args.item, tuple | dict):
            raise TypeError(f"Unsupported type: {type(args.item)}.")
        document = {"legacy": isinstance(args.item, tuple)}
        return PyTreeSaveArgs(args.item), JsonSaveArgs(document)

    def checkpoint_restore_args(
        self, args: NumpyRandomKeyRestoreArgs
    ) -> CheckpointArgs:
        return PyTreeRestoreArgs()

    def post_restore(self, item: Any, metadata: Any) -> Any:
        return tuple(item) if metadata["legacy"] else item


@register_with_handler(NumpyRandomKeyCheckpointHandler, for_save=True)
@dataclasses.dataclass
class NumpyRandomKeySaveArgs(CheckpointArgs):
    """The state to save: `np.random.get_state`'s tuple (`legacy`) or dict."""

    item: tuple[Any, ...] | dict[str, Any]


@register_with_handler(NumpyRandomKeyCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class NumpyRandomKeyRestoreArgs(CheckpointArgs):
    """The arguments of `restore`, which has no options."""
