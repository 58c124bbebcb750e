"""Saves and loads of several processes, as a context's options say."""

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
    """The older interface's options of the same values."""
    options: MultiprocessingOptions = context.multiprocessing.v0()
    return options


def processes_of(context: Context) -> Processes:
    """The processes that save and load together."""
    return Processes(multiprocessing_of(context))


def start(context: Context, path: Any, *, is_save: bool) -> Operation:
    """Begins a save or a load.

    Args:
        context: the active one.
        path: the checkpoint's.
        is_save: all processes must name the same path.

    Raises:
        DeadlineExceededError: another process did not come.
        ValueError: one saves to another path.
    """
    processes = processes_of(context)
    begin = processes.start_save if is_save else processes.start
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else str(path)
    return begin("next_awaitable_signal_operation_id:sync", text)


def operation_of_handler(context: Context, path: Any) -> Operation:
    """The save that a handler is called in; one of its own outside of any.

    Args:
        context: the handler's.
        path: the directory that it is given.
    """
    operation = current_operation()
    if operation is None or operation.processes.is_single:
        return start(context, path, is_save=True)
    return operation
