"""The steps of a training run: `orbax.checkpoint.v1.training`."""

from __future__ import annotations

from typing import Any

from holdfast.orbax._later import attribute_error
from holdfast.orbax.v1._step_metadata import (
    CheckpointMetadata,
    RootMetadata,
)
from holdfast.orbax.v1.training import (
    errors,
    preservation_policies,
    save_decision_policies,
)
from holdfast.orbax.v1.training._checkpointer import Checkpointer

__all__ = [
    "CheckpointMetadata",
    "Checkpointer",
    "RootMetadata",
    "errors",
    "preservation_policies",
    "save_decision_policies",
]


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, {"pathways"})
