"""Checkpointer: saves, keeps and finds the steps of a training run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from holdfast import _files
from holdfast._closing import ClosedAtExit
from holdfast.orbax._checkpointer.paths import PathLike, handler_path
from holdfast.orbax._devices.monitoring import record_event
from holdfast.orbax._manager.root import make_root, meet, write_run_metadata
from holdfast.orbax._manager.run import CheckpointInfo
from holdfast.orbax.logging import StandardLogger
from holdfast.orbax.logging.step_statistics import SaveStepStatistics
from holdfast.orbax.preservation_policy import PreservationPolicy, PreserveAll
from holdfast.orbax.save_decision_policy import (
    AnySavePolicy,
    ContinuousCheckpointingPolicy,
    InitialSavePolicy,
    PreemptionCheckpointingPolicy,
    SaveDecisionPolicy,
)
from holdfast.orbax.temporary_paths import remove_temporary_paths
from holdfast.orbax.v1._deletion import check_step, start_deletion
from holdfast.orbax.v1._layout import STATE_NAME
from holdfast.orbax.v1._leaves import check_state
from holdfast.orbax.v1._older_names import older_method
from holdfast.orbax.v1._operations import multiprocessing_of
from holdfast.orbax.v1._responses import AsyncResponse
from holdfast.orbax.v1._save import check_names
from holdfast.orbax.v1._step_metadata import CheckpointMetadata
from holdfast.orbax.v1.context import Context, get_context
from holdfast.orbax.v1.training._reading import StepReader, number_of
from holdfast.orbax.v1.training._run import Request, SavingRun, names_of
from holdfast.orbax.v1.training.errors import StepNotFoundError


def _default_save_policy() -> SaveDecisionPolicy:
    return AnySavePolicy(
        [
            InitialSavePolicy(),
            ContinuousCheckpointingPolicy(),
            PreemptionCheckpointingPolicy(),
        ]
    )


class Checkpointer(StepReader, ClosedAtExit):
    """Manages the steps in a directory.

    Saves when the save policy says so, one step at a time. Keeps the steps that
    the preservation policy selects, and removes the others once the new step is
    committed. A `with` block waits for all background work at its end.

    Thread-safety: one call at a time. With several processes, all of them make
    the same calls.
    """

    save_pytree = older_method("save_pytree", "save")
    save_pytree_async = older_method("save_pytree_async", "save_async")
    load_pytree = older_method("load_pytree", "load")
    load_pytree_async = older_method("load_pytree_async", "load_async")
    pytree_metadata = older_method("pytree_metadata", "metadata")

    def __init__(
        self,
        directory: PathLike,
        *,
        context: Context | None = None,
        save_decision_policy: SaveDecisionPolicy | None = None,
        preservation_policy: PreservationPolicy | None = None,
        step_name_format: Any | None = None,
        custom_metadata: Any | None = None,
        cleanup_tmp_directories: bool = False,
        lightweight_initialize: bool = False,
        logger: Any | None = None,
    ) -> None:
        """Finds the steps.

        Args:
            directory: the directory of all steps; created if it does not exist.
            context: the context of all calls; a `with Context()` block does not
                change it.
            save_decision_policy: which steps are saved. None saves the first
                step, every later step at which no save is running, and the step
                at which the program is about to be preempted.
            preservation_policy: which steps are kept; None keeps all.
            step_name_format: the names of the step directories; None means
                plain numbers.
            custom_metadata: a JSON object about the run, stored unless the run
                already has one.
            cleanup_tmp_directories: remove unfinished steps that earlier
                processes left.
            lightweight_initialize: do not read times and metrics.
            logger: its `log_entry(dict)` is called for saves and loads.

        Raises:
            ValueError: `custom_metadata` is not a JSON object.
            OSError: the directory cannot be created or read.
        """
        self._context = Context(context or get_context())
        self._directory = handler_path(directory)
        processes = multiprocessing_of(self._context)
        mode = self._context.file.path_permission_mode
        make_root(self._directory, processes, mode)
        atomicity = self._context.atomicity.v0()
        if cleanup_tmp_directories:
            remove_temporary_paths(
                self._directory,
                multiprocessing_options=processes,
                atomicity_options=atomicity,
            )
        self._names = names_of(step_name_format, atomicity)
        self._run = SavingRun(
            self._directory,
            self._names,
            self._context,
            save_decision_policy or _default_save_policy(),
            preservation_policy or PreserveAll(),
            is_lightweight=lightweight_initialize,
        )
        self._run_metadata = write_run_metadata(
            self._directory, custom_metadata, processes
        )
        if custom_metadata is not None:
            place = "CheckpointManager:save_root_metadata"
            meet(processes, place, self._directory)
        self._deletion: AsyncResponse[bool] | None = None
        self._logger = logger or StandardLogger()
        record_event("/jax/orbax/checkpoint_manager/init")

    @property
    def directory(self) -> Any:
        """The directory of all steps."""
        return self._directory

    @property
    def latest(self) -> CheckpointMetadata[None] | None:
        """The step with the largest number; None without steps."""
        infos = self._run.by_number()
        return self._described(infos[-1]) if infos else None

    @property
    def checkpoints(self) -> Sequence[CheckpointMetadata[None]]:
        """The steps by number, including a step that is being saved."""
        return [self._described(info) for info in self._run.by_number()]

    def _described(self, info: CheckpointInfo) -> CheckpointMetadata[None]:
        return CheckpointMetadata(
            info.step,
            info.path,
            metadata=None,
            metrics=info.metrics,
            commit_timestamp_nsecs=int(info.time.timestamp() * 1e9),
        )

    def should_save(self, step: int) -> bool:
        """Returns whether the policy says that a step should be saved.

        Args:
            step: the step's number.
        """
        with get_context(self._context):
            return self._run.should_save(
                number_of(step),
                self._run.known(),
                is_saving=self._run.is_saving(),
            )

    def save(
        self,
        step: int,
        state: Any,
        *,
        checkpointable_name: str = STATE_NAME,
        force: bool = False,
        overwrite: bool = False,
        metrics: Any | None = None,
        custom_metadata: Any | None = None,
    ) -> bool:
        """Saves a tree as a step if the policy says so, and waits for it.

        Args:
            step: the step's number.
            state: as for `holdfast.orbax.v1.save`.
            checkpointable_name: the subdirectory for the tree.
            force: save even if the policy says no.
            overwrite: replace an existing step once the new one is complete.
            metrics: a JSON object to store with the step.
            custom_metadata: a JSON object to store with the step.

        Returns:
            Whether the step was saved.

        Raises:
            StepAlreadyExistsError: the step exists and `overwrite` is False.
            Exception: as for `holdfast.orbax.v1.save`; also the error of the
                previous background save, if it was not reported yet.
        """
        check_state(state)
        return self.save_checkpointables(
            step,
            {checkpointable_name: state},
            force=force,
            overwrite=overwrite,
            metrics=metrics,
            custom_metadata=custom_metadata,
        )

    def save_async(
        self,
        step: int,
        state: Any,
        *,
        checkpointable_name: str = STATE_NAME,
        force: bool = False,
        overwrite: bool = False,
        metrics: Any | None = None,
        custom_metadata: Any | None = None,
    ) -> AsyncResponse[bool] | None:
        """Saves like `save`, but writes in the background.

        Everything that may change is copied before the call returns. If an
        earlier save is still running, the call first waits for it.

        Returns:
            The response for this save; None if the policy says not to save.
        """
        check_state(state)
        return self.save_checkpointables_async(
            step,
            {checkpointable_name: state},
            force=force,
            overwrite=overwrite,
            metrics=metrics,
            custom_metadata=custom_metadata,
        )

    def save_checkpointables(
        self,
        step: int,
        checkpointables: dict[str, Any],
        *,
        force: bool = False,
        overwrite: bool = False,
        metrics: Any | None = None,
        custom_metadata: Any | None = None,
    ) -> bool:
        """Saves several checkpointables as a step; see `save` and
        `holdfast.orbax.v1.save_checkpointables`."""
        options = force, overwrite, metrics, custom_metadata
        return self._save(False, step, checkpointables, *options) is not None

    def save_checkpointables_async(
        self,
        step: int,
        checkpointables: dict[str, Any],
        *,
        force: bool = False,
        overwrite: bool = False,
        metrics: Any | None = None,
        custom_metadata: Any | None = None,
    ) -> AsyncResponse[bool] | None:
        """Saves several checkpointables as a step; see `save_async`."""
        options = force, overwrite, metrics, custom_metadata
        response: AsyncResponse[bool] | None
        response = self._save(True, step, checkpointables, *options)
        return response

    def _save(self, in_background: bool, step: int, *request_args: Any) -> Any:
        request = Request(number_of(step), *request_args)
        self._wait_for_deletion()
        check_names(request.checkpointables)
        begun = time.time()
        with get_context(self._context):
            saved = self._run.save(request, in_background=in_background)
        if saved is not None:
            facts = SaveStepStatistics(
                step=request.step,
                directory=str(self._directory),
                synchronous=not in_background,
                checkpoint_manager_blocking_start_time=begun,
                checkpoint_manager_blocking_duration_secs=time.time() - begun,
            )
            self._logger.log_entry(dataclasses.asdict(facts))
        return saved

    def cancel(self, step: int | CheckpointMetadata[Any] | None = None) -> None:
        """Stops a background save, which then leaves nothing behind.

        Args:
            step: a step to delete if its save has already been committed.
        """
        self._wait_for_deletion()
        self._run.cancel()
        if step is not None and self._run.knows(number_of(step)):
            self.delete(step)

    def delete(
        self,
        step: int | CheckpointMetadata[Any],
        *,
        checkpointable_name: str | None = None,
        missing_ok: bool = False,
    ) -> bool:
        """Deletes a step, or one checkpointable in it, regardless of policies.

        Args:
            step: the step's number.
            checkpointable_name: the checkpointable to delete; None means the
                complete step.
            missing_ok: do not raise an error if there is nothing to delete.

        Returns:
            Whether there was anything to delete.

        Raises:
            StepNotFoundError: the step does not exist.
            Exception: as for `holdfast.orbax.v1.delete`.
        """
        response = self.delete_async(
            step, checkpointable_name=checkpointable_name, missing_ok=missing_ok
        )
        self._wait_for_deletion()
        return response.result()

    def delete_async(
        self,
        step: int | CheckpointMetadata[Any],
        *,
        checkpointable_name: str | None = None,
        missing_ok: bool = False,
    ) -> AsyncResponse[bool]:
        """Deletes like `delete`, but removes the files in the background.

        When the call returns, readers no longer see the deleted part. Later
        saves and deletions wait until the files are removed.
        """
        number = check_step(number_of(step), checkpointable_name, missing_ok)
        self._wait_for_deletion()
        self._run.wait()
        path = self._run.path(number)
        if not _files.exists(path) and not missing_ok:
            raise StepNotFoundError(f"No checkpoint found at step {number}.")
        with get_context(self._context):
            response = start_deletion(
                path,
                checkpointable_name=checkpointable_name,
                missing_ok=missing_ok,
                is_step=True,
            )
        if checkpointable_name is None:
            self._run.take({number})
        self._deletion = response
        return response

    def _wait_for_deletion(self) -> None:
        """Waits for a background deletion.

        Raises:
            Exception: any error from the deletion, once.
        """
        deletion, self._deletion = self._deletion, None
        if deletion is not None:
            deletion.result()

    def reload(self) -> None:
        """Finds the steps again, with their times and metrics."""
        self._wait_for_deletion()
        self._run.reload()

    def is_saving_in_progress(self) -> bool:
        """Returns whether a save is running in the background."""
        return self._run.is_saving()

    def wait(self) -> None:
        """Waits for all background work.

        Raises:
            Exception: any error from a save or deletion that was not reported
                yet.
        """
        self._wait_for_deletion()
        self._run.wait()

    def close(self) -> None:
        """Waits for all background work, including the removal of files."""
        try:
            self.wait()
        finally:
            self._run.wait_for_removal()
