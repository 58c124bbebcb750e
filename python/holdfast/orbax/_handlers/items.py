"""The known handlers of a checkpoint's items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast._log import log
from holdfast.orbax._handlers.base import CheckpointHandler
from holdfast.orbax._handlers.plain import wrap
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    get_registered_args_cls,
    get_registered_handler_cls,
    has_registered_args,
    typestr_of,
)
from holdfast.orbax.handler_registration import (
    CheckpointHandlerRegistry,
    DefaultCheckpointHandlerRegistry,
    HandlerRegistryMapping,
)

_OURS = "holdfast.orbax."


class ItemHandlers:
    """The handlers of items, given by the caller or chosen by arguments.

    An item keeps its first handler. An item that was named without a handler
    gets the handler that its first arguments belong to. If no items were named,
    every item gets its handler in this way.

    Thread-safety: one call at a time.
    """

    def __init__(
        self,
        item_names: Iterable[str],
        items_and_handlers: Mapping[str, CheckpointHandler | None],
        handler_registry: CheckpointHandlerRegistry | None,
    ) -> None:
        """Creates the table.

        Args:
            item_names: items without handlers.
            items_and_handlers: handlers by item name; None means that the
                item's first arguments determine the handler.
            handler_registry: more entries; copied.
        """
        self.registry = DefaultCheckpointHandlerRegistry(handler_registry)
        handlers = dict.fromkeys(item_names) | dict(items_and_handlers)
        for name, handler in handlers.items():
            if handler is not None:
                self._add_given(name, handler)
        self._has_named_items = bool(handlers)
        self._undetermined = {k for k, v in handlers.items() if v is None}
        self._determined = set(self._registered())

    def _add_given(self, name: str, handler: CheckpointHandler) -> None:
        if has_registered_args(handler):
            self._register(name, handler)
            return
        log.warning(
            "No registered CheckpointArgs found for handler type: %s",
            type(handler),
        )
        self._register(name, wrap(handler))

    def _register(self, name: str, handler: CheckpointHandler) -> None:
        save_args, restore_args = get_registered_args_cls(handler)
        self.registry.add(name, save_args, handler)
        if restore_args is not save_args:
            self.registry.add(name, restore_args, handler)

    def _registered(self) -> dict[str, CheckpointHandler]:
        """Returns the first handler of each item that has an entry."""
        found: dict[str, CheckpointHandler] = {}
        for (name, _), handler in self.registry.get_all_entries().items():
            if name is not None:
                found.setdefault(name, handler)
        return found

    def known(self) -> dict[str, CheckpointHandler | None]:
        """Returns the last registered handler of each item.

        The handler of an item that was only named is None.
        """
        known: dict[str, CheckpointHandler | None] = {
            name: handler
            for (name, _), handler in self.registry.get_all_entries().items()
            if name is not None
        }
        return known | dict.fromkeys(self._undetermined)

    def get_or_set(
        self, name: str, args: CheckpointArgs | None
    ) -> CheckpointHandler:
        """Returns the handler of an item for these arguments.

        Args:
            name: the item's name.
            args: the item's arguments; None means that the item already has a
                handler.

        Raises:
            ValueError: no handler is known, the item's handler does not accept
                these arguments, or their class was never registered.
            TypeError: the arguments are not CheckpointArgs.
        """
        if args is None:
            return self._registered_for(name)
        if self.registry.has(name, args):
            return self.registry.get(name, args)
        handler: CheckpointHandler
        if self.registry.has(None, args):
            handler = self.registry.get(None, args)
            self.registry.add(name, args, handler)
            return handler
        handler = get_registered_handler_cls(args)()
        if self._has_named_items:
            may_register = name in self._undetermined
        else:
            may_register = name not in self._determined
        if not may_register:
            raise ValueError(
                f'Item "{name}" and args "{args}" does not match with any'
                " registered handler! Registered handlers:"
                f" {_entries_text(self.registry.get_all_entries())}"
            )
        self._undetermined.discard(name)
        self._determined.add(name)
        self._register(name, handler)
        return handler

    def _registered_for(self, name: str) -> CheckpointHandler:
        registered = self._registered()
        if name in registered:
            return registered[name]
        raise ValueError(
            "Provided `None` for `CheckpointArgs`, and the `CheckpointHandler`"
            f' for item "{name}" was not configured. If saving, this indicates'
            f' that "{name}" was saved with `None` (an instance of'
            " `CheckpointArgs` was expected). If restoring, providing `None`"
            " for the item is valid, but only if the `CheckpointHandler was"
            " already configured. Provide a `CheckpointArgs` subclass so that"
            " `CompositeCheckpointHandler` will know how to restore the item."
        )


def _entries_text(entries: HandlerRegistryMapping) -> str:
    """Formats the entries as Orbax does, with Orbax's names for our classes."""
    texts = [
        f"(({name!r}, {_class_text(args, handler)}), {_object_text(handler)})"
        for (name, args), handler in entries.items()
    ]
    return f"dict_items([{', '.join(texts)}])"


def _class_text(args: type, handler: CheckpointHandler) -> str:
    if not args.__module__.startswith(_OURS):
        return repr(args)
    module, _, _ = typestr_of(handler).rpartition(".")
    return f"<class '{module}.{args.__qualname__}'>"


def _object_text(handler: CheckpointHandler) -> str:
    if not type(handler).__module__.startswith(_OURS):
        return repr(handler)
    return f"<{typestr_of(handler)} object at {id(handler):#x}>"
