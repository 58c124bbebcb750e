"""The arguments of a manager's save and restore, and their results."""

from __future__ import annotations

from typing import Any

from holdfast.orbax._manager.handlers import DEFAULT_ITEM_NAME
from holdfast.orbax._trees.composite import Composite
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    get_registered_args_cls,
)
from holdfast.orbax.composite_checkpoint_handler import CompositeArgs
from holdfast.orbax.handler_registration import CheckpointHandlerRegistry


def check_args(items: Any, args: Any, is_single: bool) -> None:
    """Checks that items and arguments have the right kinds.

    Raises:
        ValueError: an argument has the wrong kind.
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
    options: Any,
    *,
    is_single: bool,
    is_save: bool,
) -> CompositeArgs:
    """Makes arguments from items and options.

    Args:
        registry: the manager's handlers.
        items: the single item to save or its restore target; if steps hold
            several items, a dict by item name; or None.
        options: the options, in the same form.
        is_single: whether steps hold a single item.
        is_save: whether the arguments are for a save. For a restore, an item
            may have options without a target.

    Raises:
        ValueError: an item's handler is not known.
    """
    if is_single:
        items = None if items is None else {DEFAULT_ITEM_NAME: items}
        options = None if options is None else {DEFAULT_ITEM_NAME: options}
    items, options = items or {}, options or {}
    args: dict[str, Any] = {}
    for name in items if is_save else {**items, **options}:
        kinds: Any = _args_types(registry, name)
        kind = kinds[0 if is_save else 1]
        args[name] = kind(items.get(name), **(options.get(name) or {}))
    return CompositeArgs(**args)


def _args_types(
    registry: CheckpointHandlerRegistry, item_name: str
) -> tuple[type[CheckpointArgs], type[CheckpointArgs]]:
    """Returns the classes of an item's save and restore arguments.

    Raises:
        ValueError: the item does not exist.
    """
    for (name, _), handler in registry.get_all_entries().items():
        if name == item_name:
            return get_registered_args_cls(handler)
    raise ValueError(
        f'Unknown key "{item_name}" in CompositeCheckpointHandler.'
    )


def default_item(items: Composite) -> Any:
    """Returns the single item.

    Raises:
        ValueError: the item does not exist.
    """
    if DEFAULT_ITEM_NAME not in items:
        raise ValueError(
            "Unable to retrieve default item. Please ensure that a handler for"
            " the default item is registered using `handler_registry` when"
            " initializing the `CheckpointManager`."
        )
    return items[DEFAULT_ITEM_NAME]
