"""Policies that say which steps to keep: `v1.training.preservation_policies`.
"""

from __future__ import annotations

from holdfast.orbax.preservation_policy import (
    AnyPreservationPolicy,
    BestN,
    CustomSteps,
    EveryNSeconds,
    EveryNSteps,
    EveryNStepsClosest,
    LatestDuration,
    LatestN,
    NestedDict,
    PolicyCheckpointInfo,
    PreservationContext,
    PreservationPolicy,
    PreserveAll,
    PyTree,
)

__all__ = [
    "AnyPreservationPolicy",
    "BestN",
    "CustomSteps",
    "EveryNSeconds",
    "EveryNSteps",
    "EveryNStepsClosest",
    "LatestDuration",
    "LatestN",
    "NestedDict",
    "PolicyCheckpointInfo",
    "PreservationContext",
    "PreservationPolicy",
    "PreserveAll",
    "PyTree",
]
