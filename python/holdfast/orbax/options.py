"""Options of checkpointers and handlers: `orbax.checkpoint.options`.

The options have Orbax's names and defaults.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass
class AsyncOptions:
    """How a checkpointer saves in the background.

    Attributes:
        timeout_secs: how long a process waits for the other processes to finish
            writing; must be positive.
        barrier_sync_fn: an additional barrier, called with `key` and
            `timeout_ms` before holdfast's own.
        post_finalization_callback: called just before the checkpoint appears.
        create_directories_asynchronously: ignored; accepted because Orbax has
            it. Directories are always created before `save` returns, which
            takes microseconds.
    """

    timeout_secs: int = 1200
    barrier_sync_fn: Callable[..., Any] | None = None
    post_finalization_callback: Callable[[], None] | None = None
    create_directories_asynchronously: bool = True


@dataclasses.dataclass
class MultiprocessingOptions:
    """Which processes take part, and which process writes shared files.

    Attributes:
        primary_host: the process that creates directories and writes everything
            that is not sharded. If None, every process saves all its data to
            its own directory.
        active_processes: the processes that save and restore; None means all.
        barrier_sync_key_prefix: precedes the names of barriers.
    """

    primary_host: int | None = 0
    active_processes: set[int] | None = None
    barrier_sync_key_prefix: str | None = None


class AtomicityMode(str, enum.Enum):
    """How a checkpoint is committed."""

    AUTO = "auto"
    COMMIT_FILE = "commit_file"
    ATOMIC_RENAME = "atomic_rename"


@dataclasses.dataclass(frozen=True)
class AtomicityOptions:
    """How checkpoints are committed and recognized as complete.

    Attributes:
        mode: with COMMIT_FILE, only directories that contain
            `commit_success.txt` count as complete.
        allow_legacy_atomic_rename: with COMMIT_FILE, also accepts complete
            directories without that file.
    """

    mode: AtomicityMode = AtomicityMode.AUTO
    allow_legacy_atomic_rename: bool = False


@dataclasses.dataclass(frozen=True)
class FileOptions:
    """How files and directories are created.

    Attributes:
        path_permission_mode: mode of created directories, e.g. 0o750.
        skip_sync_file_validations: does not check whether the destination
            exists before the background save starts.
    """

    path_permission_mode: int | None = None
    skip_sync_file_validations: bool = False


@dataclasses.dataclass
class MemoryLimitOptions:
    """Limits on host memory during a save, in gigabytes (10^9 bytes)."""

    max_transfer_concurrent_gb: int | None = None


@dataclasses.dataclass(kw_only=True)
class PyTreeMetadataOptions:
    """Which containers `_METADATA` records.

    Attributes:
        support_rich_types: records tuples and namedtuples as such.
    """

    support_rich_types: bool = False


PYTREE_METADATA_OPTIONS = PyTreeMetadataOptions()
