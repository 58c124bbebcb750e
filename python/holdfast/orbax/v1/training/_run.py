"""The steps of a run, and a save that may be running in the background."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from holdfast import _files
from holdfast import errors as holdfast_errors
from holdfast.orbax._devices.monitoring import timed
from holdfast.orbax._manager.root import check_root
from holdfast.orbax._manager.run import (
    CheckpointInfo,
    Run,
    all_but_one,
    new_info,
    stored_infos,
)
from holdfast.orbax._manager.trash import Remover, leftovers
from holdfast.orbax.options import AtomicityOptions
from holdfast.orbax.preservation_policy import PreservationPolicy
from holdfast.orbax.save_decision_policy import SaveDecisionPolicy
from holdfast.orbax.step import standard_name_format
from holdfast.orbax.v1._operations import multiprocessing_of, processes_of
from holdfast.orbax.v1._responses import BackgroundResponse
from holdfast.orbax.v1._save import Save
from holdfast.orbax.v1.context import Context
from holdfast.orbax.v1.path.step import StandardNameFormat
from holdfast.orbax.v1.training.errors import (
    StepAlreadyExistsError,
    StepNotFoundError,
)


@dataclasses.dataclass
class Request:
    """The request to save a step, with the arguments of the user's call.

    Attributes:
        step: the step's number.
        checkpointables: maps names to values.
        force: save even if the policy says no.
        overwrite: replace an existing step.
        metrics: a JSON object.
        custom_metadata: a JSON object.
    """

    step: int
    checkpointables: dict[str, Any]
    force: bool
    overwrite: bool
    metrics: Any | None
    custom_metadata: Any | None


@dataclasses.dataclass
class _Pending:
    """A save that runs in the background.

    Attributes:
        step: the step's number.
        response: the response for the save.
        forgotten: the records of the steps that this save makes superfluous or
            replaces.
        has_failed: whether these records were put back.
    """

    step: int
    response: BackgroundResponse[bool]
    forgotten: list[CheckpointInfo]
    has_failed: bool = False


def names_of(step_name_format: Any | None, atomicity: AtomicityOptions) -> Any:
    """Returns the name format that finds the steps and names new ones.

    Args:
        step_name_format: the user's format; None means plain numbers.
        atomicity: how steps are committed.
    """
    if step_name_format is None:
        return standard_name_format(atomicity_options=atomicity)
    if isinstance(step_name_format, StandardNameFormat):
        return step_name_format.names(atomicity)
    return step_name_format


class SavingRun(Run):
    """The steps in a directory, and a save that may be running.

    Thread-safety: one call at a time.
    """

    def __init__(
        self,
        directory: Any,
        names: Any,
        context: Context,
        save_policy: SaveDecisionPolicy,
        keep_policy: PreservationPolicy,
        *,
        is_lightweight: bool,
    ) -> None:
        """Finds the steps.

        Args:
            directory: the directory of all steps.
            names: the name format of the steps.
            context: the context of all saves.
            save_policy: which steps are saved.
            keep_policy: which steps are kept.
            is_lightweight: do not read times and metrics.

        Raises:
            ValueError: the directory is itself a checkpoint.
        """
        super().__init__(save_policy, keep_policy, multiprocessing_of(context))
        self._directory = directory
        self._names = names
        self._context = context
        self._processes = processes_of(context)
        self._remover = Remover()
        if self._processes.is_primary:
            self._remover.add(leftovers(_files.abspath(directory)))
        self._pending: _Pending | None = None
        self.set(self._find(is_lightweight))
        check_root(directory, self.all())

    def _find(self, is_lightweight: bool) -> list[CheckpointInfo]:
        found = self._names.find_all(self._directory)
        return stored_infos(found, is_lightweight=is_lightweight)

    def reload(self) -> None:
        """Finds the steps again."""
        self._end_if_failed()
        found = self._find(is_lightweight=False)
        pending = self._pending
        saving = []
        if pending is not None and self.is_saving():
            # The steps that this save makes superfluous still exist, or are
            # being removed.
            gone = {info.step for info in pending.forgotten}
            found = [info for info in found if info.step not in gone]
            saving = [info for info in self if info.step == pending.step]
        self.set(found)
        self.put_back(saving)

    def known(self) -> Sequence[CheckpointInfo]:
        """Returns the steps in the order in which they became known, including
        a step that is being saved."""
        self._end_if_failed()
        return self.all()

    def by_number(self) -> list[CheckpointInfo]:
        """Returns the known steps by number."""
        return sorted(self.known(), key=lambda info: info.step)

    def knows(self, step: int) -> bool:
        """Returns whether the step exists."""
        return any(info.step == step for info in self.known())

    def find(self, step: int | None) -> CheckpointInfo:
        """Returns the record of a step; None means the step with the largest
        number.

        Raises:
            StepNotFoundError: the step does not exist.
        """
        infos = self.by_number()
        if step is None:
            if not infos:
                raise StepNotFoundError(
                    "Specified `step=None`, but no checkpoints were found."
                )
            return infos[-1]
        for info in infos:
            if info.step == step:
                return info
        raise StepNotFoundError(f"No checkpoint found at step {step}.")

    def path(self, step: int) -> Any:
        """Returns the path of a step that exists or will be created."""
        for info in self.known():
            if info.step == step:
                return info.path
        return self._found_path(step) or self._new_path(step)

    def _new_path(self, step: int) -> Any:
        return self._directory / self._names.build_name(step)

    def _found_path(self, step: int) -> Any | None:
        """Returns the path of a committed step; None if it does not exist."""
        try:
            return self._names.find_step(self._directory, step).path
        except ValueError:
            return None

    def save(self, request: Request, *, in_background: bool) -> Any:
        """Saves a step if the policy says so.

        If the policy says so, the call first waits for a save that is still
        running.

        Returns:
            With `in_background` a BackgroundResponse, otherwise True; None if
            nothing is saved.

        Raises:
            StepAlreadyExistsError: the step exists.
            Exception: any error from `Save` or from the previous save.
        """
        step = request.step
        if not request.overwrite and self.knows(step):
            raise StepAlreadyExistsError(f"Step {step} already exists.")
        others = [info for info in self.known() if info.step != step]
        if not self._processes.value_of_primary(
            "CheckpointManager:save_start",
            request.force
            or self.should_save(step, others, is_saving=self.is_saving()),
            self._directory,
        ):
            return None
        with timed(
            "/jax/orbax/write/blocking_wait_prev_duration_secs",
            "/jax/checkpoint/write/wait_for_prev_duration_secs",
        ):
            self.wait()
        found = self._found_path(step)
        if not request.overwrite and found is not None:
            raise StepAlreadyExistsError(
                f"Step {step} already exists: {found} was saved by another"
                " Checkpointer; see `reload`."
            )
        path = found or self._new_path(step)
        save = Save(
            path,
            request.checkpointables,
            # An existing directory that is not a step was never committed.
            request.overwrite or _files.lexists(path),
            request.custom_metadata,
            metrics=request.metrics,
            is_step=True,
        )
        added = new_info(step, request.metrics, path)
        with timed("/jax/checkpoint/write/get_old_steps_duration_secs"):
            others = [info for info in self.all() if info.step != step]
            infos = [*others, added]
            superfluous = all_but_one(self.superfluous(infos), len(infos))
        if in_background:
            return self._start(save, added, superfluous)
        save.run()
        self._know(added, superfluous)
        self._remove(superfluous)
        callback = self._context.asynchronous.post_finalization_callback
        if callback is not None:
            callback()
        return True

    def _start(
        self,
        save: Save,
        added: CheckpointInfo,
        superfluous: list[CheckpointInfo],
    ) -> BackgroundResponse[bool]:
        response = save.start(lambda: self._remove(superfluous))
        forgotten = self._know(added, superfluous)
        self._pending = _Pending(added.step, response, forgotten)
        return response

    def _know(
        self, added: CheckpointInfo, superfluous: list[CheckpointInfo]
    ) -> list[CheckpointInfo]:
        """Records a new step, and forgets superfluous steps.

        Returns the records of the forgotten steps.
        """
        gone = {info.step for info in superfluous}
        forgotten = self.take({added.step, *gone})
        if added.step not in gone:
            self.append(added)
        return forgotten

    def _remove(self, superfluous: list[CheckpointInfo]) -> bool:
        """Removes steps; called once the new step is committed. Returns True.
        """
        with timed("/jax/checkpoint/write/remove_steps_duration_secs"):
            if superfluous and self._processes.is_primary:
                root = _files.abspath(self._directory)
                names = [os.path.basename(info.path) for info in superfluous]
                self._remover.dispose(root, names)
        return True

    def is_saving(self) -> bool:
        """Returns whether a save is running in the background."""
        return self._pending is not None and not self._pending.response.done()

    def cancel(self) -> None:
        """Stops a save that runs in the background, and waits until it ends.

        Raises:
            Exception: the error with which the save had already failed.
        """
        if self._pending is not None:
            self._pending.response.cancel()
            self.wait()

    def wait(self) -> None:
        """Waits for a save that runs in the background.

        Raises:
            Exception: the save's error, if it was not reported yet.
        """
        pending = self._pending
        if pending is None:
            return
        error = pending.response.failure()
        self._end_if_failed()
        self._pending = None
        was_cancelled = isinstance(error, holdfast_errors.CancelledError)
        if error is None or was_cancelled or pending.response.error_was_seen:
            return
        raise error

    def _end_if_failed(self) -> None:
        """Restores the records of the steps if the running save has failed."""
        pending = self._pending
        if pending is None or pending.has_failed or not pending.response.done():
            return
        if pending.response.state == "durable":
            return
        pending.has_failed = True
        self.take({pending.step})
        self.put_back(pending.forgotten)

    def wait_for_removal(self) -> None:
        """Waits until the files of removed steps are deleted."""
        self._remover.wait()
