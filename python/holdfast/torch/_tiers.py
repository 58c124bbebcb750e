"""TieredManager for PyTorch training states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast import errors
from holdfast._tiers import Tiers
from holdfast.torch._state import (
    given_parts,
    put_back,
    states_of,
    target_of,
)

__all__ = ["TieredManager"]


class TieredManager(Tiers):
    """`holdfast.TieredManager` for models and optimizers, with two calls.

        tiers = holdfast.torch.TieredManager(
            "/dev/shm/ckpt",
            shared=holdfast.SharedTierOptions("/checkpoints/run", 1000),
        )
        tiers.restore(model=model, optimizer=optimizer)
        for step in range(tiers.next_step, last):
            train(model, optimizer)
            tiers.save(step, model=model, optimizer=optimizer)
        tiers.close()

    If torch.distributed is initialised, all its ranks must make these calls.
    DTensors (`fully_shard`) are saved and restored in parts. If all ranks hold
    the same model (DistributedDataParallel), each rank writes a share of it.
    Tensors on a GPU are copied to the host once.
    """

    def save(
        self,
        step: int,
        *,
        model: Any = None,
        optimizer: Any = None,
        scheduler: Any = None,
        force: bool = False,
        files: Mapping[str, bytes] | None = None,
        **parts: Any,
    ) -> bool:
        """Begins to save a step that is due; a thread continues the save.

        Args:
          step: the step's number.
          model, optimizer, scheduler, **parts: as for `holdfast.torch.save`;
            the same on all ranks, except DTensors.
          force, files: as for `holdfast.TieredManager.save`.

        Returns:
          Whether a save has begun.

        Raises:
          Exception: as for `holdfast.TieredManager.save`.
        """
        given = given_parts(model, optimizer, scheduler, parts)
        return self._save(step, lambda: states_of(given), force, files)

    def restore(
        self,
        *,
        model: Any = None,
        optimizer: Any = None,
        scheduler: Any = None,
        step: int | None = None,
        strict: bool = True,
        **parts: Any,
    ) -> dict[str, Any]:
        """Restores the newest step that passes verification into the given
        objects, in place.

        All ranks read the step before any rank changes an object. If no step
        was saved yet, nothing happens, and `next_step` is 0.

        Args:
          model, optimizer, scheduler, strict, **parts: as for
            `holdfast.torch.restore`.
          step: restore only this step.

        Returns:
          The entries that were not restored in place, by name.

        Raises:
          errors.InvalidArgumentError: the step does not match; the error lists
            every difference.
          errors.NotFoundError: `step` does not exist.
          errors.DataLossError: steps exist and none can be restored; the error
            gives the reason for each.
        """
        given = given_parts(model, optimizer, scheduler, parts)

        try:
            loaded = self._restore_as(
                lambda checkpoint: target_of(checkpoint, given, strict=strict),
                step,
                cast=not strict,
            )
        except errors.NotFoundError:
            if step is not None:
                raise
            return {}
        return put_back(given, loaded, strict=strict)
