"""TieredManager for training states of PyTorch."""

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
    """`holdfast.TieredManager` of models and optimizers, by two calls.

        tiers = holdfast.torch.TieredManager(
            "/dev/shm/ckpt",
            shared=holdfast.SharedTierOptions("/checkpoints/run", 1000),
        )
        tiers.restore(model=model, optimizer=optimizer)
        for step in range(tiers.next_step, last):
            train(model, optimizer)
            tiers.save(step, model=model, optimizer=optimizer)
        tiers.close()

    Where torch.distributed is initialised its ranks are the hosts' processes:
    each makes these calls. DTensors (`fully_shard`) are saved and restored in
    parts; of a model that all have (DistributedDataParallel) each writes a
    share. Tensors on a GPU are copied from there once.
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
        """Begins to save a step that is due; a thread goes on with it.

        Args:
          step: its number.
          model, optimizer, scheduler, **parts: as of `holdfast.torch.save`; the
            same on all ranks, but for DTensors.
          force, files: as of `holdfast.TieredManager.save`.

        Returns:
          True when a save has begun.

        Raises:
          As `holdfast.TieredManager.save`.
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
        """Puts the newest step that verifies into the objects given, in place.

        All ranks have read it before one changes an object. When nothing was
        saved yet, nothing happens, and `next_step` is 0.

        Args:
          model, optimizer, scheduler, strict, **parts: as of
            `holdfast.torch.restore`.
          step: only this one.

        Returns:
          The entries that were not restored in place, by name.

        Raises:
          errors.InvalidArgumentError: the step does not fit: all that differs.
          errors.NotFoundError: there is no such step.
          errors.DataLossError: there are steps, and none can be restored; why
            of each.
        """
        given = given_parts(model, optimizer, scheduler, parts)

        try:
            loaded = self._restore_as(
                lambda checkpoint: target_of(checkpoint, given, strict=strict),
                step,
                strict=strict,
            )
        except errors.NotFoundError:
            if step is not None:
                raise
            return {}
        return put_back(given, loaded, strict=strict)
