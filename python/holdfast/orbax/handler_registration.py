"""The registry of handlers for items: Orbax's `handler_registration`.

An entry is for one item and a class of arguments, or for a class of arguments
with any item.
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
    """There is an entry of that item and class already."""


class NoEntryError(KeyError):
    """There is no such entry."""


class CheckpointHandlerRegistry(Protocol):
    """The interface of registries.

    In all methods `item` is an item's name, or None for every item without an
    entry of its own, and `args` a class of arguments, or an object of it.
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
            item: see above.
            args: see above.
            handler: an object or a class; None: the one that the arguments
                were registered with.
            **kwargs: of other registries.

        Raises:
            AlreadyExistsError: there is such an entry.
            ValueError: no handler can be found or made.
        """

    def get(self, item: str | None, args: ArgsOrType) -> CheckpointHandler:
        """The handler of an entry.

        Raises:
            NoEntryError: no entry fits.
        """

    def has(self, item: str | None, args: ArgsOrType) -> bool:
        """Whether there is an entry of exactly that item and class."""

    def get_all_entries(self) -> HandlerRegistryMapping:
        """All entries, by item and class."""


def _type_of(args: ArgsOrType) -> type[CheckpointArgs]:
    return args if isinstance(args, type) else type(args)


class DefaultCheckpointHandlerRegistry(CheckpointHandlerRegistry):
    """A registry in memory.

    Thread-safety: none while entries are added.
    """

    def __init__(
        self, other_registry: CheckpointHandlerRegistry | None = None
    ) -> None:
        """Makes a registry.

        Args:
            other_registry: its entries are copied.
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
    """A registry of handlers by the names of their items.

    Raises:
        ValueError: a handler whose arguments were never registered.
    """
    registry = DefaultCheckpointHandlerRegistry()
    for item, handler in items_to_handlers.items():
        save_args, restore_args = get_registered_args_cls(handler)
        registry.add(item, save_args, handler)
        registry.add(item, restore_args, handler)
    return registry
