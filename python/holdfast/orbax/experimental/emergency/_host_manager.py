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
    """Manages `_steps` and, with a data set, the data set's steps.

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
        """Returns whether a step should be saved on at least one tier."""
        return self._steps.should_save(step)

    def delete(self, step: int) -> None:
        raise NotImplementedError(
            "delete: the hosts remove their oldest steps themselves; set"
            " max_to_keep or preservation_policy to choose how many steps they"
            " keep"
        )

    def item_metadata(self, step: int) -> Any:
        raise NotImplementedError(
            "item_metadata: a step is spread over all hosts; restore the step"
            " instead"
        )

    def metadata(self, step: int | None = None) -> Any:
        raise NotImplementedError(
            "metadata: a step is spread over all hosts; restore the step"
            " instead"
        )

    def wait_until_finished(self) -> None:
        """Waits for saves; raises their errors."""
        for each in self._managers():
            each.wait_until_finished()

    def check_for_errors(self) -> None:
        """Raises the error of a finished save that a plain manager made.

        Plain managers save the data set and, if there is only one slice, the
        state. The next save or wait raises the errors of other saves.
        """
        for each in self._managers():
            each.check_for_errors()

    def close(self) -> None:
        """Waits for saves, and for the other processes."""
        for each in self._managers():
            each.close()
