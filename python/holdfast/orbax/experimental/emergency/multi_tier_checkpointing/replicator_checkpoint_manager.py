"""`orbax.checkpoint.experimental.emergency.multi_tier_checkpointing.replicator_checkpoint_manager`:
names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax.experimental.emergency._refusal import Refused
from holdfast.orbax.experimental.emergency.multi_tier_checkpointing.process_metadata_checkpoint_handler import (  # noqa: E501
    ProcessMetadataCheckpointHandler,
)
from holdfast.orbax.handler_registration import DefaultCheckpointHandlerRegistry
from holdfast.orbax.metadata import (
    RootMetadata,
    StepMetadata,
)
from holdfast.orbax.pytree_checkpoint_handler import PyTreeCheckpointHandler

__all__ = [
    "DefaultCheckpointHandlerRegistry",
    "ProcessMetadataCheckpointHandler",
    "PyTree",
    "PyTreeCheckpointHandler",
    "ReplicatorCheckpointManager",
    "ReplicatorCheckpointManagerOptions",
    "RootMetadata",
    "StepMetadata",
]

PyTree: TypeAlias = Any


class ReplicatorCheckpointManager(Refused):
    """Not supported yet: making one says so."""


class ReplicatorCheckpointManagerOptions(Refused):
    """Not supported yet: making one says so."""
