"""What a manager knows of a step, and when it says that one is to be saved."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

from holdfast.orbax._manager_options import CheckpointManagerOptions
from holdfast.orbax.save_decision_policy import (
    AnySavePolicy,
    DecisionContext,
    FixedIntervalPolicy,
    InitialSavePolicy,
    PolicyCheckpointInfo,
    PreemptionCheckpointingPolicy,
    SaveDecisionPolicy,
    SpecificStepsPolicy,
)


@dataclasses.dataclass
class CheckpointInfo:
    """A step that a manager knows.

    Attributes:
        step: its number.
        time: when it was committed, in UTC.
        metrics: saved with it; None without.
    """

    step: int
    time: datetime.datetime
    metrics: Any | None


@dataclasses.dataclass
class _ShouldSaveFnPolicy(SaveDecisionPolicy):
    """Asks the user's function."""

    should_save_fn: Any

    def should_save(
        self,
        step: PolicyCheckpointInfo,
        previous_steps: Sequence[PolicyCheckpointInfo],
        *,
        context: DecisionContext,
    ) -> bool:
        latest = previous_steps[-1].step if previous_steps else None
        return bool(self.should_save_fn(step.step, latest))


def default_policy(options: CheckpointManagerOptions) -> SaveDecisionPolicy:
    """The policy that the options describe, if they have none of their own."""
    preemption = PreemptionCheckpointingPolicy()
    if options.should_save_fn is not None:
        user = _ShouldSaveFnPolicy(options.should_save_fn)
        return AnySavePolicy([user, preemption])
    policies: list[SaveDecisionPolicy] = []
    if options.save_interval_steps is not None:
        policies.append(FixedIntervalPolicy(options.save_interval_steps))
    if options.save_on_steps is not None:
        policies.append(SpecificStepsPolicy(options.save_on_steps))
    return AnySavePolicy([*policies, preemption, InitialSavePolicy()])
