"""Limits that several engine calls share."""

from __future__ import annotations

from typing import Any

from holdfast import errors

CHUNK_BYTES = 8 << 20
MEMORY_BYTES = 256 << 20


def run_options(
    threads: int | None, memory_bytes: int | None
) -> dict[str, Any]:
    """Returns the engine's arguments for the limits of a call.

    Args:
        threads: None means one per CPU.
        memory_bytes: the most bytes held at a time; None means MEMORY_BYTES.

    Raises:
        InvalidArgumentError: memory_bytes is negative.
    """
    memory = MEMORY_BYTES if memory_bytes is None else memory_bytes
    return {
        "threads": threads or 0,
        "memory_bytes": byte_count("memory_bytes", memory),
    }


def byte_count(name: str, value: int) -> int:
    """Returns the value of the argument `name`.

    Raises:
        InvalidArgumentError: the value is negative.
    """
    if value < 0:
        raise errors.InvalidArgumentError(f"{name}: got {value}, want >= 0")
    return value
