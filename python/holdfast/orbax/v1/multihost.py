"""Which of several processes this is: `orbax.checkpoint.v1.multihost`."""

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
    """Which process this is, as `jax.distributed` counts."""
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
    """Waits until all processes have come here.

    Args:
        key: the barrier's name; no process waits there twice.
        operation_id: of the save or load, alike on all processes.
        timeout: seconds; None: `multihost.coordination_timeout()`.
        processes: those that wait; None: all.
        record_event_name: under which jax is told how long it took.

    Raises:
        ValueError: a timeout that is not positive; this process is not one of
            `processes`.
        jax.errors.JaxRuntimeError: processes did not come in time.
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
