"""Policies that say whether a step is to be saved."""

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
    """The facts that a policy has about a step.

    Attributes:
        step: its number.
        metrics: saved with it.
        time: when it was saved, in UTC.
    """

    step: int
    metrics: dict[str, Any] | None
    time: datetime.datetime


@dataclasses.dataclass(kw_only=True)
class DecisionContext:
    """Further facts for a policy.

    Attributes:
        is_saving_in_progress: a save runs in the background.
        reached_preemption: the program is about to be ended.
        multiprocessing_options: of the manager.
    """

    is_saving_in_progress: bool
    reached_preemption: bool
    multiprocessing_options: MultiprocessingOptions


@runtime_checkable
class SaveDecisionPolicy(Protocol):
    """Says whether a step is to be saved."""

    def should_save(
        self,
        step: PolicyCheckpointInfo,
        previous_steps: Sequence[PolicyCheckpointInfo],
        *,
        context: DecisionContext,
    ) -> bool:
        """Whether it is.

        Args:
            step: the one in question.
            previous_steps: those that were saved, in order.
            context: further facts.
        """


class EnginePolicy(SaveDecisionPolicy):
    """A policy that the engine decides by."""

    def _rule(self) -> _engine.SaveRule:
        """The engine's form of it."""
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
    """Every step that is a multiple of `interval`."""

    interval: int

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.multiples(self.interval)


@dataclasses.dataclass
class SpecificStepsPolicy(EnginePolicy):
    """The steps in `steps`."""

    steps: Container[int]

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.among(self.steps)


@dataclasses.dataclass(kw_only=True)
class ContinuousCheckpointingPolicy(EnginePolicy):
    """Every step, while no save is running.

    Attributes:
        minimum_interval_secs: at least this many seconds after the previous
            step.
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
    """The answer of the primary process, as clocks differ; all wait for it.

    Raises:
        DeadlineExceededError: a process did not come.
    """
    # The meeting's modules are not needed to name policies.
    with importing:
        from holdfast.orbax._processes.operations import Processes

    place = f"continuous_checkpointing_policy_should_save_{step}"
    return bool(Processes(options).value_of_primary(place, answer))


class PreemptionCheckpointingPolicy(EnginePolicy):
    """The step at which the program is about to be ended."""

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.preemption()


class InitialSavePolicy(EnginePolicy):
    """Any step, while no step exists."""

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.initial()


@dataclasses.dataclass
class AnySavePolicy(SaveDecisionPolicy):
    """Saves when any of `policies` says so."""

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
