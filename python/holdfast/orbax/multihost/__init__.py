"""Process indices, barriers and broadcasts: `orbax.checkpoint.multihost`.

The processes are those of `jax.distributed`; a program without jax has one
process. Barriers use the client of `jax.distributed`, so every wait has a
deadline. Units: seconds, or milliseconds where a name says so.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Protocol

import numpy as np

from holdfast._lazy import importing
from holdfast._log import log
from holdfast.orbax._devices.optional_jax import imported_jax, require_jax
from holdfast.orbax.multihost._flags import define_bool

__all__ = [
    "EXPERIMENTAL_ORBAX_USE_DISTRIBUTED_BARRIER",
    "EXPERIMENTAL_ORBAX_USE_DISTRIBUTED_PROCESS_ID",
    "BarrierSyncFn",
    "broadcast_one_to_all",
    "coordination_timeout",
    "distributed_to_device_ids",
    "get_barrier_sync_fn",
    "get_jax_distributed_client",
    "global_max",
    "initialize_distributed_to_device_ids",
    "initialize_runtime_to_distributed_ids",
    "is_cloud_pathways_persistence_enabled",
    "is_distributed_to_device_ids_initialized",
    "is_jax_distributed_client_initialized",
    "is_native_pathways_backend",
    "is_pathways_backend",
    "is_pathways_colocated_runtime_active",
    "is_pathways_controller",
    "is_primary_host",
    "is_proxy_pathways_backend",
    "is_runtime_to_distributed_ids_initialized",
    "mark_pathways_colocated_runtime_active",
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
    "use_experimental_distributed_process_id",
]

EXPERIMENTAL_ORBAX_USE_DISTRIBUTED_PROCESS_ID = define_bool(
    "experimental_orbax_use_distributed_process_id",
    "If True, uses jax._src.distributed.global_state.process_id instead of"
    " jax.process_index().",
)
# Has no effect: every barrier here already uses that client.
EXPERIMENTAL_ORBAX_USE_DISTRIBUTED_BARRIER = define_bool(
    "experimental_orbax_use_distributed_barrier",
    "If True, uses the JAX distributed client for barriers, which supports"
    " timeouts. Otherwise, uses collectives-based barriers.",
)

_DURATION_EVENT = "/jax/checkpoint/sync_global_devices_duration_sec"
_DISCOVERY_TIMEOUT_MS = 5 * 60 * 1000


class _State:
    """Settings changed by functions of this module."""

    coordination_timeout_secs = 300
    runtime_to_distributed_ids: list[int] | None = None
    distributed_to_device_ids: list[list[int]] | None = None
    is_colocated_runtime = False


def coordination_timeout() -> int:
    """Returns how long processes wait for each other around writes."""
    return _State.coordination_timeout_secs


def set_coordination_timeout(timeout_secs: int) -> None:
    """Changes `coordination_timeout`; Orbax has no such function.

    Waits that include writing or reading are four times as long.

    Raises:
        ValueError: the timeout is not positive.
    """
    if timeout_secs <= 0:
        raise ValueError(
            f"Timeout must be positive, but got {timeout_secs} seconds."
        )
    _State.coordination_timeout_secs = timeout_secs


def _global_state() -> Any:
    """Returns the state of `jax.distributed`, or None without jax."""
    if imported_jax() is None:
        return None
    with importing:
        from jax._src import distributed

    return distributed.global_state


def _has_processes() -> bool:
    """Returns whether jax may have other processes.

    Asking jax directly would initialize its devices, which a numpy-only program
    may not want.
    """
    if imported_jax() is None:
        return False
    if is_jax_distributed_client_initialized():
        return True
    with importing:
        from jax._src import xla_bridge

    return bool(xla_bridge.backends_are_initialized())


def _counts_itself() -> bool:
    """Returns whether a single process has the id 0 by definition.

    This is so if the flag asks for ids of `jax.distributed`, but the program
    has not initialized `jax.distributed`.
    """
    return (
        use_experimental_distributed_process_id()
        and process_count() == 1
        and not is_jax_distributed_client_initialized()
    )


def process_count() -> int:
    """Returns the number of processes; 1 without jax."""
    if not _has_processes():
        return 1
    return int(require_jax("processes").process_count())


def use_experimental_distributed_process_id() -> bool:
    """Returns whether process indices are the ids of `jax.distributed`.

    The flag `experimental_orbax_use_distributed_process_id` decides.
    """
    try:
        return bool(EXPERIMENTAL_ORBAX_USE_DISTRIBUTED_PROCESS_ID.value)
    except Exception:  # absl has not parsed the program's flags
        return False


def process_index() -> int:
    """Returns the index of this process, starting from 0."""
    if not _has_processes():
        return 0
    if use_experimental_distributed_process_id():
        return int(_global_state().process_id)
    return int(require_jax("processes").process_index())


def process_index_from_device(device: Any) -> int:
    """Returns the index of the process that a jax device belongs to.

    Raises:
        ValueError: process indices are the ids of `jax.distributed`, and these
            are not known yet.
    """
    if use_experimental_distributed_process_id():
        return runtime_to_distributed_process_id(device.process_index)
    return int(device.process_index)


def unique_processes_from_devices(device_array: Any) -> set[int]:
    """Returns the process indices of an array of jax devices."""
    return {process_index_from_device(device) for device in device_array.flat}


def is_primary_host(primary_host: int | None) -> bool:
    """Returns whether this process writes shared files.

    If `primary_host` is None, every process does.
    """
    return primary_host is None or primary_host == process_index()


def should_skip_process_sync(processes: set[int] | None = None) -> bool:
    """Returns whether this process has no other process to wait for.

    Args:
        processes: the processes that would wait; None means all.
    """
    if processes and len(processes) == 1 and process_index() in processes:
        return True
    return process_count() == 1


def is_jax_distributed_client_initialized() -> bool:
    """Returns whether `jax.distributed.initialize` has been called."""
    state = _global_state()
    return state is not None and state.client is not None


def get_jax_distributed_client() -> Any:
    """Returns the client of `jax.distributed`.

    Raises:
        ValueError: no client exists.
    """
    if not is_jax_distributed_client_initialized():
        raise ValueError(
            "Distributed system is not available; please initialize it via "
            "`jax.distributed.initialize()` at the start of your program."
        )
    return _global_state().client


def _unique_barrier_key(key: str) -> str:
    """Returns a barrier's final name; tests replace this function."""
    return key


