"""Which of several processes this is, and waiting for the others:
`orbax.checkpoint.multihost`.

The processes are those of `jax.distributed`; a program without jax is one
process. Barriers go through the client of `jax.distributed`, so every wait has
a deadline. Units: seconds, and milliseconds where a name says so.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Protocol

from holdfast._lazy import importing
from holdfast.orbax._jax import imported_jax, require_jax

__all__ = [
    "BarrierSyncFn",
    "broadcast_one_to_all",
    "coordination_timeout",
    "get_barrier_sync_fn",
    "get_jax_distributed_client",
    "initialize_runtime_to_distributed_ids",
    "is_jax_distributed_client_initialized",
    "is_pathways_backend",
    "is_primary_host",
    "is_runtime_to_distributed_ids_initialized",
    "process_count",
    "process_index",
    "process_index_from_device",
    "reached_preemption",
    "runtime_to_distributed_ids",
    "runtime_to_distributed_process_id",
    "set_coordination_timeout",
    "should_skip_process_sync",
    "sync_global_processes",
    "unique_barrier_key",
    "unique_processes_from_devices",
]

_DURATION_EVENT = "/jax/checkpoint/sync_global_devices_duration_sec"
_DISCOVERY_TIMEOUT_MS = 5 * 60 * 1000


class _State:
    """The settings made by calls of this module."""

    coordination_timeout_secs = 300
    runtime_to_distributed_ids: list[int] | None = None


def coordination_timeout() -> int:
    """How long processes wait for each other before and after they write."""
    return _State.coordination_timeout_secs


def set_coordination_timeout(timeout_secs: int) -> None:
    """Changes `coordination_timeout`; not a name of Orbax.

    Waits that include writing or reading are four times as long.

    Raises:
        ValueError: it is not positive.
    """
    if timeout_secs <= 0:
        raise ValueError(
            f"Timeout must be positive, but got {timeout_secs} seconds."
        )
    _State.coordination_timeout_secs = timeout_secs


def _global_state() -> Any | None:
    """The state of `jax.distributed`; None without jax."""
    if imported_jax() is None:
        return None
    with importing:
        from jax._src import distributed

    return distributed.global_state


def _has_processes() -> bool:
    """Whether jax may know of other processes.

    Asking jax starts its devices, which a program that only has numpy arrays
    may not want.
    """
    if imported_jax() is None:
        return False
    if is_jax_distributed_client_initialized():
        return True
    with importing:
        from jax._src import xla_bridge

    return bool(xla_bridge.backends_are_initialized())


def process_count() -> int:
    """How many processes there are; 1 without jax."""
    if not _has_processes():
        return 1
    return int(require_jax("processes").process_count())


def process_index() -> int:
    """Which of them this is, from 0."""
    if not _has_processes():
        return 0
    return int(require_jax("processes").process_index())


def process_index_from_device(device: Any) -> int:
    """The process that a jax device belongs to."""
    return int(device.process_index)


def unique_processes_from_devices(device_array: Any) -> set[int]:
    """The processes of an array of jax devices."""
    return {process_index_from_device(device) for device in device_array.flat}


def is_primary_host(primary_host: int | None) -> bool:
    """Whether this process writes shared files; None: every process does."""
    return primary_host is None or primary_host == process_index()


def should_skip_process_sync(processes: set[int] | None = None) -> bool:
    """Whether this process has nobody to wait for.

    Args:
        processes: those that would wait; None: all.
    """
    if processes and len(processes) == 1 and process_index() in processes:
        return True
    return process_count() == 1


def is_jax_distributed_client_initialized() -> bool:
    """Whether `jax.distributed.initialize` has been called."""
    state = _global_state()
    return state is not None and state.client is not None


def get_jax_distributed_client() -> Any:
    """The client of `jax.distributed`.

    Raises:
        ValueError: there is none.
    """
    if not is_jax_distributed_client_initialized():
        raise ValueError(
            "Distributed system is not available; please initialize it via "
            "`jax.distributed.initialize()` at the start of your program."
        )
    state = _global_state()
    assert state is not None
    return state.client


def unique_barrier_key(
    key: str, *, prefix: str | None = None, suffix: str | None = None
) -> str:
    """The name of a barrier with what tells it apart from others."""
    if prefix is not None:
        key = f"{prefix}_{key}"
    if suffix is not None:
        key = f"{key}.{suffix}"
    return key


def is_pathways_backend() -> bool:
    """Whether jax runs on Pathways."""
    jax = imported_jax()
    if jax is None:
        return False
    client = jax.devices()[0].client
    names = ("pathways", "proxy/pathways")
    return hasattr(client, "pathways") or client.runtime_type in names


class BarrierSyncFn(Protocol):
    """Waits until all processes have come."""

    def __call__(self, *, key: str, timeout_ms: int) -> None:
        """Waits at the barrier `key`.

        Raises:
            jax.errors.JaxRuntimeError: processes did not come in time.
        """


def get_barrier_sync_fn(*, processes: set[int] | None = None) -> BarrierSyncFn:
    """A function that waits at a barrier.

    Args:
        processes: those that wait; None: all.

    Returns:
        What takes `key` and `timeout_ms`; it does nothing where there is
        nobody to wait for.

    Raises:
        ValueError: this process is not one of them, or `jax.distributed` is
            not initialized.
    """
    if should_skip_process_sync(processes):
        return lambda **kwargs: None
    client = get_jax_distributed_client()
    if processes and process_index() not in processes:
        raise ValueError(
            "Attempted to create a barrier across a subset of processes, but"
            f" the current process: {process_index()} was not present in the"
            f" provided list of processes: {processes}."
        )

    def wait(*, key: str, timeout_ms: int) -> None:
        if processes is None:
            client.wait_at_barrier(key, timeout_ms)
        else:
            client.wait_at_barrier(key, timeout_ms, process_ids=list(processes))

    return wait


def sync_global_processes(
    name: str,
    *,
    timeout: int | None = None,
    processes: set[int] | None = None,
    barrier_sync_fn: BarrierSyncFn | None = None,
    record_event_name: str = _DURATION_EVENT,
) -> None:
    """Waits until all processes have come here.

    Args:
        name: the barrier's.
        timeout: seconds; None: `coordination_timeout()`.
        processes: those that wait; None: all.
        barrier_sync_fn: waits, instead of the client of `jax.distributed`.
        record_event_name: under which jax is told how long it took.

    Raises:
        jax.errors.JaxRuntimeError: processes did not come in time; it names
            them.
        ValueError: this process is not one of `processes`.
    """
    if should_skip_process_sync(processes):
        return
    start = time.time()
    wait = barrier_sync_fn or get_barrier_sync_fn(processes=processes)
    wait(key=name, timeout_ms=(timeout or coordination_timeout()) * 1000)
    require_jax("a barrier").monitoring.record_event_duration_secs(
        record_event_name, time.time() - start
    )


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """A tree of arrays as one process has it, on all of them.

    Args:
        in_tree: arrays of the same shapes and dtypes on all processes.
        is_source: whether this process's values count; None: the first's do.
    """
    with importing:
        from jax.experimental import multihost_utils

    if is_source is None:
        is_source = process_index() == 0
    return multihost_utils.broadcast_one_to_all(in_tree, is_source=is_source)


def reached_preemption(step: int) -> bool:
    """Whether all processes are to save at this step before they are ended.

    Args:
        step: the number of the step, alike on all processes.
    """
    jax = require_jax("preemption")
    with importing:
        from jax.experimental import multihost_utils

    try:
        is_reached = bool(multihost_utils.reached_preemption_sync_point(step))
    except RuntimeError:
        return False  # the service is switched off
    if is_reached:
        jax.monitoring.record_event("/jax/orbax/write/preemption")
        logging.warning(
            "[process=%s][thread=%s] Reached preemption sync point, step=%s",
            process_index(),
            threading.current_thread().name,
            step,
        )
    return is_reached


def is_runtime_to_distributed_ids_initialized() -> bool:
    """Whether `initialize_runtime_to_distributed_ids` has been called."""
    return _State.runtime_to_distributed_ids is not None


def initialize_runtime_to_distributed_ids() -> None:
    """Lets all processes tell each other their ids in `jax.distributed`.

    All processes call it, once.

    Raises:
        ValueError: `jax.distributed` is not initialized.
    """
    client = get_jax_distributed_client()
    state = _global_state()
    assert state is not None
    directory = "jax/process_id/"
    client.key_value_set(f"{directory}{process_index()}", str(state.process_id))
    client.wait_at_barrier("orbax_global_discovery", _DISCOVERY_TIMEOUT_MS)
    ids = [0] * process_count()
    for key, distributed_id in client.key_value_dir_get(directory):
        ids[int(key.split("/")[-1])] = int(distributed_id)
    _State.runtime_to_distributed_ids = ids


def runtime_to_distributed_ids() -> list[int]:
    """The id in `jax.distributed` of each process.

    Raises:
        ValueError: they are not known yet.
    """
    ids = _State.runtime_to_distributed_ids
    if ids is None:
        raise ValueError("Please call initialize_runtime_to_distributed_ids().")
    return ids


def runtime_to_distributed_process_id(pid: int) -> int:
    """The id in `jax.distributed` of a process.

    Raises:
        ValueError: it is not known yet.
    """
    return runtime_to_distributed_ids()[pid]
