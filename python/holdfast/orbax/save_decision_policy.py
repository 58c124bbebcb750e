"""Policies that decide whether a step is saved."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Container, Sequence
from typing import Any, Protocol, runtime_checkable

from holdfast import _engine
from holdfast._lazy import importing
from holdfast.orbax.options import MultiprocessingOptions

__all__ = [
    "AnySavePolicy",
    "ContinuousCheckpointingPolicy",
    "DecisionContext",
    "FixedIntervalPolicy",
    "InitialSavePolicy",
    "PolicyCheckpointInfo",
    "PreemptionCheckpointingPolicy",
    "SaveDecisionPolicy",
    "SpecificStepsPolicy",
]


class PolicyCheckpointInfo(Protocol):
    """A step as seen by a policy.

    Attributes:
        step: the step's number.
        metrics: the metrics saved with the step.
        time: when the step was saved, in UTC.
    """

    step: int
    metrics: dict[str, Any] | None
    time: datetime.datetime


@dataclasses.dataclass(kw_only=True)
class DecisionContext:
    """Additional inputs for a policy.

    Attributes:
        is_saving_in_progress: whether a save runs in the background.
        reached_preemption: whether the program is about to be preempted.
        multiprocessing_options: the manager's options.
    """

    is_saving_in_progress: bool
    reached_preemption: bool
    multiprocessing_options: MultiprocessingOptions


@runtime_checkable
class SaveDecisionPolicy(Protocol):
    """Decides whether a step is saved."""

    def should_save(
        self,
        step: PolicyCheckpointInfo,
        previous_steps: Sequence[PolicyCheckpointInfo],
        *,
        context: DecisionContext,
    ) -> bool:
        """Returns whether to save a step.

        Args:
            step: the step that may be saved.
            previous_steps: the steps saved so far, in order.
            context: additional inputs.
        """


class EnginePolicy(SaveDecisionPolicy):
    """A policy that the engine evaluates."""

    def _rule(self) -> _engine.SaveRule:
        """Returns the engine's rule for this policy."""
        raise NotImplementedError

    def should_save(
        self,
        step: PolicyCheckpointInfo,
        previous_steps: Sequence[PolicyCheckpointInfo],
        *,
        context: DecisionContext,
    ) -> bool:
        return self._rule().should_save(step, previous_steps, context)


@dataclasses.dataclass
class FixedIntervalPolicy(EnginePolicy):
    """Saves every step that is a multiple of `interval`."""

    interval: int

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.multiples(self.interval)


@dataclasses.dataclass
class SpecificStepsPolicy(EnginePolicy):
    """Saves the steps in `steps`."""

    steps: Container[int]

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.among(self.steps)


@dataclasses.dataclass(kw_only=True)
class ContinuousCheckpointingPolicy(EnginePolicy):
    """Saves every step unless another save is running.

    Attributes:
        minimum_interval_secs: minimum number of seconds since the previous
            saved step.
    """

    minimum_interval_secs: int | None = None

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.continuous(self.minimum_interval_secs or None)

    def should_save(
        self,
        step: PolicyCheckpointInfo,
        previous_steps: Sequence[PolicyCheckpointInfo],
        *,
        context: DecisionContext,
    ) -> bool:
        answer = super().should_save(step, previous_steps, context=context)
        return _as_primary_says(
            answer, context.multiprocessing_options, step.step
        )


def _as_primary_says(
    answer: bool, options: MultiprocessingOptions, step: int
) -> bool:
    """Returns the primary process's answer on all processes.

    The processes' own answers may differ because their clocks differ.

    Raises:
        DeadlineExceededError: a process did not arrive in time.
    """
    # Imported late: programs that only name policies do not need it.
    with importing:
        from holdfast.orbax._processes.operations import Processes

    place = f"continuous_checkpointing_policy_should_save_{step}"
    return bool(Processes(options).value_of_primary(place, answer))


class PreemptionCheckpointingPolicy(EnginePolicy):
    """Saves the step at which the program is about to be preempted."""

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.preemption()


class InitialSavePolicy(EnginePolicy):
    """Saves any step if no step exists yet."""

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.initial()


@dataclasses.dataclass
class AnySavePolicy(SaveDecisionPolicy):
    """Saves a step if any of `policies` saves it."""

    policies: Sequence[SaveDecisionPolicy]

    def should_save(
        self,
        step: PolicyCheckpointInfo,
        previous_steps: Sequence[PolicyCheckpointInfo],
        *,
        context: DecisionContext,
    ) -> bool:
        return any(
            policy.should_save(step, previous_steps, context=context)
            for policy in self.policies
        )
