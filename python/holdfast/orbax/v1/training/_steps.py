"""The steps that a Checkpointer knows."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from holdfast import _files
from holdfast.orbax._step_names import standard_name_format
from holdfast.orbax.options import AtomicityOptions
from holdfast.orbax.v1._layout import METRICS_NAME
from holdfast.orbax.v1.path.step import StandardNameFormat

# The time of a step whose metadata nobody asked for.
_NO_TIME = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)


class StepInfo:
    """A step, as policies see it.

    Its time and metrics are read when they are first asked for, so that a
    thousand steps cost nothing where nobody asks.
    """

    def __init__(
        self,
        step: int,
        read_time: Callable[[], datetime.datetime | None],
        read_metrics: Callable[[], Any | None],
    ) -> None:
        self.step = step
        self._read_time = read_time
        self._read_metrics = read_metrics
        self._time: datetime.datetime | None = None
        self._metrics: Any | None = None
        self._has_read_metrics = False

    @property
    def time(self) -> datetime.datetime:
        """Its commit, in UTC; the least one of a step that has gone.

        Raises:
            ValueError: metadata of other types than Orbax writes.
        """
        if self._time is None:
            try:
                self._time = self._read_time() or _NO_TIME
            except (FileNotFoundError, NotADirectoryError):
                self._time = _NO_TIME
        return self._time

    @property
    def metrics(self) -> Any | None:
        """Saved with it; None without.

        Raises:
            ValueError: they cannot be read.
        """
        if not self._has_read_metrics:
            self._metrics = self._read_metrics()
            self._has_read_metrics = True
        return self._metrics

    def __repr__(self) -> str:
        return f"StepInfo(step={self.step})"


def found_step(found: Any, *, is_lightweight: bool) -> StepInfo:
    """A step on disk.

    Args:
        found: what a name format's `find_all` gives.
        is_lightweight: it has no time and no metrics.
    """
    if is_lightweight:
        return StepInfo(found.step, lambda: None, lambda: None)
    return StepInfo(
        found.step,
        lambda: found.commit_timestamp,
        lambda: read_metrics(found.path),
    )


def new_step(step: int, metrics: Any | None) -> StepInfo:
    """A step that is being saved now."""
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    return StepInfo(step, lambda: now, lambda: metrics)


def names_of(step_name_format: Any | None, atomicity: AtomicityOptions) -> Any:
    """The name format that finds the steps and names new ones.

    Args:
        step_name_format: the user's; None: bare numbers.
        atomicity: how steps are committed.
    """
    if step_name_format is None:
        return standard_name_format(atomicity_options=atomicity)
    if isinstance(step_name_format, StandardNameFormat):
        return step_name_format.names(atomicity)
    return step_name_format


def read_metrics(path: Any) -> Any | None:
    """The metrics of a step; None without.

    Raises:
        ValueError: they are no JSON.
    """
    for name in (METRICS_NAME, "data.json", "metadata"):
        file_path = os.path.join(path, METRICS_NAME, name)
        try:
            return json.loads(_files.read_checked(file_path).decode())
        except (FileNotFoundError, NotADirectoryError):
            continue
    return None


class Steps:
    """Steps in the order in which they came to be known.

    Thread-safety: one thread.
    """

    def __init__(self, infos: list[StepInfo]) -> None:
        self._infos = sorted(infos, key=lambda info: info.step)

    def __iter__(self) -> Iterator[StepInfo]:
        return iter(self._infos)

    def __contains__(self, step: object) -> bool:
        return any(info.step == step for info in self._infos)

    def sorted(self) -> list[StepInfo]:
        """By their numbers."""
        return sorted(self._infos, key=lambda info: info.step)

    def add(self, info: StepInfo) -> None:
        """One more, the last one."""
        self._infos.append(info)

    def take(self, steps: set[int]) -> list[StepInfo]:
        """Forgets some steps; returns their facts."""
        taken = [info for info in self._infos if info.step in steps]
        self._infos = [info for info in self._infos if info.step not in steps]
        return taken

    def put_back(self, infos: list[StepInfo]) -> None:
        """Takes forgotten steps back."""
        self._infos = sorted([*self._infos, *infos], key=lambda info: info.step)

    def last(self) -> int | None:
        """The step that came last; None without steps."""
        return self._infos[-1].step if self._infos else None
