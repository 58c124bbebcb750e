"""Policies that say which steps stay: Orbax's `preservation_policy`.

Each says of a list of steps, the oldest first, which of them are kept.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

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


@dataclasses.dataclass
class PreserveAll(PreservationPolicy):
    """Every step."""

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        return [True] * len(checkpoints)


@dataclasses.dataclass
class LatestN(PreservationPolicy):
    """The last `n` steps; all of them for None."""

    n: int | None = None

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        count = len(checkpoints)
        if self.n is None or count <= self.n:
            return [True] * count
        return [False] * (count - self.n) + [True] * self.n


@dataclasses.dataclass
class EveryNSeconds(PreservationPolicy):
    """The first step, and each that is much newer than the last kept one.

    Attributes:
        interval_secs: at least this many seconds between two.
    """

    interval_secs: int

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        interval = datetime.timedelta(seconds=self.interval_secs)
        result = []
        last: datetime.datetime | None = None
        for info in checkpoints:
            keeps = last is None or info.time - last >= interval
            if keeps:
                last = info.time
            result.append(keeps)
        return result


def _check_interval(interval_steps: int) -> None:
    if interval_steps == 0:
        raise ValueError("interval_steps must not be 0.")


def _keep_last(result: list[bool], max_to_keep: int | None) -> list[bool]:
    """Only the last of those that would be kept."""
    if max_to_keep is None:
        return result
    kept = [i for i, keeps in enumerate(result) if keeps]
    if len(kept) > max_to_keep:
        # As Orbax: none is dropped for 0, as [:-0] is empty.
        for i in kept[:-max_to_keep]:
            result[i] = False
    return result


@dataclasses.dataclass
class EveryNSteps(PreservationPolicy):
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

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        _check_interval(self.interval_steps)
        if self.exact_interval:
            result = [i.step % self.interval_steps == 0 for i in checkpoints]
        else:
            result = self._far_apart(checkpoints)
        return _keep_last(result, self.max_to_keep)

    def _far_apart(
        self, checkpoints: Sequence[PolicyCheckpointInfo]
    ) -> list[bool]:
        result = []
        last: int | None = None
        for info in checkpoints:
            keeps = last is None or info.step - last >= self.interval_steps
            if keeps:
                last = info.step
            result.append(keeps)
        return result


@dataclasses.dataclass
class EveryNStepsClosest(PreservationPolicy):
    """The step closest to each multiple of an interval, and the last one.

    Attributes:
        interval_steps: not 0.
        max_to_keep: the last so many of them; None: all.
    """

    interval_steps: int
    max_to_keep: int | None = None

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        _check_interval(self.interval_steps)
        if not checkpoints:
            return []
        closest: dict[int, tuple[int, int]] = {}  # distance, index
        for i, info in enumerate(checkpoints):
            multiple = round(info.step / self.interval_steps)
            distance = abs(info.step - multiple * self.interval_steps)
            # The later of two that are as close.
            if multiple not in closest or distance <= closest[multiple][0]:
                closest[multiple] = distance, i
        result = [False] * len(checkpoints)
        for _, i in closest.values():
            result[i] = True
        result[-1] = True
        return _keep_last(result, self.max_to_keep)


@dataclasses.dataclass
class CustomSteps(PreservationPolicy):
    """The steps that are named."""

    steps: dataclasses.InitVar[Sequence[int]]
    _steps_set: set[int] = dataclasses.field(init=False)

    def __post_init__(self, steps: Sequence[int]) -> None:
        self._steps_set = set(steps)

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        return [info.step in self._steps_set for info in checkpoints]


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
class BestN(PreservationPolicy):
    """The `n` steps whose metrics are best.

    Attributes:
        get_metric_fn: a step's metrics as a number.
        reverse: small numbers are better.
        n: how many; None: all.
        keep_checkpoints_without_metrics: these as well.
    """

    get_metric_fn: Callable[[Any], float]
    reverse: bool = False
    n: int | None = None
    keep_checkpoints_without_metrics: bool = True

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        count = len(checkpoints)
        if self.n is None or count <= self.n:
            return [True] * count
        if self.n == 0:
            return [False] * count
        ranked = sorted(
            (i for i in range(count) if checkpoints[i].metrics is not None),
            key=lambda i: self.get_metric_fn(checkpoints[i].metrics),
            reverse=self.reverse,
        )
        kept = set(ranked[-self.n :])
        if self.keep_checkpoints_without_metrics:
            kept.update(
                i for i in range(count) if checkpoints[i].metrics is None
            )
        return [i in kept for i in range(count)]


@dataclasses.dataclass
class LatestDuration(PreservationPolicy):
    """The first step that is not older than a time, and all after it."""

    duration: datetime.timedelta

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        now = datetime.datetime.now(tz=datetime.timezone.utc)
        result: list[bool] = []
        for info in checkpoints:
            is_after = bool(result) and result[-1]
            result.append(is_after or now - info.time <= self.duration)
        return result
