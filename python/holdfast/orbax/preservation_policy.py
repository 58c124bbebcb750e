"""Policies that say which steps stay: Orbax's `preservation_policy`.

Each says of a list of steps, the oldest first, which of them are kept.
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
    """Further facts for a policy: none yet."""


class PreservationPolicy(Protocol):
    """Says which steps are kept."""

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        """Whether each step is kept.

        Args:
            checkpoints: n steps, in order.
            context: further facts.

        Returns:
            n answers.
        """


class EnginePolicy(PreservationPolicy):
    """A policy that the engine decides by."""

    def _rule(self) -> _engine.KeepRule:
        """The engine's form of it."""
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
    """Every step."""

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.all()


@dataclasses.dataclass
class LatestN(EnginePolicy):
    """The last `n` steps; all of them for None."""

    n: int | None = None

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.latest(self.n)


@dataclasses.dataclass
class EveryNSeconds(EnginePolicy):
    """The first step, and each that is much newer than the last kept one.

    Attributes:
        interval_secs: at least this many seconds between two.
    """

    interval_secs: int

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.seconds_apart(self.interval_secs)


@dataclasses.dataclass
class EveryNSteps(EnginePolicy):
    """Multiples of an interval, or steps that are as far apart.

    Attributes:
        interval_steps: not 0.
        exact_interval: multiples; else the first step, and each that is at
            least as far from the one kept last.
        max_to_keep: the last so many of them; None: all.
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
    """The step closest to each multiple of an interval, and the last one.

    Attributes:
        interval_steps: not 0.
        max_to_keep: the last so many of them; None: all.
    """

    interval_steps: int
    max_to_keep: int | None = None

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.closest_to_multiples(
            self.interval_steps, self.max_to_keep
        )


@dataclasses.dataclass
class CustomSteps(EnginePolicy):
    """The steps that are named."""

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
    """The `n` steps whose metrics are best; NaN is the worst.

    Attributes:
        get_metric_fn: a step's metrics as a number, or anything else that
            sorts.
        reverse: small ones are better.
        n: how many; None: all.
        keep_checkpoints_without_metrics: these as well.
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
    """The first step that is not older than a time, and all after it."""

    duration: datetime.timedelta

    def _rule(self) -> _engine.KeepRule:
        return _engine.KeepRule.younger_than(self.duration.total_seconds())
