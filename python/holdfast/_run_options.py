"""Bounds that calls of the engine have in common."""

from __future__ import annotations

from typing import Any

from holdfast import errors

CHUNK_BYTES = 8 << 20
MEMORY_BYTES = 256 << 20


def run_options(
    threads: int | None, memory_bytes: int | None
) -> dict[str, Any]:
    """The engine's arguments for the bounds of a call.

    Args:
        threads: None: one a CPU.
        memory_bytes: the most bytes held at once; None: MEMORY_BYTES.

    Raises:
        InvalidArgumentError: fewer bytes than none.
    """
    memory = MEMORY_BYTES if memory_bytes is None else memory_bytes
    return {
        "thread_count": threads or 0,
        "in_flight_bytes_max": byte_count("memory_bytes", memory),
    }


def byte_count(name: str, value: int) -> int:
    """The value of the argument of this name.

    Raises:
        InvalidArgumentError: it is negative.
    """
    if value < 0:
        raise errors.InvalidArgumentError(f"{name}: got {value}, want >= 0")
    return value
