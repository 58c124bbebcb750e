"""CompositeCheckpointHandler: several items, each in its own directory."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from holdfast import _files, errors
from holdfast._log import log
from holdfast.orbax._checkpointer.paths import handler_path
from holdfast.orbax._checkpointer.pending import CommitOptions
from holdfast.orbax._devices.monitoring import timed
from holdfast.orbax._handlers.base import (
    ORBAX_HANDLERS,
    AsyncCheckpointHandler,
    CheckpointHandler,
)
from holdfast.orbax._handlers.items import ItemHandlers
from holdfast.orbax._handlers.pytree_save import futures_of, wait_for_all
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._trees.composite import Composite
from holdfast.orbax.atomicity import TemporaryPathBase, create_all
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    get_handler_type,
    get_registered_args_cls,
    register_with_handler,
    typestr_of,
)
from holdfast.orbax.handler_registration import CheckpointHandlerRegistry
from holdfast.orbax.metadata.step import (
    StepMetadata,
    check_none_is_gone,
    deserialize,
    read_step_metadata,
)
from holdfast.orbax.options import (
    AsyncOptions,
    AtomicityOptions,
    FileOptions,
    MultiprocessingOptions,
)

_UNKNOWN_ITEM = (
    'Item "{}" was found in the checkpoint, but could not be restored. Please'
    " provide a `CheckpointHandlerRegistry`, or call `restore` with an"
    " appropriate `CheckpointArgs` subclass."
)


@dataclasses.dataclass
class CompositeOptions:
    """How items are saved.

    Attributes:
        multiprocessing_options: which processes save together.
        temporary_path_class: creates and finalizes the items' directories.
        file_options: the modes of these directories.
        atomicity_options: whether items are committed by a rename or by a
            marker.
        async_options: ignored; accepted because Orbax has it. The directories
            are created immediately.
    """

    multiprocessing_options: MultiprocessingOptions = dataclasses.field(
        default_factory=MultiprocessingOptions
    )
    temporary_path_class: Any | None = None
    file_options: FileOptions | None = None
    atomicity_options: AtomicityOptions | None = None
    async_options: AsyncOptions | None = None


@dataclasses.dataclass
class _SavedItem:
    """An item that is being saved.

    Attributes:
        handler: writes the item.
        temporary: the item's directory until `finalize`.
    """

    handler: Any
    temporary: Any

    async def start(self, args: CheckpointArgs) -> list[Any] | None:
        """Lets the handler copy the item; returns the futures that write it."""
        directory = self.temporary.get()
        if isinstance(self.handler, AsyncCheckpointHandler):
            futures: list[Any] | None = await self.handler.async_save(
                directory, args=args
            )
            return futures
        self.handler.save(directory, args=args)
        return None

    def finalize(self) -> None:
        """Commits the item."""
        self.handler.finalize(self.temporary.get())
        if isinstance(self.temporary, TemporaryPathBase):
            # Committing the checkpoint makes the item durable.
            self.temporary.publish()
        else:
            run_sync(self.temporary.finalize())


class CompositeCheckpointHandler(AsyncCheckpointHandler):
    """Saves and restores named items, each with its own handler.

    An item's handler is given to the constructor, or determined by the
    arguments of the first save or restore, or by `_CHECKPOINT_METADATA`.

    Thread-safety: one call at a time.
    """

    TYPESTR = (
        f"{ORBAX_HANDLERS}.composite_checkpoint_handler"
        ".CompositeCheckpointHandler"
    )

    def __init__(
        self,
        *item_names: str,
        composite_options: CompositeOptions | None = None,
        handler_registry: CheckpointHandlerRegistry | None = None,
        **items_and_handlers: CheckpointHandler | None,
    ) -> None:
        """Makes a handler.

        Args:
            *item_names: items whose handlers the first save or restore
                determines.
            composite_options: how items are saved.
            handler_registry: handlers of items and argument classes; copied.
            **items_and_handlers: handlers by the names of their items.

        Raises:
            ValueError: both a registry and items are given.
        """
        given = {
            "items_and_handlers": items_and_handlers,
            "item_names": item_names,
        }
        for name, value in given.items():
            if handler_registry is not None and value:
                raise ValueError(
                    f"Both `handler_registry` and `{name}` were provided."
                    " Please specify only one of the two."
                )
        self._handlers = ItemHandlers(
            item_names, items_and_handlers, handler_registry
        )
        options = composite_options or CompositeOptions()
        self._multiprocessing_options = options.multiprocessing_options
        self._primary_host = options.multiprocessing_options.primary_host
        self._options = CommitOptions(
            options.file_options or FileOptions(),
            options.atomicity_options,
            temporary_path_class=options.temporary_path_class,
        )
        # Items that were saved but are not finalized yet.
        self._saving: dict[str, _SavedItem] = {}

    @property
    def _handler_registry(self) -> CheckpointHandlerRegistry:
        return self._handlers.registry

    def save(self, directory: Any, args: CompositeArgs) -> None:
        """Saves items; they appear in `directory` after `finalize`.

        Args:
            directory: the existing directory that will hold the items'
                directories.
            args: the items' arguments.

        Raises:
            ValueError: an item's handler is unknown or does not accept the
                arguments.
            Exception: any error from an item's handler.
        """
        wait_for_all(run_sync(self.async_save(directory, args)))

    async def async_save(self, directory: Any, args: CompositeArgs) -> Any:
        """Copies the items, and returns futures that write them; see `save`.

        Handlers that cannot write in the background write immediately.
        """
        directory = handler_path(directory)
        saving = {
            name: self._handlers.get_or_set(name, args[name])
            for name in sorted(args.keys())
        }
        self._saving = {
            name: _SavedItem(
                handler,
                self._options.temporary_path(os.fspath(directory / name)),
            )
            for name, handler in saving.items()
        }
        await create_all(
            [item.temporary for item in self._saving.values()],
            multiprocessing_options=self._multiprocessing_options,
        )
        return await futures_of(
            item.start(args[name]) for name, item in self._saving.items()
        )

    def typestrs_of_saved(self) -> dict[str, str]:
        """Returns the handler type strings of the items being saved."""
        return {
            name: typestr_of(item.handler)
            for name, item in self._saving.items()
        }

    def finalize(self, directory: Any) -> None:
        """Commits the items.

        The primary process calls this once all processes have written.

        Args:
            directory: the directory given to `save`.

        Raises:
            ValueError: nothing was saved.
            Exception: any error from an item's handler.
        """
        if not self._saving:
            raise ValueError("finalize() called before any items were saved.")
        for name in list(self._saving):
            with timed("/jax/orbax/write/background_item_finalize_secs"):
                self._saving[name].finalize()
            del self._saving[name]

    def restore(
        self, directory: Any, args: CompositeArgs | None = None
    ) -> CompositeResults:
        """Restores items.

        Args:
            directory: the directory that holds the items' directories.
            args: arguments of the items to restore; None or empty restores
                every item with its handler's default arguments.

        Raises:
            KeyError: a requested item does not exist.
            ValueError: an item's handler is unknown or does not accept the
                arguments.
            Exception: any error from the item's handler.
        """
        directory = handler_path(directory)
        existing = _subdirectories(directory)
        if args is None or not args.items():
            args = self._default_args(directory, existing)
        restored = {}
        for name in sorted(args.keys()):
            if name not in existing:
                raise KeyError(
                    f'Item "{name}" was not found in the checkpoint. Available'
                    f" items: {existing}"
                )
            handler = self._handlers.get_or_set(name, args[name])
            restored[name] = handler.restore(directory / name, args=args[name])
        return CompositeResults(**restored)

    def _default_args(
        self, directory: Any, existing: list[str]
    ) -> CompositeArgs:
        """Returns arguments that restore every item.

        Raises:
            ValueError: an item's handler is unknown, or its arguments have no
                defaults.
            DataLossError: a saved item is missing.
        """
        known = self._handlers.known()
        recorded: Any = None
        check_none_is_gone(directory, existing)
        args = {}
        for name in existing:
            handler: Any
            if name in known:
                handler = known[name]
            else:
                recorded = recorded or self.metadata(directory).item_handlers
                try:
                    handler = get_handler_type(recorded[name])
                except KeyError as error:
                    raise ValueError(_UNKNOWN_ITEM.format(name)) from error
            if handler is None:
                raise ValueError(
                    f'Item with name: "{name}" had an undetermined'
                    " `CheckpointHandler` when restoring. Please ensure the"
                    " handler was specified during initialization, or use the"
                    " appropriate `CheckpointArgs` subclass to indicate the"
                    " item type."
                )
            args[name] = _default_restore_args(name, handler)
        return CompositeArgs(**args)

    def metadata_from_temporary_paths(self, directory: Any) -> StepMetadata:
        """Returns the metadata of a checkpoint whose items are being saved.

        Args:
            directory: the directory given to `save`.

        Returns:
            The recorded metadata with the handlers of the items being saved;
            the items have no metadata yet.

        Raises:
            FileNotFoundError: the directory does not exist.
            ValueError: `_CHECKPOINT_METADATA` names a single handler.
        """
        directory = _existing(directory)
        saved = deserialize(read_step_metadata(os.fspath(directory)) or {})
        names = list(self._saving)
        return dataclasses.replace(
            saved,
            item_handlers=_typestrs(saved, names, self._handlers.known()),
            item_metadata=None,
        )

    def metadata(self, directory: Any) -> StepMetadata:
        """Returns the metadata of the checkpoint and of each item.

        The metadata of an item whose handler is unknown is None.

        Args:
            directory: the directory that holds the items' directories.

        Raises:
            FileNotFoundError: the directory does not exist.
            NotADirectoryError: the path is a file.
            ValueError: `_CHECKPOINT_METADATA` names a single handler, an item
                is not finalized yet, or an item's metadata cannot be read.
            DataLossError: a saved item is missing.
        """
        directory = _existing(directory)
        is_directory = _files.isdir(directory)
        for item in self._saving.values():
            # If items are committed by a rename, this directory is temporary,
            # not an item.
            name = os.path.basename(item.temporary.get())
            if _files.exists(directory / name):
                raise ValueError(
                    f'Item "{name}" was found in the checkpoint, but it is a'
                    " temporary item. Please call finalize() before"
                    " metadata()."
                )
        existing = _subdirectories(directory) if is_directory else []
        known = self._handlers.known()
        saved = deserialize(read_step_metadata(os.fspath(directory)) or {})
        check_none_is_gone(directory, existing)
        item_metadata = {
            name: _metadata_of(directory / name, known.get(name))
            for name in existing
        }
        return dataclasses.replace(
            saved,
            item_handlers=_typestrs(saved, existing, known),
            item_metadata=Composite(**item_metadata),
        )

    def close(self) -> None:
        """Closes the handlers of all items."""
        for handler in self._handlers.known().values():
            if handler is not None:
                handler.close()


@register_with_handler(
    CompositeCheckpointHandler, for_save=True, for_restore=True
)
class CompositeArgs(Composite, CheckpointArgs):
    """The arguments of several items, by item name."""


CompositeResults = CompositeArgs


def _existing(directory: Any) -> Any:
    path = handler_path(directory)
    if not _files.exists(path):
        raise FileNotFoundError(f"Directory does not exist: {path}")
    return path


def _subdirectories(directory: Any) -> list[str]:
    entries = _files.own_entries(directory)
    return [entry.name for entry in entries if entry.is_dir()]


def _default_restore_args(name: str, handler: Any) -> CheckpointArgs:
    _, args_cls = get_registered_args_cls(handler)
    try:
        return args_cls()
    except TypeError as error:
        raise ValueError(
            "Attempted to construct default restoration arguments for item"
            f' "{name}", but the `CheckpointArgs` class of type {args_cls} is'
            f" not default constructible. Original error: {error}."
        ) from error


def _metadata_of(directory: Any, handler: CheckpointHandler | None) -> Any:
    """Returns an item's metadata; warns and returns None if it is missing."""
    if handler is not None:
        try:
            return handler.metadata(directory)
        except errors.DataLossError:
            raise
        except FileNotFoundError:
            pass
    log.warning(_UNKNOWN_ITEM.format(directory.name))
    return None


def _typestrs(
    saved: StepMetadata,
    existing: list[str],
    known: dict[str, CheckpointHandler | None],
) -> Any:
    """Returns the items' handler type strings, by item name.

    A type string comes from the checkpoint's metadata, or else from the known
    handler.

    Raises:
        ValueError: the checkpoint's metadata names a single handler.
    """
    if saved.item_handlers is None:
        typestrs: dict[str, Any] = {}
    elif isinstance(saved.item_handlers, dict):
        typestrs = dict(saved.item_handlers)
    else:
        raise ValueError(
            "StepMetadata.item_handlers must be a dict, but is a"
            f" {type(saved.item_handlers)}. This likely indicates that the"
            " checkpoint was saved using a non-composite handler."
        )
    for name in existing:
        handler = known.get(name)
        if handler is None:
            typestrs.setdefault(name, None)
        elif typestrs.get(name) is None:
            typestrs[name] = typestr_of(handler)
    return typestrs