def unique_barrier_key(
    key: str, *, prefix: str | None = None, suffix: str | None = None
) -> str:
    """Adds a prefix and a suffix that make a barrier's name unique."""
    if prefix is not None:
        key = f"{prefix}_{key}"
    if suffix is not None:
        key = f"{key}.{suffix}"
    return key


def is_pathways_backend() -> bool:
    """Returns whether jax runs on Pathways."""
    return is_native_pathways_backend() or is_proxy_pathways_backend()


def _client() -> Any | None:
    """Returns the client that runs jax's devices, or None without jax."""
    jax = imported_jax()
    return None if jax is None else jax.devices()[0].client


def is_native_pathways_backend() -> bool:
    """Returns whether jax runs natively on Pathways."""
    client = _client()
    return hasattr(client, "pathways") or _runtime_type(client) == "pathways"


def is_proxy_pathways_backend() -> bool:
    """Returns whether jax runs on Pathways through a cloud proxy."""
    return _runtime_type(_client()) == "proxy/pathways"


def is_pathways_controller() -> bool:
    """Returns whether this program controls a Pathways job."""
    jax = imported_jax()
    if jax is None:
        return False
    return _runtime_type(jax.local_devices()[0].client) == "pathways"


def _runtime_type(client: Any | None) -> str | None:
    return getattr(client, "runtime_type", None)


def is_cloud_pathways_persistence_enabled() -> bool:
    """Returns whether ENABLE_PATHWAYS_PERSISTENCE is "1".

    Raises:
        ValueError: the variable is set to anything but "0" or "1".
    """
    value = os.environ.get("ENABLE_PATHWAYS_PERSISTENCE", "0")
    if value not in ("0", "1"):
        raise ValueError(
            "ENABLE_PATHWAYS_PERSISTENCE must be set to 1/0 or unset, got: "
            + value
        )
    return value == "1"


def mark_pathways_colocated_runtime_active() -> None:
    """Declares that Pathways runs this program next to its devices."""
    _State.is_colocated_runtime = True


def is_pathways_colocated_runtime_active() -> bool:
    """Returns whether `mark_pathways_colocated_runtime_active` has been
    called."""
    return _State.is_colocated_runtime


class BarrierSyncFn(Protocol):
    """A function that waits until all processes have arrived."""

    def __call__(self, *, key: str, timeout_ms: int) -> None:
        """Waits at the barrier `key`.

        Raises:
            jax.errors.JaxRuntimeError: some process did not arrive in time.
        """


