"""`orbax.checkpoint.experimental.emergency.replicator_checkpoint_manager`:
names of other modules."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency.multi_tier_checkpointing.replicator_checkpoint_manager import (  # noqa: E501
    ReplicatorCheckpointManager,
    ReplicatorCheckpointManagerOptions,
)

__all__ = [
    "ReplicatorCheckpointManager",
    "ReplicatorCheckpointManagerOptions",
]
