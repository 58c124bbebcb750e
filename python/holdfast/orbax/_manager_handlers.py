"""The handler of a manager's items, from the arguments that tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.orbax._checkpointer import AbstractCheckpointer, Checkpointer
from holdfast.orbax._handler import CheckpointHandler
from holdfast.orbax._standard_checkpointer import StandardCheckpointer
from holdfast.orbax.composite_checkpoint_handler import (
    CompositeCheckpointHandler,
)
from holdfast.orbax.handler_registration import (
    CheckpointHandlerRegistry,
    DefaultCheckpointHandlerRegistry,
)
from holdfast.orbax.json_handler import (
    JsonCheckpointHandler,
    JsonRestoreArgs,
    JsonSaveArgs,
)
from holdfast.orbax.options import MultiprocessingOptions

DEFAULT_ITEM_NAME = "default"
METRIC_ITEM_NAME = "metrics"

Checkpointers = AbstractCheckpointer | Mapping[str, AbstractCheckpointer]
ItemHandlers = CheckpointHandler | Mapping[str, CheckpointHandler]


def check_exclusive(
    checkpointers: Checkpointers | None,
    item_names: Sequence[str] | None,
    item_handlers: ItemHandlers | None,
    handler_registry: CheckpointHandlerRegistry | None,
) -> None:
    """Refuses arguments that say the same thing twice.

    Raises:
        ValueError: they do.
    """
    if checkpointers and item_names:
        raise ValueError(
            "`item_names` and `checkpointers` are mutually exclusive - do not"
            " use together."
        )
    if checkpointers and item_handlers:
        raise ValueError(
            "`item_handlers` and `checkpointers` are mutually exclusive - do"
            " not use together."
        )
    if item_names and isinstance(item_handlers, CheckpointHandler):
        raise ValueError(
            "`item_handlers` in default item mode and `item_names` should not"
            " be provided together."
        )
    if handler_registry is None:
        return
    if checkpointers is not None:
        raise ValueError(
            "Deprecated `checkpointers` can not be used with"
            " `handler_registry`. Please follow the instructions at"
            " https://orbax.readthedocs.io/en/latest/guides/checkpoint/"
            "api_refactor.html to migrate."
        )
    for name, value in (
        ("item_handlers", item_handlers),
        ("item_names", item_names),
    ):
        if value is not None:
            raise ValueError(
                f"`{name}` and `handler_registry` are mutually exclusive -"
                " prefer configuring the handler registry."
            )


def metrics_handler() -> JsonCheckpointHandler:
    """What reads a step's metrics."""
    return JsonCheckpointHandler(filename=METRIC_ITEM_NAME)


def handler_of_checkpointers(
    checkpointers: Checkpointers, options: MultiprocessingOptions
) -> tuple[CompositeCheckpointHandler, bool]:
    """The handler of the items of checkpointers, and whether they save async.

    Raises:
        ValueError: they are no Checkpointers; another primary host than 0.
    """
    if options.primary_host != 0:
        raise ValueError(
            f"`primary_host`={options.primary_host} is not supported in legacy"
            " API."
        )
    handlers: dict[str, Any] = {}
    if isinstance(checkpointers, Checkpointer):
        given: Mapping[str, Any] = {DEFAULT_ITEM_NAME: checkpointers}
    elif isinstance(checkpointers, dict):
        given = checkpointers
    else:
        raise ValueError(
            f"Invalid type for `checkpointers`. Found {checkpointers}."
        )
    for name, checkpointer in given.items():
        if not isinstance(checkpointer, Checkpointer):
            raise ValueError(
                f"Value corresponding to {name} in `checkpointers` is not a"
                f" Checkpointer. Found {type(checkpointer)}."
            )
        handlers[name] = checkpointer.handler
    handlers[METRIC_ITEM_NAME] = metrics_handler()
    is_async = any(isinstance(c, StandardCheckpointer) for c in given.values())
    return CompositeCheckpointHandler(**handlers), is_async


def handler_of_items(
    item_names: Sequence[str] | None,
    item_handlers: ItemHandlers | None,
    options: MultiprocessingOptions,
) -> CompositeCheckpointHandler:
    """The handler of items that are named, or have handlers.

    Raises:
        ValueError: no primary host, and no handlers.
    """
    if options.primary_host is None and item_handlers is None:
        raise ValueError(
            "When primary_host is set to None, item_handlers must be provided"
            " to match with the primary_host setting."
        )
    handlers: dict[str, Any]
    if isinstance(item_handlers, CheckpointHandler):
        handlers = {DEFAULT_ITEM_NAME: item_handlers}
    else:
        handlers = dict.fromkeys(item_names or ()) | dict(item_handlers or {})
    handlers[METRIC_ITEM_NAME] = metrics_handler()
    return CompositeCheckpointHandler(**handlers)


def handler_of_registry(
    registry: CheckpointHandlerRegistry | None,
) -> CompositeCheckpointHandler:
    """The handler of a registry's items, to which metrics are added."""
    if registry is None:
        registry = DefaultCheckpointHandlerRegistry()
    handler = metrics_handler()
    for args in (JsonSaveArgs, JsonRestoreArgs):
        if not registry.has(METRIC_ITEM_NAME, args):
            registry.add(METRIC_ITEM_NAME, args, handler)
    return CompositeCheckpointHandler(handler_registry=registry)
