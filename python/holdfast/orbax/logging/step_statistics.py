"""Measurements passed to loggers: `logging.step_statistics`.

Times are seconds since 1970; durations are seconds.
"""

from __future__ import annotations

import dataclasses

from holdfast.orbax.metadata.step import StepStatistics

__all__ = [
    "EmergencyRestoreStepStatistics",
    "RestoreStepStatistics",
    "SaveStepStatistics",
]

SaveStepStatistics = StepStatistics


@dataclasses.dataclass
class RestoreStepStatistics:
    """Measurements of a restore.

    Attributes:
        step: the step's number.
        event_type: "restore".
        directory: the directory of the steps.
        checkpointer_start_time: when the checkpointer began.
        checkpointer_duration_secs: how long the checkpointer took.
        checkpoint_manager_start_time: when the manager began.
        checkpoint_manager_duration_secs: how long the manager took.
    """

    step: int | None = None
    event_type: str | None = "restore"
    directory: str | None = None
    checkpointer_start_time: float | None = None
    checkpointer_duration_secs: float | None = None
    checkpoint_manager_start_time: float | None = None
    checkpoint_manager_duration_secs: float | None = None


@dataclasses.dataclass
class EmergencyRestoreStepStatistics:
    """Measurements of a restore after an emergency; all are optional."""

    step: int | None = None
    event_type: str | None = "emergency_restore"
    checkpoint_manager_start_time: float | None = None
    directory: str | None = None
    is_restoring_slice: bool | None = False
    in_primary_slice: bool | None = False
    checkpointer_start_time: float | None = None
    checkpointer_duration_secs: float | None = None
    broadcast_start_time: float | None = None
    broadcast_duration_secs: float | None = None
    checkpoint_manager_duration_secs: float | None = None
