"""Runs coroutines from synchronous code."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from holdfast._future import Future

T = TypeVar("T")


def close_all(awaitables: Iterable[Any]) -> None:
    """Closes coroutines that will not be awaited."""
    for awaitable in awaitables:
        if hasattr(awaitable, "close"):
            awaitable.close()


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Returns a coroutine's result; also works in a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_in_new_loop(coroutine)
    future = Future(lambda _: run_in_new_loop(coroutine), what="coroutine")
    try:
        return future.result()
    except BaseException:
        future.exception()  # the coroutine must not outlive this call
        raise


def run_in_new_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine as `asyncio.run` does, but Ctrl-C always interrupts it.

    `asyncio.run` cannot interrupt a coroutine that never awaits, such as one
    that calls the engine.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        try:
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
