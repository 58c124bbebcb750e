"""The common base of managers whose steps are stored on the hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast._closing import ClosedAtExit
from holdfast.orbax._manager.run import reached_preemption
from holdfast.orbax.abstract_checkpoint_manager import (
    AbstractCheckpointManager,
)
from holdfast.orbax.checkpoint_manager import CheckpointManager
from holdfast.orbax.experimental.emergency._steps import TierSteps


class HostManager(AbstractCheckpointManager, ClosedAtExit):
    """A manager of `_steps`, and of the data set's if it has any.

    Thread-safety: one call at a time.
    """

    _steps: TierSteps | CheckpointManager
    _dataset: CheckpointManager | None = None

    def _managers(self) -> Iterator[TierSteps | CheckpointManager]:
        if self._dataset is not None:
            yield self._dataset
        yield self._steps

    def all_steps(self, read: bool | None = None) -> Sequence[int]:
        """Returns the steps of all processes and of shared storage, in order.

        Args:
            read: find the steps again, on all processes.
        """
        return self._steps.all_steps(read=bool(read))

    def latest_step(self) -> int | None:
        """Returns the last step of both tiers; None without steps."""
        return self._steps.latest_step()

    def reload(self) -> None:
        """Finds the steps again, on all processes."""
        for each in self._managers():
            each.reload()

    def reached_preemption(self, step: int) -> bool:
        return reached_preemption(step)

    def should_save(self, step: int) -> bool:
        """Returns whether a step should be saved on either tier."""
        return self._steps.should_save(step)

    def delete(self, step: int) -> None:
        raise NotImplementedError(
            "delete: the hosts remove their oldest steps themselves; see the"
            " options of what is kept"
        )

    def item_metadata(self, step: int) -> Any:
        raise NotImplementedError(
            "item_metadata: a step lies on all hosts; restore it"
        )

    def metadata(self, step: int | None = None) -> Any:
        raise NotImplementedError(
            "metadata: a step lies on all hosts; restore it"
        )

    def wait_until_finished(self) -> None:
        """Waits for saves; raises their errors."""
        for each in self._managers():
            each.wait_until_finished()

    def check_for_errors(self) -> None:
        """Raises the error of a finished save of a data set or of one slice.

        The next save, or a wait, raises the errors of other saves.
        """
        for each in self._managers():
            each.check_for_errors()

    def close(self) -> None:
        """Waits for saves, and for the other processes."""
        for each in self._managers():
            each.close()
