"""The steps of a training run: `orbax.checkpoint.v1.training`."""

from __future__ import annotations

from holdfast.orbax.v1._step_metadata import (
    CheckpointMetadata,
    RootMetadata,
)
from holdfast.orbax.v1.training import (
    errors,
    pathways,
    preservation_policies,
    save_decision_policies,
)
from holdfast.orbax.v1.training._checkpointer import Checkpointer

__all__ = [
    "CheckpointMetadata",
    "Checkpointer",
    "RootMetadata",
    "errors",
    "pathways",
    "preservation_policies",
    "save_decision_policies",
]
