"""Byte limiters: limit how many bytes of a checkpoint are in flight.

A limiter belongs to one event loop; tasks of that loop share it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Protocol


class ByteLimiter(Protocol):
    """A memory budget; handlers reserve bytes and release them later."""

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        """Returns once that many bytes may be used."""

    async def release_bytes(self, requested_bytes: int) -> None:
        """Releases the bytes."""


class LimitInFlightBytes:
    """A `ByteLimiter` with a limit.

    Attributes:
        max_bytes: the limit; a single request must be below the limit.
    """

    def __init__(self, num_bytes: int) -> None:
        """Creates a limiter.

        Args:
            num_bytes: the limit, in bytes.

        Raises:
            ValueError: the limit is not positive.
        """
        if num_bytes <= 0:
            raise ValueError(
                f"Must provide positive `num_bytes`. Found: {num_bytes}"
            )
        self._max_bytes = num_bytes
        self._available_bytes = num_bytes
        self._changed = asyncio.Condition()

    @property
    def max_bytes(self) -> int:
        """The limit, in bytes."""
        return self._max_bytes

    def check(self, requested_bytes: int) -> None:
        """Checks that a request can be granted.

        Raises:
            ValueError: the request is not below the limit.
        """
        if requested_bytes >= self._max_bytes:
            raise ValueError(
                "Requested more bytes than we reserved space for:"
                f" {requested_bytes} > {self._max_bytes}"
            )

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        """Waits until that many bytes are free, and reserves them.

        Raises:
            ValueError: the request is not below the limit.
        """
        self.check(requested_bytes)
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._available_bytes > requested_bytes
            )
            self._available_bytes -= requested_bytes

    async def release_bytes(self, requested_bytes: int) -> None:
        """Releases reserved bytes."""
        async with self._changed:
            self._available_bytes += requested_bytes
            assert self._available_bytes <= self._max_bytes
            self._changed.notify_all()

    def wait_for_bytes_sync(self, requested_bytes: int) -> None:
        """Calls `wait_for_bytes` outside an event loop."""
        asyncio.run(self.wait_for_bytes(requested_bytes))

    def release_bytes_sync(self, requested_bytes: int) -> None:
        """Calls `release_bytes` outside an event loop."""
        asyncio.run(self.release_bytes(requested_bytes))


class UnlimitedInFlightBytes:
    """A `ByteLimiter` that grants everything."""

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        """Returns immediately."""
        del requested_bytes

    async def release_bytes(self, requested_bytes: int) -> None:
        """Does nothing."""
        del requested_bytes


def get_byte_limiter(concurrent_bytes: int | None = None) -> ByteLimiter:
    """Returns a limiter for a number of bytes; None means no limit.

    Raises:
        ValueError: the limit is not positive.
    """
    if concurrent_bytes is None:
        return UnlimitedInFlightBytes()
    if concurrent_bytes <= 0:
        raise ValueError(
            "Must provide positive `concurrent_bytes`. Found:"
            f" {concurrent_bytes}"
        )
    return LimitInFlightBytes(concurrent_bytes)


@contextlib.asynccontextmanager
async def reserved_bytes(
    byte_limiter: ByteLimiter, nbytes: int
) -> AsyncIterator[None]:
    """Reserves `nbytes` of a limiter during the block.

    Raises:
        ValueError: the request can never be granted.
    """
    await byte_limiter.wait_for_bytes(nbytes)
    try:
        yield
    finally:
        await byte_limiter.release_bytes(nbytes)
