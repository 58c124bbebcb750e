"""The existing steps of a run, and the decisions of policies about them.

CheckpointManager and the Checkpointer of `v1.training` both use this module.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import json
import operator
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from holdfast import _engine, _files, errors
from holdfast.orbax._devices.monitoring import record_scalar
from holdfast.orbax._devices.optional_jax import imported_jax
from holdfast.orbax.multihost import reached_preemption as jax_reached
from holdfast.orbax.options import MultiprocessingOptions
from holdfast.orbax.preservation_policy import (
    PreservationContext,
    PreservationPolicy,
)
from holdfast.orbax.save_decision_policy import (
    DecisionContext,
    SaveDecisionPolicy,
)

# The time of a step whose metadata is not read.
_NO_TIME = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)


@dataclasses.dataclass
class CheckpointInfo:
    """A step in a manager's list.

    Attributes:
        step: the step's number.
        time: the time of the commit, in UTC.
        metrics: the metrics saved with the step, or None.
        path: the step's directory.
    """

    step: int
    time: datetime.datetime
    metrics: Any | None
    path: Any = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.step = step_number(self.step)


def step_number(step: Any) -> int:
    """Returns a step's number; the step may be an array, such as a counter.

    Raises:
        TypeError: the array has more than one element, or its type is not an
            integer type.
    """
    number: int = operator.index(step) if hasattr(step, "dtype") else step
    return number


class _Facts:
    """Data from the directories of steps, read on first use."""

    def __init__(self, paths: Iterable[Any]) -> None:
        self._paths = [os.fspath(path) for path in paths]

    @functools.cached_property
    def of_path(self) -> dict[str, tuple[int, str | None]]:
        """The time, in ns since 1970, and metrics of each step, by path.

        Steps that no longer exist are absent.
        """
        rows = _engine.describe_steps(self._paths)
        return {path: (time, text) for _, path, _, time, text in rows}


class _StoredInfo(CheckpointInfo):
    """A step in the directory.

    A run may have thousands of steps, most of which are only counted. The times
    and metrics of all steps are read together on first use.
    """

    def __init__(self, found: Any, facts: _Facts) -> None:
        self.step = found.step
        self.path = found.path
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        if name not in ("time", "metrics"):
            raise AttributeError(name)
        time_ns, metrics = self._facts.of_path.get(
            os.fspath(self.path), (0, None)
        )
        self.time = datetime.datetime.fromtimestamp(
            time_ns / 1e9, tz=datetime.timezone.utc
        )
        self.metrics = None if metrics is None else json.loads(metrics)
        return self.__dict__[name]


def stored_infos(
    found: Iterable[Any], *, is_lightweight: bool
) -> list[CheckpointInfo]:
    """Returns the steps from a name format's `find_all`, ordered by number.

    Nothing is read yet. A step that is damaged, or is removed before its
    metrics are used, has no metrics. With `is_lightweight` no step has a time
    or metrics.
    """
    found = sorted(found, key=lambda metadata: metadata.step)
    if is_lightweight:
        return [CheckpointInfo(f.step, _NO_TIME, None, f.path) for f in found]
    facts = _Facts(metadata.path for metadata in found)
    return [_StoredInfo(metadata, facts) for metadata in found]


def new_info(
    step: int, metrics: Any | None = None, path: Any | None = None
) -> CheckpointInfo:
    """Returns the entry for a step that is being saved now."""
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    return CheckpointInfo(step, now, metrics, path)


def reached_preemption(step: int) -> bool:
    """Returns whether jax reports that the program is about to be preempted."""
    return imported_jax() is not None and jax_reached(step)


class Run:
    """The steps of a directory, in the order in which they were saved.

    Thread-safety: any number of threads.
    """

    def __init__(
        self,
        save_policy: SaveDecisionPolicy,
        keep_policy: PreservationPolicy,
        multiprocessing_options: MultiprocessingOptions,
    ) -> None:
        self._save_policy = save_policy
        self._keep_policy = keep_policy
        self._options = multiprocessing_options
        self._infos: list[CheckpointInfo] = []
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[CheckpointInfo]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __getitem__(self, index: int) -> CheckpointInfo:
        return self._infos[index]

    def all(self) -> Sequence[CheckpointInfo]:
        """Returns the current steps; the result does not change later."""
        return self._infos

    def set(self, infos: Iterable[CheckpointInfo]) -> None:
        """Replaces the list of steps."""
        with self._lock:
            self._infos = list(infos)

    def take(self, steps: Collection[int]) -> list[CheckpointInfo]:
        """Removes steps from the list and returns their entries."""
        with self._lock:
            taken = [i for i in self._infos if i.step in steps]
            self._infos = [i for i in self._infos if i.step not in steps]
        return taken

    def put_back(self, infos: Iterable[CheckpointInfo]) -> None:
        """Adds removed steps again, in the order of their numbers."""
        with self._lock:
            known = {info.step for info in self._infos}
            missing = [info for info in infos if info.step not in known]
            self._infos = sorted(
                [*missing, *self._infos], key=lambda info: info.step
            )

    def append(self, info: CheckpointInfo) -> None:
        """Adds a step at the end."""
        with self._lock:
            self._infos = [*self._infos, info]

    def should_save(
        self,
        step: int,
        known: Sequence[CheckpointInfo],
        *,
        is_saving: bool,
        asks_preemption: Callable[[int], bool] = reached_preemption,
    ) -> bool:
        """Returns whether the policy wants a step to be saved.

        Args:
            step: the step's number.
            known: the steps that count as saved.
            is_saving: whether a save is running in the background.
            asks_preemption: a function that returns whether the program is
                about to be preempted at a step.
        """
        if known and known[-1].step >= step:
            return False
        context = DecisionContext(
            is_saving_in_progress=is_saving,
            reached_preemption=asks_preemption(step),
            multiprocessing_options=self._options,
        )
        return bool(
            self._save_policy.should_save(
                new_info(step), known, context=context
            )
        )

    def superfluous(
        self, infos: Sequence[CheckpointInfo]
    ) -> list[CheckpointInfo]:
        """Returns, in order, the given steps that the policy does not keep."""
        record_scalar(
            "/jax/checkpoint/write/old_steps_examined_count", len(infos)
        )
        keeps = self._keep_policy.should_preserve(
            infos, context=PreservationContext()
        )
        return [
            info
            for info, is_kept in zip(infos, keeps, strict=True)
            if not is_kept
        ]

    @contextlib.contextmanager
    def reading(
        self, directory: Any, newest: CheckpointInfo | None
    ) -> Iterator[None]:
        """Runs a block that reads a step.

        Args:
            directory: the directory of all steps.
            newest: the step, if it was chosen because it is the newest.

        Raises:
            DataLossError: `newest` was committed and is damaged; the message
                names the newest undamaged step.
            Exception: any other error from the block.
        """
        try:
            with _files.asking_once():
                yield
        except Exception as error:
            damaged = newest and self._damage_error(directory, newest, error)
            if not damaged:
                raise
            raise damaged from error

    def _damage_error(
        self, directory: Any, newest: CheckpointInfo, error: Exception
    ) -> errors.DataLossError | None:
        """Returns the error to raise if a restore of the newest step failed.

        The error names the newest undamaged step. Returns None if the newest
        step is not damaged.
        """
        met: BaseException | None = error
        while met is not None and not isinstance(met, errors.DataLossError):
            met = met.__cause__

        def named(info: CheckpointInfo) -> tuple[int, str]:
            return info.step, os.path.basename(str(info.path))

        try:
            _engine.check_newest_step(
                os.fspath(directory),
                named(newest),
                "" if met is None else str(met),
                list(map(named, self._infos)),
            )
        except errors.DataLossError as damaged:
            return damaged
        except (OSError, errors.HoldfastError):
            pass  # The steps cannot be read, so keep the first error.
        return None

    def forget(self, steps: Collection[int]) -> list[CheckpointInfo]:
        """Removes steps from the list, but never the last remaining step.

        Returns the removed steps in order.
        """
        dropped = all_but_one(
            [info for info in self._infos if info.step in steps],
            len(self._infos),
        )
        return self.take({info.step for info in dropped})


def all_but_one(
    dropped: list[CheckpointInfo], count: int
) -> list[CheckpointInfo]:
    """Returns the steps to remove; one of `count` steps always stays."""
    return dropped[:-1] if len(dropped) == count else dropped
