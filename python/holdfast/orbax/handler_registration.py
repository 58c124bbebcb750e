"""The registry of handlers for items: Orbax's `handler_registration`.

An entry maps an argument class, either for one item or for any item, to a
handler.
"""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.orbax._handlers.base import CheckpointHandler
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    get_registered_args_cls,
    get_registered_handler_cls,
)

ArgsOrType = type[CheckpointArgs] | CheckpointArgs
HandlerOrType = CheckpointHandler | type[CheckpointHandler]
HandlerRegistryMapping = dict[
    tuple[str | None, type[CheckpointArgs]], CheckpointHandler
]


class AlreadyExistsError(ValueError):
    """The registry already has an entry for that item and argument class."""


class NoEntryError(KeyError):
    """The registry has no such entry."""


class CheckpointHandlerRegistry(Protocol):
    """The interface of registries.

    In all methods, `item` is an item's name, or None for every item without its
    own entry, and `args` is an argument class or an instance of one.
    """

    def add(
        self,
        item: str | None,
        args: ArgsOrType,
        handler: HandlerOrType | None = None,
        **kwargs: Any,
    ) -> None:
        """Adds an entry.

        Args:
            item: see the class.
            args: see the class.
            handler: an instance or a class; None means the handler that the
                argument class was registered with.
            **kwargs: for other registry classes.

        Raises:
            AlreadyExistsError: the entry already exists.
            ValueError: no handler can be found or constructed.
        """

    def get(self, item: str | None, args: ArgsOrType) -> CheckpointHandler:
        """Returns the handler of an entry.

        Raises:
            NoEntryError: no entry matches.
        """

    def has(self, item: str | None, args: ArgsOrType) -> bool:
        """Returns whether an entry exists for exactly that item and class."""

    def get_all_entries(self) -> HandlerRegistryMapping:
        """Returns all entries, by item and class."""


def _type_of(args: ArgsOrType) -> type[CheckpointArgs]:
    return args if isinstance(args, type) else type(args)


class DefaultCheckpointHandlerRegistry(CheckpointHandlerRegistry):
    """An in-memory registry.

    Thread-safety: not safe while entries are being added.
    """

    def __init__(
        self, other_registry: CheckpointHandlerRegistry | None = None
    ) -> None:
        """Makes a registry.

        Args:
            other_registry: a registry whose entries are copied.
        """
        self._registry: HandlerRegistryMapping = {}
        if other_registry is None:
            return
        for (item, args), handler in other_registry.get_all_entries().items():
            self.add(item, args, handler)

    def add(  # type: ignore[override]
        self,
        item: str | None,
        args: ArgsOrType,
        handler: HandlerOrType | None = None,
    ) -> None:
        args_type = _type_of(args)
        if self.has(item, args_type):
            raise AlreadyExistsError(
                f"Entry for item={item} and args_type={args_type} already"
                " exists in the registry."
            )
        if handler is None:
            handler = _registered_handler(item, args_type)
        if isinstance(handler, type):
            handler = _construct(item, args_type, handler)
        self._registry[item, args_type] = handler

    def get(self, item: str | None, args: ArgsOrType) -> CheckpointHandler:
        args_type = _type_of(args)
        if not self.has(item, args_type):
            raise NoEntryError(
                f"No entry for item={item} and args_ty={args_type} in the"
                " registry."
            )
        return self._registry[item, args_type]

    def has(self, item: str | None, args: ArgsOrType) -> bool:
        return (item, _type_of(args)) in self._registry

    def get_all_entries(self) -> HandlerRegistryMapping:
        return self._registry

    def __repr__(self) -> str:
        return f"DefaultCheckpointHandlerRegistry({self._registry})"


def _registered_handler(
    item: str | None, args_type: type[CheckpointArgs]
) -> type[CheckpointHandler]:
    try:
        return get_registered_handler_cls(args_type)
    except ValueError as error:
        raise ValueError(
            "Provided a `None` `CheckpointHandler` when registering"
            f" item={item} and args_type={args_type}. Unable to find a"
            " globally registered handler for the given args type. Provide a"
            " `handler` or ensure the args type corresponds to a globally"
            " registered handler."
        ) from error


def _construct(
    item: str | None,
    args_type: type[CheckpointArgs],
    handler: type[CheckpointHandler],
) -> CheckpointHandler:
    try:
        return handler()
    except TypeError as error:
        raise ValueError(
            "Provided a `None` `CheckpointHandler` when registering"
            f" item={item} and args_type={args_type}. The globally-registered"
            " handler for this args type is not default-constructible. Please"
            " a `handler` when adding this args type to the registry."
        ) from error


def create_default_handler_registry(
    **items_to_handlers: CheckpointHandler,
) -> CheckpointHandlerRegistry:
    """Makes a registry from handlers by item name.

    Raises:
        ValueError: a handler's argument classes were never registered.
    """
    registry = DefaultCheckpointHandlerRegistry()
    for item, handler in items_to_handlers.items():
        save_args, restore_args = get_registered_args_cls(handler)
        registry.add(item, save_args, handler)
        registry.add(item, restore_args, handler)
    return registry
