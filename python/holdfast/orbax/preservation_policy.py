"""Policies that decide which steps are kept: Orbax's `preservation_policy`.

A policy reads a list of steps, oldest first, and selects the steps to keep.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from holdfast import _engine
from holdfast.orbax.save_decision_policy import PolicyCheckpointInfo

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

NestedDict: TypeAlias = dict[str, Any]
PyTree: TypeAlias = Any


@dataclasses.dataclass(kw_only=True)
class PreservationContext:
    """Additional inputs for a policy; currently empty."""


class PreservationPolicy(Protocol):
    """Decides which steps are kept."""

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        """Decides for each step whether it is kept.

        Args:
            checkpoints: the steps, in order.
            context: additional inputs.

        Returns:
            For each step, whether it is kept.
        """


class EnginePolicy(PreservationPolicy):
    """A policy that the engine evaluates."""

    def _rule(self) -> _engine.KeepRule:
        """Returns the engine's rule for this policy."""
        raise NotImplementedError

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        return self._rule().should_preserve(checkpoints)


@dataclasses.dataclass
class PreserveAll(EnginePolicy):
    """Keeps every step."""

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.all()


@dataclasses.dataclass
class LatestN(EnginePolicy):
    """Keeps the last `n` steps; None means all steps."""

    n: int | None = None

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.latest(self.n)


@dataclasses.dataclass
class EveryNSeconds(EnginePolicy):
    """Keeps steps with a minimum time between them, beginning with the first.

    Attributes:
        interval_secs: minimum number of seconds between two kept steps.
    """

    interval_secs: int

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.seconds_apart(self.interval_secs)


@dataclasses.dataclass
class EveryNSteps(EnginePolicy):
    """Keeps multiples of an interval, or steps at least an interval apart.

    Attributes:
        interval_steps: the interval; must not be 0.
        exact_interval: if True, keeps multiples of the interval; if False,
            keeps the first step and each step at least an interval after the
            previously kept step.
        max_to_keep: keeps only the last `max_to_keep` of these steps; None
            means all.
    """

    interval_steps: int
    exact_interval: bool = True
    max_to_keep: int | None = None

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.steps_apart(
            self.interval_steps, self.exact_interval, self.max_to_keep
        )


@dataclasses.dataclass
class EveryNStepsClosest(EnginePolicy):
    """Keeps the last step and the step closest to each multiple of an interval.

    Attributes:
        interval_steps: the interval; must not be 0.
        max_to_keep: keeps only the last `max_to_keep` of these steps; None
            means all.
    """

    interval_steps: int
    max_to_keep: int | None = None

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.closest_to_multiples(
            self.interval_steps, self.max_to_keep
        )


@dataclasses.dataclass
class CustomSteps(EnginePolicy):
    """Keeps the given steps."""

    steps: dataclasses.InitVar[Sequence[int]]
    _steps_set: set[int] = dataclasses.field(init=False)

    def __post_init__(self, steps: Sequence[int]) -> None:
        self._steps_set = set(steps)

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.named(list(self._steps_set))


@dataclasses.dataclass
class AnyPreservationPolicy(PreservationPolicy):
    """Keeps each step that any of `policies` keeps."""

    policies: Sequence[PreservationPolicy]

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        answers = [
            policy.should_preserve(checkpoints, context=context)
            for policy in self.policies
        ]
        count = len(checkpoints)
        return [any(bool(a[i]) for a in answers) for i in range(count)]


@dataclasses.dataclass(kw_only=True)
class BestN(EnginePolicy):
    """Keeps the `n` steps with the best metrics; NaN is the worst.

    Attributes:
        get_metric_fn: maps a step's metrics to a number, or to another value
            that can be sorted.
        reverse: whether smaller values are better.
        n: how many steps to keep; None means all.
        keep_checkpoints_without_metrics: also keeps steps without metrics.
    """

    get_metric_fn: Callable[[Any], float]
    reverse: bool = False
    n: int | None = None
    keep_checkpoints_without_metrics: bool = True

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.best(
            self.get_metric_fn,
            self.reverse,
            self.n,
            self.keep_checkpoints_without_metrics,
        )


@dataclasses.dataclass
class LatestDuration(EnginePolicy):
    """Keeps the first step no older than `duration`, and all later steps."""

    duration: datetime.timedelta

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.younger_than(self.duration.total_seconds())
