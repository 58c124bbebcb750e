"""`orbax.checkpoint.experimental.emergency.process_metadata_checkpoint_handler`:
names of other modules."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency.multi_tier_checkpointing.process_metadata_checkpoint_handler import (  # noqa: E501
    ProcessMetadataCheckpointHandler,
    ProcessMetadataRestoreArgs,
    ProcessMetadataSaveArgs,
)

__all__ = [
    "ProcessMetadataCheckpointHandler",
    "ProcessMetadataRestoreArgs",
    "ProcessMetadataSaveArgs",
]
