"""CompositeCheckpointHandler: several items, each in a directory of its own.

Reading alone: saving items comes with a later release.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Any

from holdfast.orbax._composite import Composite
from holdfast.orbax._handler import (
    AsyncCheckpointHandler,
    CheckpointHandler,
    orbax_typestr,
)
from holdfast.orbax._item_handlers import ItemHandlers
from holdfast.orbax._later import not_implemented
from holdfast.orbax._paths import handler_path
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
    """How items are saved; kept as given."""

    multiprocessing_options: MultiprocessingOptions = dataclasses.field(
        default_factory=MultiprocessingOptions
    )
    temporary_path_class: Any | None = None
    file_options: FileOptions | None = None
    atomicity_options: AtomicityOptions | None = None
    async_options: AsyncOptions | None = None


class CompositeCheckpointHandler(AsyncCheckpointHandler):
    """Restores named items, each with the handler that belongs to it.

    Which handler an item has is said when this is made, by the arguments of
    the first restore, or by `_CHECKPOINT_METADATA`.

    Thread-safety: one call at a time.
    """

    def __init__(
        self,
        *item_names: str,
        composite_options: CompositeOptions | None = None,
        handler_registry: CheckpointHandlerRegistry | None = None,
        **items_and_handlers: CheckpointHandler | None,
    ) -> None:
        """Makes a handler.

        Args:
            *item_names: items whose handlers the first restore tells.
            composite_options: accepted; they concern saves.
            handler_registry: handlers of items and of arguments; copied.
            **items_and_handlers: handlers by the names of their items.

        Raises:
            ValueError: a registry and items.
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

    @property
    def _handler_registry(self) -> CheckpointHandlerRegistry:
        return self._handlers.registry

    @classmethod
    def typestr(cls) -> str:
        return orbax_typestr(
            cls,
            f"{__name__}.CompositeCheckpointHandler",
            "composite_checkpoint_handler",
            "CompositeCheckpointHandler",
        )

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Comes later.

        Raises:
            NotImplementedError: always.
        """
        raise not_implemented("CompositeCheckpointHandler.save")

    async def async_save(self, *args: Any, **kwargs: Any) -> None:
        """Comes later.

        Raises:
            NotImplementedError: always.
        """
        raise not_implemented("CompositeCheckpointHandler.async_save")

    def finalize(self, directory: Any) -> None:
        """Comes later, with `save`.

        Raises:
            ValueError: always, as nothing was saved.
        """
        raise ValueError("finalize() called before any items were saved.")

    def restore(
        self, directory: Any, args: CompositeArgs | None = None
    ) -> CompositeResults:
        """Restores items.

        Args:
            directory: the one that has the items' directories.
            args: arguments of the wanted items; None or empty: every item,
                with the default arguments of its handler.

        Raises:
            KeyError: there is no such item.
            ValueError: an item whose handler is not known, or does not take
                these arguments.
            Exception: what the item's handler raises.
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
        """Arguments that restore every item.

        Raises:
            ValueError: an item whose handler is not known, or whose arguments
                have no defaults.
        """
        known = self._handlers.known()
        recorded: Any = None
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

    def metadata(self, directory: Any) -> StepMetadata:
        """Metadata of the checkpoint and of each item.

        Items whose handlers are not known have None.

        Args:
            directory: the one that has the items' directories.

        Raises:
            FileNotFoundError: there is no such directory.
            NotADirectoryError: it is a file.
            ValueError: `_CHECKPOINT_METADATA` is not of several items; an
                item's metadata cannot be read.
        """
        directory = handler_path(directory)
        if not os.path.exists(directory):
            raise FileNotFoundError(f"Directory does not exist: {directory}")
        is_directory = os.path.isdir(directory)
        existing = _subdirectories(directory) if is_directory else []
        known = self._handlers.known()
        saved = deserialize(read_step_metadata(os.fspath(directory)) or {})
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
    """The arguments of several items, by their names."""


CompositeResults = CompositeArgs


def _subdirectories(directory: Any) -> list[str]:
    return [path.name for path in directory.iterdir() if path.is_dir()]


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
    """An item's metadata; None, with a warning, where there is none."""
    if handler is not None:
        try:
            return handler.metadata(directory)
        except FileNotFoundError:
            pass
    logging.warning(_UNKNOWN_ITEM.format(directory.name))
    return None


def _typestrs(
    saved: StepMetadata,
    existing: list[str],
    known: dict[str, CheckpointHandler | None],
) -> Any:
    """The recorded handlers, and those of items that have none recorded.

    Raises:
        ValueError: a single handler is recorded.
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
