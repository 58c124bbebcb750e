"""CheckpointManager: the steps of a training run, saved, kept and deleted."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from holdfast.orbax._checkpointer import Checkpointer
from holdfast.orbax._handler import CheckpointHandler
from holdfast.orbax._jax import imported_jax
from holdfast.orbax._manager_finalize import (
    FinalizeThread,
    SaveProgress,
    save_statistics,
)
from holdfast.orbax._manager_handlers import (
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
from holdfast.orbax._manager_infos import CheckpointInfos
from holdfast.orbax._manager_options import (
    CheckpointManagerOptions,
    check_usable,
)
from holdfast.orbax._manager_policy import (
    CheckpointInfo,
    default_policy,
    default_preservation_policy,
)
from holdfast.orbax._manager_reading import METADATA_ITEM_NAME, ReadingManager
from holdfast.orbax._manager_restore import check_args, legacy_save_args
from holdfast.orbax._manager_setup import (
    create_root,
    meet,
    save_root_metadata,
    start_cleanup,
)
from holdfast.orbax._paths import PathLike, handler_path
from holdfast.orbax._signals import AwaitableSignalsContract
from holdfast.orbax._step_names import build_step_path, standard_name_format
from holdfast.orbax.abstract_checkpoint_manager import (
    AbstractCheckpointManager,
)
from holdfast.orbax.async_checkpointer import AsyncCheckpointer
from holdfast.orbax.checkpoint_args import CheckpointArgs
from holdfast.orbax.composite_checkpoint_handler import CompositeArgs
from holdfast.orbax.deleter import create_checkpoint_deleter
from holdfast.orbax.handler_registration import CheckpointHandlerRegistry
from holdfast.orbax.json_handler import JsonSaveArgs
from holdfast.orbax.logging import StandardLogger
from holdfast.orbax.metadata.root import RootMetadata
from holdfast.orbax.metadata.step import StepMetadata
from holdfast.orbax.multihost import process_index, reached_preemption
from holdfast.orbax.options import (
    AsyncOptions,
    FileOptions,
    MultiprocessingOptions,
)
from holdfast.orbax.preservation_policy import PreservationContext
from holdfast.orbax.save_decision_policy import DecisionContext

__all__ = [
    "DEFAULT_ITEM_NAME",
    "METADATA_ITEM_NAME",
    "METRIC_ITEM_NAME",
    "RESERVED_ITEM_NAMES",
    "AbstractCheckpointManager",
    "AsyncOptions",
    "CheckpointInfo",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "FileOptions",
    "MultiprocessingOptions",
    "RootMetadata",
    "StepAlreadyExistsError",
    "StepMetadata",
    "determine_default_item_mode_from_args",
    "is_async_checkpointer",
]

RESERVED_ITEM_NAMES: list[str] = []


def is_async_checkpointer(checkpointer: Any) -> bool:
    """Whether a checkpointer saves in the background."""
    return isinstance(checkpointer, AsyncCheckpointer)


def determine_default_item_mode_from_args(args: Any) -> bool:
    """Whether arguments are those of a single item without a name."""
    return not isinstance(args, CompositeArgs)


class StepAlreadyExistsError(ValueError):
    """A step that was to be saved exists already."""


class CheckpointManager(ReadingManager, AbstractCheckpointManager):
    """The steps in a directory: saves, keeps, deletes and restores them.

    A step holds a single item, in a directory called `default`, or items that
    have names; the first save or restore, or the handlers given, tell which.

    Old steps are deleted after a new one exists, by a rename at once; their
    files go in the background. The last step that is left stays, whatever the
    options say.

    A context manager: leaving it waits and closes the handlers.
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
            directory: the one of all steps; made if it does not exist, unless
                the options say otherwise.
            checkpointers: the single item's, or those of items by name.
            options: CheckpointManagerOptions.
            metadata: the run's, a JSON object; saved once, and used without
                that where nothing may be written.
            item_names: items whose handlers the first call tells.
            item_handlers: the single item's handler, or those of items.
            logger: hears of saves and restores.
            handler_registry: handlers of items and of arguments.

        Raises:
            ValueError: arguments that contradict each other.
            OSError: the directory cannot be made or read.
        """
        self._options = options = options or CheckpointManagerOptions()
        self._processes_options = options.multiprocessing_options
        if options.enable_per_process_directory_creation:
            AwaitableSignalsContract.awaitable_signals_contract_prefix += (
                f"_{process_index()}"
            )
        check_usable(options)
        check_exclusive(
            checkpointers, item_names, item_handlers, handler_registry
        )
        self._logger = logger or StandardLogger()
        self._checkpointer = self._make_checkpointer(
            checkpointers, item_names, item_handlers, handler_registry
        )
        self._save_decision_policy = (
            options.save_decision_policy or default_policy(options)
        )
        self._preservation_policy = (
            options.preservation_policy or default_preservation_policy(options)
        )
        self._directory = handler_path(directory)
        if options.create:
            create_root(self._directory, options)
        self._name_format = options.step_name_format or standard_name_format(
            step_prefix=options.step_prefix,
            step_format_fixed_length=options.step_format_fixed_length,
            single_host_load_and_broadcast=(
                options.single_host_load_and_broadcast
            ),
            temporary_path_cls=options.temporary_path_class,
            atomicity_options=options.atomicity_options,
        )
        self._cleanup = start_cleanup(self._directory, options)
        self._infos = CheckpointInfos()
        is_light = options.lightweight_initialize
        self._infos.set(self._find_steps(with_metadata=not is_light))
        self._root_metadata = save_root_metadata(
            self._directory, options, metadata
        )
        self._finalize_thread: FinalizeThread | None = None
        self._progress = SaveProgress(
            self._processes_options, options.async_options
        )
        self._deleter = create_checkpoint_deleter(
            self._directory,
            name_format=self._name_format,
            primary_host=self._processes_options.primary_host,
            todelete_subdir=options.todelete_subdir,
            todelete_full_path=options.todelete_full_path,
            enable_background_delete=options.enable_background_delete,
            num_threads=options.num_deletion_threads,
        )

    def _make_checkpointer(
        self,
        checkpointers: Checkpointers | None,
        item_names: Sequence[str] | None,
        item_handlers: ItemHandlers | None,
        handler_registry: CheckpointHandlerRegistry | None,
    ) -> Checkpointer:
        """The checkpointer that saves and restores steps.

        Raises:
            ValueError: handlers or options that do not fit.
        """
        options = self._options
        if checkpointers is not None:
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

    def _meet(self, place: str) -> None:
        meet(self._processes_options, place, self._directory)

    def _await_cleanup(self) -> None:
        cleanup, self._cleanup = self._cleanup, None
        if cleanup is not None:
            cleanup.result()

    def reached_preemption(self, step: int) -> bool:
        """Whether the program is about to be ended, as jax was told.

        Args:
            step: its number, alike on all processes.
        """
        return imported_jax() is not None and reached_preemption(step)

    def should_save(self, step: int) -> bool:
        """Whether the options say that a step is to be saved.

        Args:
            step: its number.
        """
        if self._options.read_only:
            logging.warning(
                "%s is read only, save will be skipped", self.directory
            )
            return False
        latest = self.latest_step()
        if latest is not None and latest >= step:
            return False
        asks = self._options.enable_should_save_is_saving_in_progress_check
        context = DecisionContext(
            is_saving_in_progress=asks and self.is_saving_in_progress(),
            reached_preemption=self.reached_preemption(step),
            multiprocessing_options=self._processes_options,
        )
        info = CheckpointInfo(step=step, time=_now(), metrics=None)
        return self._save_decision_policy.should_save(
            info, self._infos.all(), context=context
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
        """Saves a step if the options say so; in the background by default.

        Once it has returned, the caller may change the items. It waits for the
        previous save, never for deletions.

        Args:
            step: its number.
            items: instead of `args`: the single item, or items by name.
            save_kwargs: with `items`: options, or those by item.
            metrics: a JSON object that `best_fn` ranks the step by.
            force: save whatever the options say.
            args: the single item's arguments, or a Composite of them.
            custom_metadata: a JSON object for `_CHECKPOINT_METADATA`.

        Returns:
            Whether it is saved.

        Raises:
            StepAlreadyExistsError: the step exists.
            ValueError: the arguments do not fit.
            Exception: what the save before raised; what an item's handler
                raises.
        """
        start = time.time()
        if items is None and args is None:
            raise ValueError("Must provide `args` for `save`.")
        if self._holds_single_item is None:
            self._holds_single_item = determine_default_item_mode_from_args(
                args
            )
        check_args(items, args, self._holds_single_item)
        if not force and not self.should_save(step):
            return False
        self._await_cleanup()
        self._meet("CheckpointManager:save_start")
        wait_start = time.time()
        self.wait_until_finished()
        wait_end = time.time()
        self._progress.set(True)
        try:
            if step in self.all_steps():
                raise StepAlreadyExistsError(
                    f"Checkpoint for step {step} already exists."
                )
            self._checkpointer.save(
                build_step_path(self._directory, self._name_format, step),
                args=self._save_args(items, save_kwargs, metrics, args),
                custom_metadata=custom_metadata,
                force=not self._skips_checks(),
            )
            dropped = self._choose_steps(CheckpointInfo(step, _now(), metrics))
            self._meet("CheckpointManager:old_steps_to_remove")
        except BaseException:
            self._progress.set(False)
            raise
        self._start_finalize(step, dropped)
        end = time.time()
        self._logger.log_entry(
            save_statistics(
                step=step,
                directory=str(self.directory),
                synchronous=not self._is_async,
                wait_for_prev_start_time=wait_start,
                wait_for_prev_duration_secs=wait_end - wait_start,
                checkpoint_manager_blocking_start_time=start,
                checkpoint_manager_blocking_duration_secs=end - start,
            )
        )
        return True

    @property
    def _is_async(self) -> bool:
        return is_async_checkpointer(self._checkpointer)

    def _skips_checks(self) -> bool:
        file_options = self._options.file_options
        return self._is_async and file_options.skip_sync_file_validations

    def _save_args(
        self, items: Any, save_kwargs: Any, metrics: Any, args: Any
    ) -> CompositeArgs:
        """The arguments of all items, metrics among them.

        Raises:
            ValueError: an item whose handler is not known.
        """
        is_single = bool(self._holds_single_item)
        composite: CompositeArgs = args
        if args is None:
            registry = self._checkpointer.handler._handler_registry
            composite = legacy_save_args(
                registry, items, save_kwargs, is_single
            )
        elif is_single:
            composite = CompositeArgs(**{DEFAULT_ITEM_NAME: args})
        if self._options.best_fn is None:
            return composite
        if metrics is None:
            logging.warning(
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

    def _choose_steps(self, new: CheckpointInfo) -> list[CheckpointInfo]:
        """Adds a step, and forgets those that are not to be kept.

        Returns:
            The forgotten ones, in order.
        """
        self._infos.append(new)
        infos = self._infos.all()
        keeps = self._preservation_policy.should_preserve(
            infos, context=PreservationContext()
        )
        dropped = [
            info
            for info, is_kept in zip(infos, keeps, strict=True)
            if not is_kept
        ]
        if len(dropped) == len(infos):
            dropped.remove(new)  # one good step stays, whatever the policy
        self._infos.remove({info.step for info in dropped})
        return dropped

    def _start_finalize(self, step: int, dropped: list[CheckpointInfo]) -> None:
        def finalize() -> None:
            self._finalize(step, dropped)

        if not self._is_async:
            finalize()
            return
        self._finalize_thread = FinalizeThread(step, finalize)
        self._finalize_thread.start()

    def _finalize(self, step: int, dropped: list[CheckpointInfo]) -> None:
        """Waits for a save, then deletes steps.

        Raises:
            Exception: what the save has raised; then no step is deleted.
        """
        try:
            self._wait_for_checkpointer()
            self._deleter.delete_steps([info.step for info in dropped])
        except BaseException:
            self._infos.remove({step})
            self._infos.put_back(self._still_there(dropped))
            raise
        finally:
            self._progress.set(False)

    def _still_there(
        self, infos: Sequence[CheckpointInfo]
    ) -> list[CheckpointInfo]:
        """The steps whose directories exist."""
        found = {i.step for i in self._find_steps(with_metadata=False)}
        return [info for info in infos if info.step in found]

    def _wait_for_checkpointer(self) -> None:
        if isinstance(self._checkpointer, AsyncCheckpointer):
            self._checkpointer.wait_until_finished()

    def delete(self, step: int) -> None:
        """Deletes a step.

        Args:
            step: its number.

        Raises:
            FileNotFoundError: there is no such step.
            OSError: it cannot be renamed.
        """
        if self._options.read_only:
            logging.warning(
                "%s is read only, delete will be skipped", self.directory
            )
            return
        if step not in self.all_steps():
            raise FileNotFoundError(
                f"Requested deleting a non-existent step: {step}."
            )
        thread = self._finalize_thread
        if thread is not None and thread.step == step:
            self.wait_until_finished()  # it must exist before it can go
        self._deleter.delete(step)
        self._meet("CheckpointManager:deleted_step")
        self._infos.remove({step})

    def is_saving_in_progress(self) -> bool:
        """Whether a save is running in the background."""
        return self._progress.get()

    def wait_until_finished(self) -> None:
        """Waits for the running save, then raises its error, once.

        Files of deleted steps may still be there afterwards; `close` waits for
        them as well.
        """
        if self._finalize_thread is not None:
            self._finalize_thread.wait()

    def check_for_errors(self) -> None:
        """Raises what a finished background save raised, once."""
        if isinstance(self._checkpointer, AsyncCheckpointer):
            self._checkpointer.check_for_errors()

    def close(self) -> None:
        """Waits for the running save and for deletions; closes the handlers.

        Raises:
            Exception: what the save raised.
        """
        steps: list[Callable[[], None]] = [
            self.wait_until_finished,
            self._checkpointer.close,
            self._deleter.close,
        ]
        failure: BaseException | None = None
        for step in steps:
            try:
                step()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.timezone.utc)
