"""The arguments of a manager's save and restore, and what it returns."""

from __future__ import annotations

from typing import Any

from holdfast.orbax._composite import Composite
from holdfast.orbax._manager_handlers import DEFAULT_ITEM_NAME
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    get_registered_args_cls,
)
from holdfast.orbax.composite_checkpoint_handler import CompositeArgs
from holdfast.orbax.handler_registration import CheckpointHandlerRegistry


def check_args(items: Any, args: Any, is_single: bool) -> None:
    """Refuses arguments of the wrong kind.

    Raises:
        ValueError: they are.
    """
    if isinstance(items, CheckpointArgs):
        raise ValueError(
            "Found an instance of `CheckpointArgs` provided for `items`. This"
            " may be due to misuse of the newer API - make sure to specify the"
            " argument keyword (e.g. `args=args`)."
        )
    if args is None:
        return
    if not isinstance(args, CheckpointArgs):
        raise ValueError(
            f"Expected args of type `CheckpointArgs`; found {type(args)}."
        )
    is_composite = isinstance(args, CompositeArgs)
    if is_single and is_composite:
        raise ValueError(
            "Cannot provide `args` of type `Composite` when dealing with a"
            " single, unnamed (default) checkpointable object."
        )
    if not is_single and not is_composite:
        raise ValueError(
            "Must provide `args` of type `Composite` when dealing with"
            " multiple checkpointable objects."
        )


def legacy_args(
    registry: CheckpointHandlerRegistry,
    items: Any,
    restore_kwargs: Any,
    is_single: bool,
) -> CompositeArgs:
    """Arguments made of items to restore like and of options.

    Args:
        registry: the manager's handlers.
        items: the object that the single item is restored like, or these by
            item, or None.
        restore_kwargs: options likewise.
        is_single: steps hold a single item.

    Raises:
        ValueError: an item whose handler is not known.
    """
    if is_single:
        items = None if items is None else {DEFAULT_ITEM_NAME: items}
        if restore_kwargs is not None:
            restore_kwargs = {DEFAULT_ITEM_NAME: restore_kwargs}
    items, restore_kwargs = items or {}, restore_kwargs or {}
    args: dict[str, Any] = {}
    for name in {**items, **restore_kwargs}:
        args_type: Any = _args_types(registry, name)[1]
        options = restore_kwargs.get(name) or {}
        args[name] = args_type(items.get(name), **options)
    return CompositeArgs(**args)


def legacy_save_args(
    registry: CheckpointHandlerRegistry,
    items: Any,
    save_kwargs: Any,
    is_single: bool,
) -> CompositeArgs:
    """Arguments of what to save and of options.

    Args:
        registry: the manager's handlers.
        items: the single item, or items by name.
        save_kwargs: options, or those by item, or None.
        is_single: steps hold a single item.

    Raises:
        ValueError: an item whose handler is not known.
    """
    save_kwargs = save_kwargs or {}
    if is_single:
        items = {DEFAULT_ITEM_NAME: items}
        save_kwargs = {DEFAULT_ITEM_NAME: save_kwargs}
    args: dict[str, Any] = {}
    for name, item in items.items():
        args_type: Any = _args_types(registry, name)[0]
        args[name] = args_type(item, **(save_kwargs.get(name) or {}))
    return CompositeArgs(**args)


def _args_types(
    registry: CheckpointHandlerRegistry, item_name: str
) -> tuple[type[CheckpointArgs], type[CheckpointArgs]]:
    """The classes of an item's save and restore arguments.

    Raises:
        ValueError: there is no such item.
    """
    for (name, _), handler in registry.get_all_entries().items():
        if name == item_name:
            return get_registered_args_cls(handler)
    raise ValueError(
        f'Unknown key "{item_name}" in CompositeCheckpointHandler.'
    )


def default_item(items: Composite) -> Any:
    """The single item.

    Raises:
        ValueError: there is none.
    """
    if DEFAULT_ITEM_NAME not in items:
        raise ValueError(
            "Unable to retrieve default item. Please ensure that a handler for"
            " the default item is registered using `handler_registry` when"
            " initializing the `CheckpointManager`."
        )
    return items[DEFAULT_ITEM_NAME]
