"""Policies that say which steps are kept; the others are removed."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from holdfast.orbax.save_decision_policy import (
    PolicyCheckpointInfo as PolicyCheckpointInfo,
)


@dataclasses.dataclass(kw_only=True)
class PreservationContext:
    """What else a policy knows: nothing yet."""


@runtime_checkable
class PreservationPolicy(Protocol):
    """Says which steps are kept."""

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        """Whether each is kept.

        Args:
            checkpoints: all steps, in order.
            context: what else is known.

        Returns:
            As many as there are steps.
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
    """The last `n` steps; None: all."""

    n: int | None = None

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        count = len(checkpoints)
        kept = count if self.n is None else min(self.n, count)
        return [False] * (count - kept) + [True] * kept


@dataclasses.dataclass
class EveryNSeconds(PreservationPolicy):
    """The first step, and each that is `interval_secs` after the last kept."""

    interval_secs: int

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        interval = datetime.timedelta(seconds=self.interval_secs)
        kept: list[bool] = []
        last: datetime.datetime | None = None
        for info in checkpoints:
            is_kept = last is None or info.time - last >= interval
            kept.append(is_kept)
            last = info.time if is_kept else last
        return kept


@dataclasses.dataclass
class EveryNSteps(PreservationPolicy):
    """Steps at an interval.

    Attributes:
        interval_steps: of which steps are multiples, or, without
            `exact_interval`, at least so many after the last one kept.
        exact_interval: see there.
        max_to_keep: of these, only so many of the last.
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
        steps = [info.step for info in checkpoints]
        if self.exact_interval:
            kept = [step % self.interval_steps == 0 for step in steps]
        else:
            kept = self._at_least_apart(steps)
        return _last_of(kept, self.max_to_keep)

    def _at_least_apart(self, steps: list[int]) -> list[bool]:
        kept: list[bool] = []
        last: int | None = None
        for step in steps:
            is_kept = last is None or step - last >= self.interval_steps
            kept.append(is_kept)
            last = step if is_kept else last
        return kept


@dataclasses.dataclass
class EveryNStepsClosest(PreservationPolicy):
    """Of the steps around each multiple of an interval the closest one.

    Of two that are equally close the later one; and always the last step.

    Attributes:
        interval_steps: the interval.
        max_to_keep: of these, only so many of the last.
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
        # Nearest multiple -> distance and place of the closest step so far.
        closest: dict[int, tuple[int, int]] = {}
        for i, info in enumerate(checkpoints):
            multiple = round(info.step / self.interval_steps)
            distance = abs(info.step - multiple * self.interval_steps)
            if multiple not in closest or distance <= closest[multiple][0]:
                closest[multiple] = distance, i
        chosen = {i for _, i in closest.values()} | {len(checkpoints) - 1}
        kept = [i in chosen for i in range(len(checkpoints))]
        return _last_of(kept, self.max_to_keep)


@dataclasses.dataclass
class CustomSteps(PreservationPolicy):
    """The steps in `steps`."""

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
    """What any of `policies` keeps."""

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
        return [bool(any(kept)) for kept in zip(*answers, strict=True)]


@dataclasses.dataclass(kw_only=True)
class BestN(PreservationPolicy):
    """The `n` steps of the best metrics.

    Attributes:
        get_metric_fn: metrics -> a number, the larger the better.
        reverse: the smaller the better.
        n: how many; None: all; 0: none.
        keep_checkpoints_without_metrics: these too.
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
        if self.n is None or len(checkpoints) <= self.n:
            return [True] * len(checkpoints)
        if self.n == 0:
            return [False] * len(checkpoints)
        ranked = sorted(
            (
                i
                for i, info in enumerate(checkpoints)
                if info.metrics is not None
            ),
            key=lambda i: self.get_metric_fn(checkpoints[i].metrics),
            reverse=self.reverse,
        )
        best = set(ranked[-self.n :])
        return [
            i in best
            or (info.metrics is None and self.keep_checkpoints_without_metrics)
            for i, info in enumerate(checkpoints)
        ]


@dataclasses.dataclass
class LatestDuration(PreservationPolicy):
    """The steps since the first one that is no older than `duration`."""

    duration: datetime.timedelta

    def should_preserve(
        self,
        checkpoints: Sequence[PolicyCheckpointInfo],
        *,
        context: PreservationContext,
    ) -> Sequence[bool]:
        now = datetime.datetime.now(tz=datetime.timezone.utc)
        kept: list[bool] = []
        for info in checkpoints:
            has_begun = bool(kept) and kept[-1]
            kept.append(has_begun or now - info.time <= self.duration)
        return kept


def _check_interval(interval_steps: int) -> None:
    """Refuses an interval that nothing is a multiple of.

    Raises:
        ValueError: it is 0.
    """
    if interval_steps == 0:
        raise ValueError("interval_steps must not be 0.")


def _last_of(kept: list[bool], count: int | None) -> list[bool]:
    """`kept`, without those that more than `count` others follow."""
    chosen = [i for i, is_kept in enumerate(kept) if is_kept]
    # As Orbax: [:-0] is empty, so that 0 drops nothing.
    dropped = [] if count is None else chosen[:-count]
    for i in dropped:
        if count is not None and len(chosen) > count:
            kept[i] = False
    return kept
