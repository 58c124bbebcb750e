"""Ranks that are threads and communicate through a store, as processes do."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import holdfast
from holdfast import _process_group


class Post:
    """The store that the ranks share."""

    def __init__(self) -> None:
        self._messages: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self.value_bytes_max = 0
        self._noticed: threading.Event | None = None

    def set(self, key: str, value: bytes) -> None:
        with self._changed:
            assert key not in self._messages, f"{key} is not new"
            self._messages[key] = value
            self.value_bytes_max = max(self.value_bytes_max, len(value))
            self._changed.notify_all()
        self._notice()

    def get(self, key: str, timeout_seconds: float) -> bytes | None:
        self._notice()
        with self._changed:
            self._changed.wait_for(
                lambda: key in self._messages, timeout_seconds
            )
            return self._messages.get(key)

    def delete(self, key: str) -> None:
        with self._changed:
            del self._messages[key]

    def keys(self) -> list[str]:
        return sorted(self._messages)

    def _notice(self) -> None:
        if self._noticed is not None:
            self._noticed.set()

    @contextlib.contextmanager
    def noticing(self, event: threading.Event) -> Iterator[None]:
        """Sets `event` when a rank next sends or looks for a message."""
        self._noticed = event
        try:
            yield
        finally:
            event.set()


def transports(size: int, post: Post | None = None) -> list[Any]:
    post = post or Post()
    return [
        _process_group._StoreTransport(post, rank, size) for rank in range(size)
    ]


def on_all(size: int, call: Callable[[int], Any]) -> list[Any]:
    """Runs `call(rank)` on a thread for each rank; returns the results or
    exceptions."""

    def outcome(rank: int) -> Any:
        try:
            return call(rank)
        except BaseException as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(outcome, range(size)))


def groups_of(size: int, post: Post | None = None) -> list[Any]:
    return [holdfast.ProcessGroup(each) for each in transports(size, post)]
