"""The interface of managers, for programs that write their own."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

PyTree: TypeAlias = Any
SaveParams: TypeAlias = Mapping[str, Any]
RestoreParams: TypeAlias = SaveParams


class AbstractCheckpointManager(Protocol):
    """The steps of a run; CheckpointManager is one."""

    @property
    @abc.abstractmethod
    def directory(self) -> Any:
        """The directory of all steps."""

    @abc.abstractmethod
    def all_steps(self, read: bool = False) -> Sequence[int]:
        """The steps, in order."""

    @abc.abstractmethod
    def latest_step(self) -> int | None:
        """The last step; None without steps."""

    @abc.abstractmethod
    def best_step(self) -> int | None:
        """The best step; None without steps."""

    @abc.abstractmethod
    def reload(self) -> None:
        """Looks for the steps again."""

    @abc.abstractmethod
    def reached_preemption(self, step: int) -> bool:
        """Whether the program is about to be ended."""

    @abc.abstractmethod
    def should_save(self, step: int) -> bool:
        """Whether a step is to be saved."""

    @abc.abstractmethod
    def delete(self, step: int) -> None:
        """Deletes a step."""

    @abc.abstractmethod
    def save(self, step: int, *args: Any, **kwargs: Any) -> bool:
        """Saves a step; returns whether it did."""

    @abc.abstractmethod
    def restore(self, step: int | None, *args: Any, **kwargs: Any) -> Any:
        """Restores a step."""

    @abc.abstractmethod
    def item_metadata(self, step: int) -> Any:
        """Metadata of a step's items."""

    @abc.abstractmethod
    def metadata(self, step: int | None = None) -> Any:
        """Metadata of a step, or of the run."""

    @abc.abstractmethod
    def metrics(self, step: int) -> Any | None:
        """The metrics that were saved with a step."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Waits for saves that go on."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raises what a save in the background has raised."""

    @abc.abstractmethod
    def close(self) -> None:
        """Waits, and ends the use of this object."""