def get_barrier_sync_fn(*, processes: set[int] | None = None) -> BarrierSyncFn:
    """Returns a function that waits at a barrier.

    Args:
        processes: the processes that wait; None means all.

    Returns:
        A function of `key` and `timeout_ms`, which does nothing if there is no
        other process to wait for.

    Raises:
        ValueError: this process is not in `processes`, or `jax.distributed` is
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
        key = _unique_barrier_key(key)
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
    """Waits until all processes reach this barrier.

    Args:
        name: the barrier's name.
        timeout: seconds; None means `coordination_timeout()`.
        processes: the processes that wait; None means all.
        barrier_sync_fn: waits in place of the client of `jax.distributed`.
        record_event_name: the name under which the duration is reported to
            jax.

    Raises:
        jax.errors.JaxRuntimeError: some processes did not arrive in time; the
            message names them.
        ValueError: this process is not in `processes`.
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
    """Returns one process's tree of arrays on all processes.

    Args:
        in_tree: arrays with the same shapes and dtypes on all processes.
        is_source: whether this process sends its values; None means that the
            first process does.
    """
    with importing:
        from jax.experimental import multihost_utils

    if is_source is None:
        is_source = process_index() == 0
    return multihost_utils.broadcast_one_to_all(in_tree, is_source=is_source)


def reached_preemption(step: int) -> bool:
    """Returns whether all processes should save this step before preemption.

    Args:
        step: the step's number, equal on all processes.
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
        log.warning(
            "[process=%s][thread=%s] Reached preemption sync point, step=%s",
            process_index(),
            threading.current_thread().name,
            step,
        )
    return is_reached


def is_runtime_to_distributed_ids_initialized() -> bool:
    """Returns whether `initialize_runtime_to_distributed_ids` has been
    called."""
    return _State.runtime_to_distributed_ids is not None


def initialize_runtime_to_distributed_ids() -> None:
    """Exchanges the processes' ids in `jax.distributed`.

    Every process must call this function once.

    Raises:
        ValueError: `jax.distributed` is not initialized. Only a single process
            with the flag `experimental_orbax_use_distributed_process_id` does
            not need it.
    """
    found = _exchange(
        "jax/process_id/",
        process_index(),
        _distributed_id(),
        "orbax_global_discovery",
    )
    ids = [found.get(i, 0) for i in range(process_count())]
    _State.runtime_to_distributed_ids = ids


def _distributed_id() -> int:
    if _counts_itself():
        return 0
    get_jax_distributed_client()  # raises without a client
    return int(_global_state().process_id)


def _exchange(
    directory: str, own_key: int, own_value: Any, barrier: str
) -> dict[int, Any]:
    """Exchanges JSON values; returns every process's value by key."""
    if _counts_itself():
        return {own_key: own_value}
    client = get_jax_distributed_client()
    client.key_value_set(f"{directory}{own_key}", json.dumps(own_value))
    client.wait_at_barrier(barrier, _DISCOVERY_TIMEOUT_MS)
    return {
        int(key.split("/")[-1]): json.loads(value)
        for key, value in client.key_value_dir_get(directory)
    }


def runtime_to_distributed_ids() -> list[int]:
    """Returns the id of each process in `jax.distributed`.

    Raises:
        ValueError: the ids are not known yet.
    """
    ids = _State.runtime_to_distributed_ids
    if ids is None and _counts_itself():
        return [0]
    if ids is None:
        raise ValueError("Please call initialize_runtime_to_distributed_ids().")
    return ids


def runtime_to_distributed_process_id(pid: int) -> int:
    """Returns the id of a process in `jax.distributed`.

    Raises:
        ValueError: the id is not known yet.
    """
    return runtime_to_distributed_ids()[pid]


def is_distributed_to_device_ids_initialized() -> bool:
    """Returns whether `initialize_distributed_to_device_ids` has been
    called."""
    return _State.distributed_to_device_ids is not None


def initialize_distributed_to_device_ids() -> None:
    """Exchanges the ids of the processes' devices.

    Every process must call this function; later calls do nothing.

    Raises:
        ValueError: `jax.distributed` is not initialized. Only a single process
            with the flag `experimental_orbax_use_distributed_process_id` does
            not need it.
    """
    if is_distributed_to_device_ids_initialized():
        return
    found = _exchange(
        "orbax/distributed_to_device_ids/",
        _distributed_id(),
        [device.id for device in require_jax("devices").local_devices()],
        "orbax_global_discovery_device_ids",
    )
    _State.distributed_to_device_ids = [found[i] for i in range(len(found))]


def distributed_to_device_ids() -> list[list[int]]:
    """Returns each process's device ids, indexed by id in `jax.distributed`.

    Raises:
        ValueError: the device ids are not known yet.
    """
    ids = _State.distributed_to_device_ids
    if ids is None:
        raise ValueError("Please call initialize_distributed_to_device_ids().")
    return ids


def global_max(values: list[int]) -> list[int]:
    """Returns the element-wise maximum over all processes.

    Every process must call this function.

    Args:
        values: n 32-bit integers.

    Returns:
        The n maxima.
    """
    with importing:
        from jax.experimental import multihost_utils

    own = np.asarray(values, np.int32)
    rows = np.asarray(multihost_utils.process_allgather(own))
    highest = rows.reshape(-1, len(values)).max(axis=0)
    return [int(value) for value in highest]
