"""Options of checkpointers and handlers: `orbax.checkpoint.options`.

Plain values with Orbax's names and defaults.
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
        timeout_secs: must be positive; how long a process waits for the others
            to have written.
        barrier_sync_fn: waits for other processes as well, before holdfast
            does; called with `key` and `timeout_ms`.
        post_finalization_callback: called before the checkpoint appears.
        create_directories_asynchronously: ignored; accepted because Orbax has
            it. Directories are always made before `save` returns, which takes
            microseconds.
    """

    timeout_secs: int = 1200
    barrier_sync_fn: Callable[..., Any] | None = None
    post_finalization_callback: Callable[[], None] | None = None
    create_directories_asynchronously: bool = True


@dataclasses.dataclass
class MultiprocessingOptions:
    """Which processes take part, and which of them writes shared files.

    Attributes:
        primary_host: the process that makes directories and writes everything
            that is not sharded; None: every process saves all it has to a
            directory of its own.
        active_processes: those that save and restore; None: all.
        barrier_sync_key_prefix: comes before the names of barriers.
    """

    primary_host: int | None = 0
    active_processes: set[int] | None = None
    barrier_sync_key_prefix: str | None = None


class AtomicityMode(str, enum.Enum):
    """The way in which a checkpoint appears all at once."""

    AUTO = "auto"
    COMMIT_FILE = "commit_file"
    ATOMIC_RENAME = "atomic_rename"


@dataclasses.dataclass(frozen=True)
class AtomicityOptions:
    """How checkpoints are committed and recognised as complete.

    Attributes:
        mode: with COMMIT_FILE only directories holding `commit_success.txt`
            count as complete.
        allow_legacy_atomic_rename: with COMMIT_FILE, also take complete
            directories without that file.
    """

    mode: AtomicityMode = AtomicityMode.AUTO
    allow_legacy_atomic_rename: bool = False


@dataclasses.dataclass(frozen=True)
class FileOptions:
    """How files and directories are made.

    Attributes:
        path_permission_mode: mode of created directories, e.g. 0o750.
        skip_sync_file_validations: do not look for an existing destination
            before the background save starts.
    """

    path_permission_mode: int | None = None
    skip_sync_file_validations: bool = False


@dataclasses.dataclass
class MemoryLimitOptions:
    """Limits of host memory during a save; in gigabytes (10^9 bytes)."""

    max_transfer_concurrent_gb: int | None = None


@dataclasses.dataclass(kw_only=True)
class PyTreeMetadataOptions:
    """The containers that `_METADATA` records.

    Attributes:
        support_rich_types: record tuples and namedtuples as such.
    """

    support_rich_types: bool = False


PYTREE_METADATA_OPTIONS = PyTreeMetadataOptions()
