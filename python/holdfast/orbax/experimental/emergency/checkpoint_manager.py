"""`orbax.checkpoint.experimental.emergency.checkpoint_manager`: names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax._handler import CheckpointHandler
from holdfast.orbax.experimental.emergency._refusal import Refused
from holdfast.orbax.experimental.emergency.local_checkpoint_data_debugging import (  # noqa: E501
    get_present_and_missing_chunks,
)
from holdfast.orbax.experimental.emergency.multi_tier_checkpointing.process_metadata_checkpoint_handler import (  # noqa: E501
    ProcessMetadataCheckpointHandler,
)
from holdfast.orbax.metadata import (
    RootMetadata,
    StepMetadata,
)
from holdfast.orbax.pytree_checkpoint_handler import PyTreeCheckpointHandler

__all__ = [
    "CheckpointHandler",
    "CheckpointHandlersDict",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "ChunkId",
    "LocalCheckpointOptions",
    "MultiprocessingOptions",
    "PersistentCheckpointOptions",
    "ProcessMetadataCheckpointHandler",
    "PyTree",
    "PyTreeCheckpointHandler",
    "RootMetadata",
    "StepMetadata",
    "get_present_and_missing_chunks",
]

CheckpointHandlersDict: TypeAlias = dict[str, CheckpointHandler]
ChunkId: TypeAlias = tuple[int, ...]
PyTree: TypeAlias = Any


class CheckpointManager(Refused):
    """Not supported yet: making one says so."""


class CheckpointManagerOptions(Refused):
    """Not supported yet: making one says so."""


class LocalCheckpointOptions(Refused):
    """Not supported yet: making one says so."""


class MultiprocessingOptions(Refused):
    """Not supported yet: making one says so."""


class PersistentCheckpointOptions(Refused):
    """Not supported yet: making one says so."""
