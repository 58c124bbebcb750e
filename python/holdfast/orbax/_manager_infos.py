"""The steps that a manager knows."""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from holdfast.orbax._manager_policy import CheckpointInfo

# The time of a step that was removed before anybody asked for it.
_UNKNOWN_TIME = datetime.datetime.fromtimestamp(0, tz=datetime.timezone.utc)


class StoredCheckpointInfo(CheckpointInfo):
    """A step in the directory, whose time and metrics are read when asked for.

    A run may have thousands of steps, of which most are only counted.
    """

    def __init__(
        self, found: Any, read_metrics: Callable[[int], Any | None]
    ) -> None:
        """Reads nothing.

        Args:
            found: the step that the name format has found.
            read_metrics: reads those of a step.
        """
        self.step = found.step
        self._found = found
        self._read_metrics = read_metrics

    def __getattr__(self, name: str) -> Any:
        if name == "time":
            self.time = self._read_time()
            return self.time
        if name == "metrics":
            self.metrics = self._read(self._read_metrics, None)
            return self.metrics
        raise AttributeError(name)

    def _read_time(self) -> Any:
        return self._read(lambda _: self._found.commit_timestamp, _UNKNOWN_TIME)

    def _read(self, read: Callable[[int], Any], unknown: Any) -> Any:
        """Reads time and metrics; one damaged step must not stop a run's saves.
        """
        try:
            return read(self.step)
        except FileNotFoundError:
            return unknown
        except (OSError, ValueError) as error:
            logging.warning("Step %d cannot be read: %s", self.step, error)
            return unknown


class CheckpointInfos:
    """Steps in the order in which they were saved.

    Thread-safety: any number of threads.
    """

    def __init__(self) -> None:
        self._infos: list[CheckpointInfo] = []
        self._lock = threading.Lock()

    def all(self) -> Sequence[CheckpointInfo]:
        """The steps as they are now; not changed later."""
        return self._infos

    def latest(self) -> CheckpointInfo | None:
        """The one saved last."""
        infos = self._infos
        return infos[-1] if infos else None

    def set(self, infos: Iterable[CheckpointInfo]) -> None:
        """Forgets the steps for others."""
        with self._lock:
            self._infos = list(infos)

    def append(self, info: CheckpointInfo) -> None:
        """Adds a step that is saved after the others."""
        with self._lock:
            self._infos = [*self._infos, info]

    def remove(self, steps: Collection[int]) -> None:
        """Forgets steps."""
        with self._lock:
            self._infos = [i for i in self._infos if i.step not in steps]

    def put_back(self, infos: Iterable[CheckpointInfo]) -> None:
        """Remembers steps again, before those that were saved after them."""
        with self._lock:
            known = {info.step for info in self._infos}
            missing = [info for info in infos if info.step not in known]
            self._infos = sorted(
                [*missing, *self._infos], key=lambda info: info.step
            )
