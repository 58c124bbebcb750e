"""Makes the handler of a manager's items from the manager's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.orbax._checkpointer.base import AbstractCheckpointer, Checkpointer
from holdfast.orbax._handlers.base import CheckpointHandler
from holdfast.orbax._manager.options import CheckpointManagerOptions
from holdfast.orbax.async_checkpointer import AsyncCheckpointer
from holdfast.orbax.composite_checkpoint_handler import (
    CompositeCheckpointHandler,
    CompositeOptions,
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
from holdfast.orbax.options import AsyncOptions, MultiprocessingOptions

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
    """Checks for arguments that exclude each other.

    Raises:
        ValueError: the arguments exclude each other.
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


def metrics_handler(
    options: MultiprocessingOptions | None = None,
) -> JsonCheckpointHandler:
    """Returns the handler that writes and reads a step's metrics."""
    return JsonCheckpointHandler(
        filename=METRIC_ITEM_NAME, multiprocessing_options=options
    )


def _composite_options(options: CheckpointManagerOptions) -> CompositeOptions:
    return CompositeOptions(
        multiprocessing_options=options.multiprocessing_options,
        temporary_path_class=options.temporary_path_class,
        file_options=options.file_options,
        atomicity_options=options.atomicity_options,
        async_options=options.async_options,
    )


def make_checkpointer(
    handler: CompositeCheckpointHandler,
    options: CheckpointManagerOptions,
    *,
    is_async: bool,
    timeout_secs: int | None = None,
) -> Checkpointer:
    """Returns the checkpointer that saves and restores steps.

    Args:
        handler: the handler of a step's items.
        options: the manager's options.
        is_async: save in the background.
        timeout_secs: the timeout of the caller's own checkpointers, used if the
            options have no timeout.

    Raises:
        ValueError: the options contradict each other.
    """
    common: dict[str, Any] = {
        "multiprocessing_options": options.multiprocessing_options,
        "file_options": options.file_options,
        "atomicity_options": options.atomicity_options,
        "temporary_path_class": options.temporary_path_class,
    }
    async_options = options.async_options
    if is_async:
        if async_options is None and timeout_secs is not None:
            async_options = AsyncOptions(timeout_secs=timeout_secs)
        return AsyncCheckpointer(handler, async_options=async_options, **common)
    checkpointer = Checkpointer(handler, **common)
    if async_options and async_options.post_finalization_callback is not None:
        raise ValueError(
            "AsyncOptions.post_finalization_callback is only supported with"
            " AsyncCheckpointer. But final resolved checkpointer is: "
            f" {checkpointer}"
        )
    return checkpointer


def checkpointer_of_checkpointers(
    checkpointers: Checkpointers, options: CheckpointManagerOptions
) -> Checkpointer:
    """Returns a checkpointer that saves like the caller's checkpointers.

    Raises:
        ValueError: these are not Checkpointers, or the primary host is not 0.
    """
    primary = options.multiprocessing_options.primary_host
    if primary != 0:
        raise ValueError(
            f"`primary_host`={primary} is not supported in legacy API."
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
    handlers[METRIC_ITEM_NAME] = metrics_handler(
        options.multiprocessing_options
    )
    timeouts = [
        checkpointer.timeout_secs
        for checkpointer in given.values()
        if isinstance(checkpointer, AsyncCheckpointer)
    ]
    handler = CompositeCheckpointHandler(
        composite_options=_composite_options(options), **handlers
    )
    return make_checkpointer(
        handler,
        options,
        is_async=bool(timeouts),
        timeout_secs=max(timeouts, default=None),
    )


def handler_of_items(
    item_names: Sequence[str] | None,
    item_handlers: ItemHandlers | None,
    options: CheckpointManagerOptions,
) -> CompositeCheckpointHandler:
    """Returns the handler of items that are named or have handlers.

    Raises:
        ValueError: there is no primary host and there are no handlers.
    """
    processes = options.multiprocessing_options
    if processes.primary_host is None and item_handlers is None:
        raise ValueError(
            "When primary_host is set to None, item_handlers must be provided"
            " to match with the primary_host setting."
        )
    handlers: dict[str, Any]
    if isinstance(item_handlers, CheckpointHandler):
        handlers = {DEFAULT_ITEM_NAME: item_handlers}
    else:
        handlers = dict.fromkeys(item_names or ()) | dict(item_handlers or {})
    handlers[METRIC_ITEM_NAME] = metrics_handler(processes)
    return CompositeCheckpointHandler(
        composite_options=_composite_options(options), **handlers
    )


def handler_of_registry(
    registry: CheckpointHandlerRegistry | None,
    options: CheckpointManagerOptions,
) -> CompositeCheckpointHandler:
    """Returns the handler of a registry's items, with metrics added."""
    if registry is None:
        registry = DefaultCheckpointHandlerRegistry()
    handler = metrics_handler(options.multiprocessing_options)
    for args in (JsonSaveArgs, JsonRestoreArgs):
        if not registry.has(METRIC_ITEM_NAME, args):
            registry.add(METRIC_ITEM_NAME, args, handler)
    return CompositeCheckpointHandler(
        composite_options=_composite_options(options),
        handler_registry=registry,
    )
