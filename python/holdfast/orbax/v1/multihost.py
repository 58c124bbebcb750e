"""Which of several processes this is: `orbax.checkpoint.v1.multihost`.

holdfast saves and loads from one process; these tell what jax tells.
"""

from __future__ import annotations

from typing import Any

from holdfast.orbax._jax import imported_jax
from holdfast.orbax._later import attribute_error

__all__ = ["is_primary_host", "process_count", "process_index"]


def process_count() -> int:
    """How many processes jax runs in; 1 without jax."""
    jax = imported_jax()
    return 1 if jax is None else int(jax.process_count())


def process_index() -> int:
    """Which of them this is, from 0."""
    jax = imported_jax()
    return 0 if jax is None else int(jax.process_index())


def is_primary_host(primary_host: int | None) -> bool:
    """Whether this process writes shared files; None: every process does."""
    return primary_host is None or process_index() == primary_host


def __getattr__(name: str) -> Any:
    later = {"is_pathways_backend", "sync_global_processes"}
    raise attribute_error(__name__, name, later)
