"""The common part of managers whose steps lie on the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.orbax._manager.run import reached_preemption
from holdfast.orbax.abstract_checkpoint_manager import (
    AbstractCheckpointManager,
)
from holdfast.orbax.experimental.emergency._steps import TierSteps

if TYPE_CHECKING:
    from typing_extensions import Self


class HostManager(AbstractCheckpointManager):
    """A manager of `_steps`. Thread-safety: one call at a time."""

    _steps: TierSteps

    def all_steps(self, read: bool = False) -> Sequence[int]:
        """The steps of all processes and of shared storage, in order.

        Args:
            read: look for them again, on all processes.
        """
        if read:
            self._steps.reload()
        return self._steps.all()

    def reload(self) -> None:
        """Looks for the steps again, on all processes."""
        self._steps.reload()

    def reached_preemption(self, step: int) -> bool:
        """Whether the program is about to be ended."""
        return reached_preemption(step)

    def should_save(self, step: int) -> bool:
        """Whether a step is to be saved, wherever."""
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
        """Waits for saves; raises what they raised."""
        self._steps.wait()

    def check_for_errors(self) -> None:
        """Does nothing: the next save, and waiting, raise what one raised."""

    def close(self) -> None:
        """Waits for saves, and for the other processes."""
        self._steps.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
