"""`orbax.checkpoint.experimental.emergency.multi_tier_checkpointing.process_metadata_checkpoint_handler`:
names alone."""

from __future__ import annotations

from typing import TypeAlias

from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    register_with_handler,
)
from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "CheckpointArgs",
    "PreviousDeviceIds",
    "PreviousDistributedToDeviceIds",
    "ProcessMetadataCheckpointHandler",
    "ProcessMetadataRestoreArgs",
    "ProcessMetadataSaveArgs",
    "register_with_handler",
]

PreviousDeviceIds: TypeAlias = list[int]
PreviousDistributedToDeviceIds: TypeAlias = list[list[int]]


class ProcessMetadataCheckpointHandler(Refused):
    """Not supported yet: making one says so."""


class ProcessMetadataRestoreArgs(Refused):
    """Not supported yet: making one says so."""


class ProcessMetadataSaveArgs(Refused):
    """Not supported yet: making one says so."""
