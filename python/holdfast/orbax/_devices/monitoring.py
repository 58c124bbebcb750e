"""Reports the same events as Orbax to jax's listeners (`jax.monitoring`).

Nothing is reported unless the program has imported jax, because without jax
there are no listeners.
Units: seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from holdfast.orbax._checkpointer.paths import PathAwaitingCreation, is_gcs_path
from holdfast.orbax._devices.optional_jax import imported_jax, is_jax_array
from holdfast.orbax.multihost import is_primary_host
from holdfast.orbax.tree_paths import tree_leaves

_BYTES_PER_GIB = 1024**3


def record_event(name: str, **facts: Any) -> None:
    """Reports an event."""
    jax = imported_jax()
    if jax is not None:
        jax.monitoring.record_event(name, **facts)


def record_duration(name: str, duration_secs: float, **facts: Any) -> None:
    """Reports a duration."""
    jax = imported_jax()
    if jax is not None:
        jax.monitoring.record_event_duration_secs(name, duration_secs, **facts)


def record_scalar(name: str, value: float, **facts: Any) -> None:
    """Reports a number."""
    jax = imported_jax()
    if jax is not None:
        jax.monitoring.record_scalar(name, value, **facts)


@contextlib.contextmanager
def timed(*names: str) -> Iterator[None]:
    """Reports the duration of a block under each name if it succeeds."""
    start = time.time()
    yield
    duration = time.time() - start
    for name in names:
        record_duration(name, duration)


@dataclasses.dataclass(frozen=True)
class SaveContext:
    """The time that a caller has already spent on a save, in seconds.

    Attributes:
        checkpoint_start_time: start of the save, in `time.time` seconds.
        start_sync_duration_secs: time spent waiting for other processes.
        wait_prev_duration_secs: time spent waiting for the previous save.
    """

    checkpoint_start_time: float
    start_sync_duration_secs: float = 0.0
    wait_prev_duration_secs: float = 0.0


def _facts_of(path: Any) -> dict[str, Any]:
    is_gcs = is_gcs_path(os.fspath(path))
    return {"storage_type": "gcs" if is_gcs else "other"}


class MonitoredOperation:
    """A save or load whose beginning and end are reported to listeners."""

    def __init__(
        self,
        path: Any,
        *,
        is_save: bool,
        is_async: bool = False,
        primary_host: int | None = 0,
        context: SaveContext | None = None,
    ) -> None:
        """Records that the operation begins now.

        Args:
            path: the checkpoint's path.
            is_save: True for a save, False for a load.
            is_async: whether the operation continues in the background.
            primary_host: the process that reports; None means every process.
            context: the time that was already spent on the operation.
        """
        self._made_at = time.time()
        self._context = context or SaveContext(self._made_at)
        self.start_time = self._context.checkpoint_start_time
        kind = "write" if is_save else "read"
        self._is_async_save = is_save and is_async
        self._kind = f"/jax/orbax/{kind}"
        self._name = f"{self._kind}/async" if is_async else self._kind
        self._is_save = is_save
        self._facts = _facts_of(path)
        self._primary_host = primary_host

    def started(self) -> None:
        """Reports that all processes have arrived."""
        if self._is_save:
            sync_secs = time.time() - self._made_at
            record_duration(
                f"{self._kind}/checkpoint_start_sync_duration_secs",
                sync_secs + self._context.start_sync_duration_secs,
            )
        self.begun()

    def begun(self) -> None:
        """Reports that an operation has begun without waiting for processes."""
        if is_primary_host(self._primary_host):
            record_event(f"{self._name}/start")
            if self._is_save:
                record_scalar(
                    f"{self._name}/start_time",
                    1000 * self.start_time,
                    **self._facts,
                )
        record_event(f"{self._kind}/storage_type", **self._facts)

    def waited(self, duration_secs: float) -> None:
        """Reports that the previous save has ended.

        Args:
            duration_secs: how long this save waited for the previous save.
        """
        record_duration(
            f"{self._kind}/blocking_wait_prev_duration_secs",
            duration_secs + self._context.wait_prev_duration_secs,
        )

    def blocked(self) -> None:
        """Reports that the caller can continue."""
        if not is_primary_host(self._primary_host):
            return
        end = time.time()
        duration = end - self.start_time
        if self._is_async_save:
            name = "/jax/checkpoint/write/async/blocking_duration_secs"
            record_duration(name, duration)
        record_duration(
            f"{self._name}/blocking_duration_secs", duration, **self._facts
        )
        if self._is_save:
            record_scalar(
                f"{self._name}/blocking_end_time", 1000 * end, **self._facts
            )

    def done(self) -> None:
        """Reports that the operation has ended successfully."""
        if not is_primary_host(self._primary_host):
            return
        duration = time.time() - self.start_time
        record_event(f"{self._kind}/success")
        if self._is_async_save:
            name = "/jax/checkpoint/write/async/total_duration_secs"
            record_duration(name, duration, **self._facts)
        record_duration(
            f"{self._name}/total_duration_secs", duration, **self._facts
        )


class Transfer:
    """Reports how much of a tree was saved or loaded, and how fast."""

    def __init__(self, path: Any, primary_host: int | None = 0) -> None:
        """Records that the transfer begins now.

        Args:
            path: the item's path, or a path that is known when the transfer
                ends.
            primary_host: the process that reports; None means that no process
                does.
        """
        self._path = path
        self._start_time = time.time()
        self._tells = primary_host is not None and is_primary_host(primary_host)
        self._bytes = 0
        self._jax_bytes = 0

    def count(self, tree: Any) -> None:
        """Adds the sizes of a tree's leaves to the transfer's size."""
        if imported_jax() is None:
            return
        bytes_of_type: dict[type, int] = {}
        leaf_of_type: dict[type, Any] = {}
        for leaf in tree_leaves(tree):
            size = getattr(leaf, "nbytes", None)
            size = sys.getsizeof(leaf) if size is None else size
            kind = type(leaf)
            bytes_of_type[kind] = bytes_of_type.get(kind, 0) + size
            leaf_of_type[kind] = leaf
        for kind, size in bytes_of_type.items():
            self._bytes += size
            if is_jax_array(leaf_of_type[kind]):
                self._jax_bytes += size

    def copied(self) -> None:
        """Reports that the caller may change the leaves of a save."""
        self._record("/jax/orbax/write/blocking_gbytes_per_sec")

    def written(self) -> None:
        """Reports that the leaves have been written to files."""
        self._record("/jax/orbax/write/gbytes_per_sec")
        self._record("/jax/orbax/write/gbytes", is_speed=False)
        self._record_worker("write")

    def read(self) -> None:
        """Reports that the leaves have been loaded."""
        self._record("/jax/checkpoint/read/gbytes_per_sec")
        self._record("/jax/checkpoint/read/gbytes", is_speed=False)
        self._record_worker("read")

    def _record(self, name: str, *, is_speed: bool = True) -> None:
        if self._tells:
            self._record_size(name, self._bytes, is_speed)

    def _record_size(
        self, name: str, size: int, is_speed: bool, **facts: Any
    ) -> None:
        value = size / _BYTES_PER_GIB
        if is_speed:
            value /= max(time.time() - self._start_time, 1e-9)
        record_scalar(name, value, **facts)

    def _record_worker(self, kind: str) -> None:
        """Reports this process's work on jax.Arrays."""
        if self._jax_bytes == 0:
            return
        worker = f"/jax/orbax/{kind}/worker"
        path = self._path
        if isinstance(path, PathAwaitingCreation):
            path = path.path
        facts = {"custom_prefix": "", **_facts_of(path)}
        duration = time.time() - self._start_time
        name = f"{worker}/total_duration_secs"
        record_duration(name, duration, **facts)
        for name, is_speed in (
            (f"{worker}/io/requested/gbytes", False),
            (f"{worker}/io/requested/throughput/gbytes_per_sec", True),
        ):
            size = self._jax_bytes
            self._record_size(name, size, is_speed, **facts)
