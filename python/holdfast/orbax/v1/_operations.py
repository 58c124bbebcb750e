"""Saves and loads on several processes, according to a context's options."""

from __future__ import annotations

import os
from typing import Any

from holdfast.orbax._processes.operations import (
    Operation,
    Processes,
    current_operation,
)
from holdfast.orbax.options import MultiprocessingOptions
from holdfast.orbax.v1.context import Context


def multiprocessing_of(context: Context) -> MultiprocessingOptions:
    """Returns the older interface's options with the same values."""
    options: MultiprocessingOptions = context.multiprocessing.v0()
    return options


def processes_of(context: Context) -> Processes:
    """Returns the processes that save and load together."""
    return Processes(multiprocessing_of(context))


def start(context: Context, path: Any, *, is_save: bool) -> Operation:
    """Begins a save or a load.

    Args:
        context: the active context.
        path: the checkpoint's path.
        is_save: whether this is a save, for which all processes must name the
            same path.

    Raises:
        DeadlineExceededError: a process did not arrive in time.
        ValueError: a process saves to a different path.
    """
    processes = processes_of(context)
    begin = processes.start_save if is_save else processes.start
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else str(path)
    return begin("next_awaitable_signal_operation_id:sync", text)


def operation_of_handler(context: Context, path: Any) -> Operation:
    """Returns the save in which a handler is called, or else a new operation.

    Args:
        context: the handler's context.
        path: the directory that was passed to the handler.
    """
    operation = current_operation()
    if operation is None or operation.processes.is_single:
        return start(context, path, is_save=True)
    return operation
