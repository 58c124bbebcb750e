"""The manager interface, for programs that implement their own manager."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

PyTree: TypeAlias = Any
SaveParams: TypeAlias = Mapping[str, Any]
RestoreParams: TypeAlias = SaveParams


class AbstractCheckpointManager(Protocol):
    """Manages the steps of a run; CheckpointManager implements it."""

    @property
    @abc.abstractmethod
    def directory(self) -> Any:
        """The directory of all steps."""

    @abc.abstractmethod
    def all_steps(self, read: bool = False) -> Sequence[int]:
        """Returns the steps, in order."""

    @abc.abstractmethod
    def latest_step(self) -> int | None:
        """Returns the last step, or None without steps."""

    @abc.abstractmethod
    def best_step(self) -> int | None:
        """Returns the best step, or None without steps."""

    @abc.abstractmethod
    def reload(self) -> None:
        """Reads the list of steps from storage again."""

    @abc.abstractmethod
    def reached_preemption(self, step: int) -> bool:
        """Returns whether the program is about to be preempted."""

    @abc.abstractmethod
    def should_save(self, step: int) -> bool:
        """Returns whether a step should be saved."""

    @abc.abstractmethod
    def delete(self, step: int) -> None:
        """Deletes a step."""

    @abc.abstractmethod
    def save(self, step: int, *args: Any, **kwargs: Any) -> bool:
        """Saves a step; returns whether the step was saved."""

    @abc.abstractmethod
    def restore(self, step: int | None, *args: Any, **kwargs: Any) -> Any:
        """Restores a step."""

    @abc.abstractmethod
    def item_metadata(self, step: int) -> Any:
        """Returns the metadata of a step's items."""

    @abc.abstractmethod
    def metadata(self, step: int | None = None) -> Any:
        """Returns the metadata of a step, or of the run if `step` is None."""

    @abc.abstractmethod
    def metrics(self, step: int) -> Any | None:
        """Returns the metrics saved with a step."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Waits for running saves."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raises the error of a failed background save."""

    @abc.abstractmethod
    def close(self) -> None:
        """Waits for running saves and releases this object's resources."""
