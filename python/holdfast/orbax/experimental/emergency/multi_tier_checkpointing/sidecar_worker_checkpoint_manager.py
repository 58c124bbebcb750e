"""`orbax.checkpoint.experimental.emergency.multi_tier_checkpointing.sidecar_worker_checkpoint_manager`:
names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax.experimental.emergency._refusal import Refused
from holdfast.orbax.experimental.emergency.multi_tier_checkpointing.time_block import (  # noqa: E501
    TimeBlock,
)

__all__ = [
    "PyTree",
    "TimeBlock",
    "WorkerCheckpointManager",
    "WorkerCheckpointManagerRaw",
]

PyTree: TypeAlias = Any


class WorkerCheckpointManager(Refused):
    """Not supported yet: making one says so."""


class WorkerCheckpointManagerRaw(Refused):
    """Not supported yet: making one says so."""
