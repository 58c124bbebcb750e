"""Process indices and barriers: `orbax.checkpoint.v1.multihost`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from holdfast._lazy import importing
from holdfast.orbax import multihost
from holdfast.orbax.multihost import (
    is_pathways_backend,
    is_primary_host,
    process_count,
)

__all__ = [
    "is_pathways_backend",
    "is_primary_host",
    "process_count",
    "process_index",
    "sync_global_processes",
]


def process_index() -> int:
    """Returns this process's index in `jax.distributed`."""
    if not multihost.is_jax_distributed_client_initialized():
        return multihost.process_index()
    with importing:
        from jax._src import distributed

    return int(distributed.global_state.process_id)


async def sync_global_processes(
    key: str,
    *,
    operation_id: str,
    timeout: int | None = None,
    processes: Collection[int] | None = None,
    record_event_name: str = "/jax/checkpoint/sync_global_devices_duration_sec",
) -> None:
    """Waits until all processes reach this barrier.

    Args:
        key: the barrier's name; a process may wait only once for each name.
        operation_id: the id of the save or load, equal on all processes.
        timeout: seconds; None means `multihost.coordination_timeout()`.
        processes: the processes that wait; None means all of them.
        record_event_name: the name under which the duration is reported to
            jax.

    Raises:
        ValueError: `timeout` is not positive, or this process is not in
            `processes`.
        jax.errors.JaxRuntimeError: some process did not arrive in time.
    """
    chosen = None if processes is None else set(processes)
    if multihost.should_skip_process_sync(chosen):
        return
    timeout = timeout or multihost.coordination_timeout()
    if timeout <= 0:
        raise ValueError(
            f"Timeout must be positive, but got {timeout} seconds."
        )
    await asyncio.to_thread(
        multihost.sync_global_processes,
        f"[op={operation_id}] {key}",
        timeout=timeout,
        processes=chosen,
        record_event_name=record_event_name,
    )
