"""Managers and their policies: `orbax.checkpoint.checkpoint_managers`."""

from typing import Any

from holdfast.orbax import save_decision_policy
from holdfast.orbax._later import attribute_error
from holdfast.orbax._manager_options import CheckpointManagerOptions
from holdfast.orbax.checkpoint_manager import CheckpointManager
from holdfast.orbax.save_decision_policy import (
    AnySavePolicy,
    ContinuousCheckpointingPolicy,
    DecisionContext,
    FixedIntervalPolicy,
    InitialSavePolicy,
    PolicyCheckpointInfo,
    PreemptionCheckpointingPolicy,
    SaveDecisionPolicy,
    SpecificStepsPolicy,
)

__all__ = [
    "AnySavePolicy",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "ContinuousCheckpointingPolicy",
    "DecisionContext",
    "FixedIntervalPolicy",
    "InitialSavePolicy",
    "PolicyCheckpointInfo",
    "PreemptionCheckpointingPolicy",
    "SaveDecisionPolicy",
    "SpecificStepsPolicy",
    "save_decision_policy",
]

_LATER = frozenset(
    {
        "AbstractCheckpointManager",
        "AnyPreservationPolicy",
        "BestN",
        "CustomSteps",
        "EveryNSeconds",
        "EveryNSteps",
        "EveryNStepsClosest",
        "LatestDuration",
        "LatestN",
        "PreservationContext",
        "PreservationPolicy",
        "PreserveAll",
        "preservation_policy",
    }
)


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, _LATER)
