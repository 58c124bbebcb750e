"""CheckpointManager: saves, keeps and deletes the steps of a training run."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from holdfast import _files
from holdfast._closing import ClosedAtExit
from holdfast._future import Future
from holdfast._log import log
from holdfast.orbax._checkpointer.base import AbstractCheckpointer, Checkpointer
from holdfast.orbax._checkpointer.paths import PathLike, handler_path
from holdfast.orbax._devices.monitoring import (
    SaveContext,
    record_duration,
    record_event,
    record_scalar,
    timed,
)
from holdfast.orbax._handlers.base import CheckpointHandler
from holdfast.orbax._handlers.pytree_save import saving_as
from holdfast.orbax._manager.args import check_args, legacy_args
from holdfast.orbax._manager.finalize import (
    FinalizeThread,
    SaveProgress,
    call_all,
)
from holdfast.orbax._manager.handlers import (
    DEFAULT_ITEM_NAME,
    METRIC_ITEM_NAME,
    Checkpointers,
    ItemHandlers,
    check_exclusive,
    checkpointer_of_checkpointers,
    handler_of_items,
    handler_of_registry,
    make_checkpointer,
)
from holdfast.orbax._manager.options import (
    CheckpointManagerOptions,
    _ShouldSaveFnPolicy,
    keep_policy_of,
    save_policy_of,
)
from holdfast.orbax._manager.reading import ReadingManager
from holdfast.orbax._manager.root import (
    METADATA_ITEM_NAME,
    check_root,
    make_root,
    meet,
    write_run_metadata,
)
from holdfast.orbax._manager.run import (
    CheckpointInfo,
    Run,
    new_info,
    reached_preemption,
    step_number,
)
from holdfast.orbax._manager.trash import Remover, leftovers
from holdfast.orbax._processes.operations import Processes
from holdfast.orbax._processes.signals import AwaitableSignalsContract
from holdfast.orbax.abstract_checkpoint_manager import (
    AbstractCheckpointManager,
    PyTree,
    RestoreParams,
    SaveParams,
)
from holdfast.orbax.async_checkpointer import AsyncCheckpointer
from holdfast.orbax.checkpoint_args import CheckpointArgs
from holdfast.orbax.composite_checkpoint_handler import (
    CompositeArgs,
    CompositeCheckpointHandler,
)
from holdfast.orbax.deleter import create_checkpoint_deleter
from holdfast.orbax.handler_registration import CheckpointHandlerRegistry
from holdfast.orbax.json_handler import JsonCheckpointHandler, JsonSaveArgs
from holdfast.orbax.logging import StandardLogger
from holdfast.orbax.logging.step_statistics import SaveStepStatistics
from holdfast.orbax.metadata.root import (
    RootMetadata,
    deserialize_root_metadata,
    serialize_root_metadata,
)
from holdfast.orbax.metadata.step import StepMetadata
from holdfast.orbax.multihost import is_primary_host, process_index
from holdfast.orbax.options import (
    AsyncOptions,
    FileOptions,
    MultiprocessingOptions,
)
from holdfast.orbax.proto_handler import ProtoCheckpointHandler
from holdfast.orbax.save_decision_policy import (
    AnySavePolicy,
    ContinuousCheckpointingPolicy,
)
from holdfast.orbax.step import standard_name_format
from holdfast.orbax.temporary_paths import remove_temporary_paths

__all__ = [
    "DEFAULT_ITEM_NAME",
    "METADATA_ITEM_NAME",
    "METRIC_ITEM_NAME",
    "RESERVED_ITEM_NAMES",
    "AbstractCheckpointManager",
    "AbstractCheckpointer",
    "AsyncCheckpointer",
    "AsyncOptions",
    "CheckpointArgs",
    "CheckpointDirs",
    "CheckpointHandler",
    "CheckpointHandlerRegistry",
    "CheckpointHandlersDict",
    "CheckpointInfo",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "Checkpointer",
    "CheckpointersDict",
    "CompositeCheckpointHandler",
    "FileOptions",
    "ItemMetadata",
    "JsonCheckpointHandler",
    "MultiprocessingOptions",
    "ProtoCheckpointHandler",
    "PyTree",
    "RestoreParams",
    "RootMetadata",
    "SaveParams",
    "StepAlreadyExistsError",
    "StepMetadata",
    "_ShouldSaveFnPolicy",  # AXLearn imports it from here
    "deserialize_root_metadata",
    "determine_default_item_mode_from_args",
    "is_async_checkpointer",
    "serialize_root_metadata",
]

CheckpointDirs: TypeAlias = tuple[str, str]
CheckpointersDict: TypeAlias = Mapping[str, AbstractCheckpointer]
CheckpointHandlersDict: TypeAlias = Mapping[str, CheckpointHandler]
ItemMetadata: TypeAlias = Any

RESERVED_ITEM_NAMES: list[str] = []


def is_async_checkpointer(checkpointer: Any) -> bool:
    """Returns whether a checkpointer saves in the background."""
    return isinstance(checkpointer, AsyncCheckpointer)


def determine_default_item_mode_from_args(args: Any) -> bool:
    """Returns whether arguments belong to a single unnamed item."""
    return not isinstance(args, CompositeArgs)


class StepAlreadyExistsError(ValueError):
    """The step to save already exists."""


class CheckpointManager(
    ReadingManager, AbstractCheckpointManager, ClosedAtExit
):
    """Saves, keeps, deletes and restores the steps in a directory.

    A step holds either a single item, in a directory called `default`, or named
    items. The given handlers, or else the first save or restore, determine
    which.

    Old steps are deleted once a new step exists. A rename makes them disappear
    immediately; their files are removed in the background. The last remaining
    step is always kept, regardless of the options.

    A `with` block waits for the running save and closes the handlers at its
    end.
    Thread-safety: one call at a time; any thread may wait.
    """

    def __init__(
        self,
        directory: PathLike,
        checkpointers: Checkpointers | None = None,
        options: CheckpointManagerOptions | None = None,
        metadata: Mapping[str, Any] | None = None,
        item_names: Sequence[str] | None = None,
        item_handlers: ItemHandlers | None = None,
        logger: Any | None = None,
        handler_registry: CheckpointHandlerRegistry | None = None,
    ) -> None:
        """Finds the steps.

        Args:
            directory: the directory of all steps; created if missing, unless
                the options forbid it.
            checkpointers: the single item's checkpointer, or checkpointers by
                item name.
            options: CheckpointManagerOptions.
            metadata: the run's metadata, a JSON object; saved once, or only
                held in memory if the options are read-only.
            item_names: items whose handlers the first save or restore
                determines.
            item_handlers: the single item's handler, or handlers by item name.
            logger: receives measurements of saves and restores.
            handler_registry: handlers of items and argument classes.

        Raises:
            ValueError: arguments contradict each other, or the directory is
                itself a checkpoint.
            OSError: the directory cannot be created or read.
        """
        self._options = options = options or CheckpointManagerOptions()
        self._multiprocessing_options = options.multiprocessing_options
        if options.deltas and not Processes().is_single:
            raise ValueError(
                "deltas: one process only; several save whole steps"
            )
        if options.enable_per_process_directory_creation:
            AwaitableSignalsContract.awaitable_signals_contract_prefix += (
                f"_{process_index()}"
            )
        policies = save_policy_of(options), keep_policy_of(options)
        check_exclusive(
            checkpointers, item_names, item_handlers, handler_registry
        )
        self._logger = logger or StandardLogger()
        self._checkpointer = self._make_checkpointer(
            checkpointers, item_names, item_handlers, handler_registry
        )
        self._directory = handler_path(directory)
        if options.create:
            make_root(
                self._directory,
                self._multiprocessing_options,
                options.file_options.path_permission_mode,
            )
        self._name_format = options.step_name_format or standard_name_format(
            step_prefix=options.step_prefix,
            step_format_fixed_length=options.step_format_fixed_length,
            single_host_load_and_broadcast=(
                options.single_host_load_and_broadcast
            ),
            temporary_path_cls=options.temporary_path_class,
            atomicity_options=options.atomicity_options,
        )
        self._cleanup = self._start_cleanup()
        self._checkpoints = Run(*policies, self._multiprocessing_options)
        self._checkpoints.set(
            self._load_checkpoint_infos(options.lightweight_initialize)
        )
        check_root(self._directory, self._checkpoints.all())
        self._run_metadata = self._save_run_metadata(metadata)
        self._finalize_thread: FinalizeThread | None = None
        self._progress = SaveProgress(
            self._multiprocessing_options, options.async_options
        )
        self._deleter = create_checkpoint_deleter(
            self._directory,
            name_format=self._name_format,
            primary_host=self._multiprocessing_options.primary_host,
            todelete_subdir=options.todelete_subdir,
            todelete_full_path=options.todelete_full_path,
            enable_background_delete=options.enable_background_delete,
            num_threads=options.num_deletion_threads,
        )
        self._last_save_time: float | None = None
        self._wait_for_prev_secs = 0.0
        record_event("/jax/orbax/checkpoint_manager/init")
        record_scalar(
            "/jax/orbax/checkpoint_manager/continuous_checkpointing_enabled",
            int(self._is_continuous()),
        )

    def _is_continuous(self) -> bool:
        """Returns whether a policy saves whenever the previous save has
        ended."""
        policy = self._options.save_decision_policy
        policies = [policy]
        if isinstance(policy, AnySavePolicy):
            policies = list(policy.policies)
        return any(
            isinstance(policy, ContinuousCheckpointingPolicy)
            for policy in policies
        )

    def _make_checkpointer(
        self,
        checkpointers: Checkpointers | None,
        item_names: Sequence[str] | None,
        item_handlers: ItemHandlers | None,
        handler_registry: CheckpointHandlerRegistry | None,
    ) -> Checkpointer:
        """Makes the checkpointer that saves and restores steps.

        Raises:
            ValueError: the handlers or options contradict each other.
        """
        options = self._options
        if checkpointers is not None:
            record_event("/jax/orbax/deprecation/checkpoint_manager_legacy_init")
            self._holds_single_item = not isinstance(checkpointers, Mapping)
            return checkpointer_of_checkpointers(checkpointers, options)
        if item_names is None and item_handlers is None:
            handler = handler_of_registry(handler_registry, options)
        else:
            self._holds_single_item = isinstance(
                item_handlers, CheckpointHandler
            )
            handler = handler_of_items(item_names, item_handlers, options)
        return make_checkpointer(
            handler, options, is_async=options.enable_async_checkpointing
        )

    def _save_run_metadata(
        self, metadata: Mapping[str, Any] | None
    ) -> RootMetadata | None:
        """Saves the run's metadata; returns None if it must be read later.

        Raises:
            ValueError: `metadata` is not a JSON object.
            OSError: the file cannot be written.
        """
        options, path = self._options, self._directory / METADATA_ITEM_NAME
        if options.read_only:
            is_kept = _files.exists(path)
            return None if is_kept else RootMetadata({}, dict(metadata or {}))
        if not options.save_root_metadata:
            return None
        written = write_run_metadata(
            self._directory, metadata, self._multiprocessing_options
        )
        self._meet("CheckpointManager:save_root_metadata")
        return written

    def _meet(self, place: str) -> None:
        meet(self._multiprocessing_options, place, self._directory)

    def _start_cleanup(self) -> Future[None] | None:
        """Removes leftovers of earlier programs in the background.

        Returns:
            The future that removes uncommitted directories; None if they are
            not to be removed.
        """
        options = self._options
        is_primary = is_primary_host(self._multiprocessing_options.primary_host)
        if options.read_only or not is_primary:
            return None
        Remover().add(leftovers(os.fspath(self._directory)))
        if not options.cleanup_tmp_directories:
            return None
        return Future(
            lambda _: remove_temporary_paths(
                self._directory,
                multiprocessing_options=options.multiprocessing_options,
                temporary_path_cls=options.temporary_path_class,
                atomicity_options=options.atomicity_options,
            ),
            what="removing temporary directories",
        )

    def _await_cleanup(self) -> None:
        cleanup, self._cleanup = self._cleanup, None
        if cleanup is not None:
            cleanup.result()

    def reached_preemption(self, step: int) -> bool:
        """Returns whether jax says that the program is about to be preempted.

        Args:
            step: the step's number, equal on all processes.
        """
        return reached_preemption(step)

    def should_save(self, step: int) -> bool:
        """Returns whether the options ask for a step to be saved.

        Args:
            step: the step's number.
        """
        if self._options.read_only:
            log.warning("%s is read only, save will be skipped", self.directory)
            return False
        step = step_number(step)
        asks = self._options.enable_should_save_is_saving_in_progress_check
        return self._checkpoints.should_save(
            step,
            self._checkpoints.all(),
            is_saving=asks and self.is_saving_in_progress(),
            asks_preemption=self.reached_preemption,
        )

    def save(
        self,
        step: int,
        items: Any | None = None,
        save_kwargs: Any | None = None,
        metrics: Any | None = None,
        force: bool | None = False,
        args: CheckpointArgs | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> bool:
        """Saves a step if the options ask for it, by default in the background.

        The caller may change the items once the call returns. The call waits
        for the previous save, but never for deletions.

        Args:
            step: the step's number; may be a 0-dimensional array.
            items: the single item, or items by name; an alternative to `args`.
            save_kwargs: options for the single item, or options by item name;
                used only with `items`.
            metrics: a JSON object by which `best_fn` ranks the step.
            force: saves regardless of the options.
            args: the single item's arguments, or a Composite of arguments.
            custom_metadata: a JSON object for `_CHECKPOINT_METADATA`.

        Returns:
            Whether the step is saved.

        Raises:
            StepAlreadyExistsError: the step exists.
            ValueError: the arguments are missing or do not match the items.
            Exception: any error from the previous save or an item's handler.
        """
        start = time.time()
        step = step_number(step)
        if items is None and args is None:
            raise ValueError("Must provide `args` for `save`.")
        if self._holds_single_item is None:
            self._holds_single_item = determine_default_item_mode_from_args(
                args
            )
        check_args(items, args, self._holds_single_item)
        if not force and not self.should_save(step):
            return False
        facts = SaveStepStatistics(
            step=step,
            directory=str(self.directory),
            synchronous=not self._is_async,
            checkpoint_manager_blocking_start_time=start,
        )
        validation_secs = time.time() - start
        self._await_cleanup()
        sync_start = time.time()
        self._meet("CheckpointManager:save_start")
        sync_secs = time.time() - sync_start
        self._wait_for_previous(step, facts)
        self._progress.set(True)
        try:
            validation_start = time.time()
            if step in self.all_steps():
                raise StepAlreadyExistsError(
                    f"Checkpoint for step {step} already exists."
                )
            composite = self._save_args(items, save_kwargs, metrics, args)
            validation_secs += time.time() - validation_start
            name = "/jax/orbax/write/blocking_val_duration_secs"
            record_duration(name, validation_secs)
            facts.checkpointer_blocking_start_time = time.time()
            path = self._get_write_step_directory(step, self._directory)
            with saving_as(
                self._options.deltas, fingerprints=self._options.fingerprints
            ):
                self._checkpointer.save(
                    path,
                    args=composite,
                    custom_metadata=custom_metadata,
                    force=not self._skips_checks(),
                    save_context=SaveContext(
                        start,
                        sync_secs,
                        facts.wait_for_prev_duration_secs or 0.0,
                    ),
                )
            facts.checkpointer_blocking_duration_secs = (
                time.time() - facts.checkpointer_blocking_start_time
            )
            self._checkpoints.append(new_info(step, metrics, path))
            facts.get_old_steps_start_time = time.time()
            dropped = self._checkpoints.forget(self._get_old_steps_to_remove())
            facts.get_old_steps_duration_secs = (
                time.time() - facts.get_old_steps_start_time
            )
            name = "/jax/checkpoint/write/get_old_steps_duration_secs"
            record_duration(name, facts.get_old_steps_duration_secs)
            self._meet("CheckpointManager:old_steps_to_remove")
        except BaseException:
            self._progress.set(False)
            raise
        self._start_finalize(step, dropped)
        facts.checkpoint_manager_blocking_duration_secs = time.time() - start
        self._logger.log_entry(dataclasses.asdict(facts))
        return True

    def _wait_for_previous(
        self, step: int, facts: SaveStepStatistics
    ) -> None:
        """Waits for the previous save and records the waiting time.

        Raises:
            Exception: any error from the previous save.
        """
        if self.reached_preemption(step):
            facts.reached_preemption = True
            facts.preemption_received_at = time.time()
        facts.wait_for_prev_start_time = time.time()
        if self._last_save_time is not None:
            between = facts.wait_for_prev_start_time - self._last_save_time
            facts.time_between_consecutive_saves_sec = between
            record_duration(
                "/jax/orbax/checkpoint_manager/"
                "time_between_consecutive_saves_secs",
                between,
                continuous_checkpointing_enabled=int(self._is_continuous()),
            )
        self._wait_for_save()
        facts.wait_for_prev_duration_secs = self._wait_for_prev_secs
        self._wait_for_prev_secs = 0.0

    @property
    def _is_async(self) -> bool:
        return is_async_checkpointer(self._checkpointer)

    def _skips_checks(self) -> bool:
        file_options = self._options.file_options
        return self._is_async and file_options.skip_sync_file_validations

    def _save_args(
        self, items: Any, save_kwargs: Any, metrics: Any, args: Any
    ) -> CompositeArgs:
        """Returns the arguments of all items, including metrics.

        Raises:
            ValueError: an item's handler is unknown.
        """
        is_single = bool(self._holds_single_item)
        composite: CompositeArgs = args
        if args is None:
            registry = self._checkpointer.handler._handler_registry
            composite = legacy_args(
                registry, items, save_kwargs, is_single=is_single, is_save=True
            )
        elif is_single:
            composite = CompositeArgs(**{DEFAULT_ITEM_NAME: args})
        if self._options.best_fn is None:
            return composite
        if metrics is None:
            log.warning(
                "Requested `tracked_metric`; did not provide metrics."
            )
            return composite
        if self._options.prevent_write_metrics:
            return composite
        return CompositeArgs(
            **{
                **dict(composite.items()),
                METRIC_ITEM_NAME: JsonSaveArgs(metrics),
            }
        )

    def _get_old_steps_to_remove(self) -> list[int]:
        """Returns the steps to remove, in order."""
        infos = self._checkpoints.all()
        return [info.step for info in self._checkpoints.superfluous(infos)]

    def _start_finalize(self, step: int, dropped: list[CheckpointInfo]) -> None:
        def finalize() -> None:
            self._finalize(step, dropped)

        if not self._is_async:
            finalize()
            self._deleter.wait_until_finished()
            return
        self._finalize_thread = FinalizeThread(step, finalize)
        self._finalize_thread.start()

    def _finalize(self, step: int, dropped: list[CheckpointInfo]) -> None:
        """Waits for a save, then deletes steps.

        Raises:
            Exception: any error from the save; in that case no step is deleted.
        """
        try:
            self._wait_for_checkpointer()
            self._finalize_checkpoint(step)
            with timed("/jax/checkpoint/write/remove_steps_duration_secs"):
                self._deleter.delete_steps([info.step for info in dropped])
            self._last_save_time = time.time()
        except BaseException:
            self._checkpoints.take({step})
            self._checkpoints.put_back(self._still_there(dropped))
            raise
        finally:
            self._progress.set(False)

    def _finalize_checkpoint(self, step: int) -> None:
        """Hook that runs after a step's commit, before old steps are deleted.

        Does nothing here; AXLearn's manager overrides it to write a file.
        """

    def _still_there(
        self, infos: Sequence[CheckpointInfo]
    ) -> list[CheckpointInfo]:
        """Returns the steps whose directories exist."""
        # Not `self._load_checkpoint_infos`, which a library's manager may
        # override: this call must read the disk.
        known = ReadingManager._load_checkpoint_infos(self, True)
        found = {info.step for info in known}
        return [info for info in infos if info.step in found]

    def _wait_for_checkpointer(self) -> None:
        if isinstance(self._checkpointer, AsyncCheckpointer):
            self._checkpointer.wait_until_finished()

    def delete(self, step: int) -> None:
        """Deletes a step.

        Args:
            step: the step's number.

        Raises:
            FileNotFoundError: the step does not exist.
            OSError: the step cannot be renamed.
        """
        if self._options.read_only:
            log.warning(
                "%s is read only, delete will be skipped", self.directory
            )
            return
        step = step_number(step)
        if step not in self.all_steps():
            raise FileNotFoundError(
                f"Requested deleting a non-existent step: {step}."
            )
        thread = self._finalize_thread
        if thread is not None and thread.step == step:
            self._wait_for_save()  # a step must exist before its deletion
        self._deleter.delete(step)
        self._meet("CheckpointManager:deleted_step")
        self._checkpoints.take({step})

    def is_saving_in_progress(self) -> bool:
        """Returns whether a save is running in the background."""
        return self._progress.get()

    def wait_until_finished(self) -> None:
        """Waits for the running save, then raises the save's error once.

        Also waits until the files of the steps that the save deleted are
        removed. With `enable_background_delete`, only `close` waits for that.
        """
        try:
            self._wait_for_save()
        finally:
            self._deleter.wait_until_finished()

    def _wait_for_save(self) -> None:
        """Waits only for the running save; raises the save's error once."""
        start = time.time()
        try:
            if self._finalize_thread is not None:
                self._finalize_thread.wait()
        finally:
            duration = time.time() - start
            if threading.current_thread() is threading.main_thread():
                name = "/jax/checkpoint/write/wait_for_prev_duration_secs"
                record_duration(name, duration)
                self._wait_for_prev_secs += duration

    def check_for_errors(self) -> None:
        """Raises the error of a finished background save, once."""
        if isinstance(self._checkpointer, AsyncCheckpointer):
            self._checkpointer.check_for_errors()

    def close(self) -> None:
        """Waits for the running save and for deletions; closes the handlers.

        Raises:
            Exception: any error from the save.
        """
        call_all(
            self.wait_until_finished,
            self._checkpointer.close,
            self._deleter.close,
        )
