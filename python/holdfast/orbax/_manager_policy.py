"""When a manager saves a step and which steps it keeps, by its options."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from holdfast.orbax._manager_options import CheckpointManagerOptions
from holdfast.orbax.preservation_policy import (
    AnyPreservationPolicy,
    BestN,
    EveryNSeconds,
    EveryNSteps,
    LatestN,
    PreservationPolicy,
)
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


def default_preservation_policy(
    options: CheckpointManagerOptions,
) -> PreservationPolicy:
    """The policy of options that do not name one."""
    policies: list[PreservationPolicy] = []
    if options.keep_period is not None:
        policies.append(EveryNSteps(options.keep_period))
    if options.keep_time_interval is not None:
        seconds = int(options.keep_time_interval.total_seconds())
        policies.append(EveryNSeconds(seconds))
    if options.best_fn is None:
        policies.append(LatestN(options.max_to_keep))
    else:
        best = BestN(
            get_metric_fn=options.best_fn,
            reverse=options.best_mode == "min",
            n=options.max_to_keep,
            keep_checkpoints_without_metrics=(
                options.keep_checkpoints_without_metrics
            ),
        )
        policies.append(best)
    return AnyPreservationPolicy(policies)


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
