"""CheckpointManager: the steps of a training run.

Reading alone: `save`, `delete` and whatever else writes into the run come with
a later release.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from holdfast.orbax._checkpointer import Checkpointer
from holdfast.orbax._handler import CheckpointHandler
from holdfast.orbax._later import not_implemented
from holdfast.orbax._manager_handlers import (
    DEFAULT_ITEM_NAME,
    METRIC_ITEM_NAME,
    Checkpointers,
    ItemHandlers,
    check_exclusive,
    handler_of_checkpointers,
    handler_of_items,
    handler_of_registry,
    metrics_handler,
)
from holdfast.orbax._manager_options import (
    CheckpointManagerOptions,
    check_usable,
)
from holdfast.orbax._manager_policy import CheckpointInfo, default_policy
from holdfast.orbax._manager_restore import (
    check_restore_args,
    default_item,
    legacy_args,
)
from holdfast.orbax._paths import PathLike, handler_path
from holdfast.orbax._step_names import build_step_path, standard_name_format
from holdfast.orbax.checkpoint_args import CheckpointArgs
from holdfast.orbax.composite_checkpoint_handler import CompositeArgs
from holdfast.orbax.handler_registration import CheckpointHandlerRegistry
from holdfast.orbax.metadata.root import (
    ROOT_METADATA_FILENAME,
    RootMetadata,
    read_root_metadata,
)
from holdfast.orbax.metadata.step import check_json_object
from holdfast.orbax.save_decision_policy import DecisionContext
from holdfast.orbax.step import checkpoint_steps

__all__ = [
    "DEFAULT_ITEM_NAME",
    "METADATA_ITEM_NAME",
    "METRIC_ITEM_NAME",
    "CheckpointInfo",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "StepAlreadyExistsError",
]

METADATA_ITEM_NAME = "metadata"


class StepAlreadyExistsError(ValueError):
    """A step that was to be saved exists already."""


class CheckpointManager:
    """The steps in a directory, and restoring from them.

    A step holds a single item, in a directory called `default`, or items that
    have names; the first restore, or the handlers given, tell which.

    A context manager: leaving it closes the handlers.
    Thread-safety: one call at a time.
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
            metadata: the run's, used if none was saved; saving it comes later.
            item_names: items whose handlers the first restore tells.
            item_handlers: the single item's handler, or those of items.
            logger: accepted; it hears of saves.
            handler_registry: handlers of items and of arguments.

        Raises:
            ValueError: arguments that contradict each other; metadata of a
                step that cannot be read.
            NotImplementedError: an option that comes later.
            OSError: the directory cannot be made or read.
        """
        self._options = options or CheckpointManagerOptions()
        check_usable(self._options)
        check_exclusive(
            checkpointers, item_names, item_handlers, handler_registry
        )
        self._holds_single_item: bool | None = None
        self._checkpointer = self._make_checkpointer(
            checkpointers, item_names, item_handlers, handler_registry
        )
        self._save_decision_policy = (
            self._options.save_decision_policy or default_policy(self._options)
        )
        self._directory = handler_path(directory)
        if self._options.create:
            self._create_directory()
        self._name_format = (
            self._options.step_name_format
            or standard_name_format(
                step_prefix=self._options.step_prefix,
                step_format_fixed_length=self._options.step_format_fixed_length,
                single_host_load_and_broadcast=(
                    self._options.single_host_load_and_broadcast
                ),
                atomicity_options=self._options.atomicity_options,
            )
        )
        self._infos = self._find_steps(
            with_metadata=not self._options.lightweight_initialize
        )
        self._root_metadata = self._initial_root_metadata(metadata)

    def _make_checkpointer(
        self,
        checkpointers: Checkpointers | None,
        item_names: Sequence[str] | None,
        item_handlers: ItemHandlers | None,
        handler_registry: CheckpointHandlerRegistry | None,
    ) -> Checkpointer:
        """What restores steps.

        Raises:
            ValueError: handlers or options that do not fit.
        """
        options = self._options
        is_async = options.enable_async_checkpointing
        if checkpointers is not None:
            self._holds_single_item = not isinstance(checkpointers, Mapping)
            handler, is_async = handler_of_checkpointers(
                checkpointers, options.multiprocessing_options
            )
        elif item_names is None and item_handlers is None:
            handler = handler_of_registry(handler_registry)
        else:
            self._holds_single_item = isinstance(
                item_handlers, CheckpointHandler
            )
            handler = handler_of_items(
                item_names, item_handlers, options.multiprocessing_options
            )
        checkpointer = Checkpointer(
            handler, atomicity_options=options.atomicity_options
        )
        async_options = options.async_options
        if is_async and async_options and async_options.timeout_secs <= 0:
            raise ValueError(
                "Timeout must be positive, but got"
                f" {async_options.timeout_secs} seconds."
            )
        if (
            not is_async
            and async_options is not None
            and async_options.post_finalization_callback is not None
        ):
            raise ValueError(
                "AsyncOptions.post_finalization_callback is only supported"
                " with AsyncCheckpointer. But final resolved checkpointer is: "
                f" {checkpointer}"
            )
        return checkpointer

    def _create_directory(self) -> None:
        options = self._options
        if options.multiprocessing_options.active_processes is not None:
            raise NotImplementedError(
                "Option `create=True` with `active_processes` set is not"
                " supported. Please create the root directory yourself."
            )
        if os.path.exists(self._directory):
            return
        mode = options.file_options.path_permission_mode
        os.makedirs(
            self._directory, mode=0o777 if mode is None else mode, exist_ok=True
        )

    def _find_steps(self, with_metadata: bool) -> list[CheckpointInfo]:
        """The committed steps in order.

        Args:
            with_metadata: read their times and metrics.
        """
        if not os.path.exists(self._directory):
            return []
        infos = [
            CheckpointInfo(
                step=found.step,
                time=found.commit_timestamp,
                metrics=self.metrics(found.step),
            )
            if with_metadata
            else CheckpointInfo(found.step, datetime.datetime.min, None)
            for found in self._name_format.find_all(self._directory)
        ]
        return sorted(infos, key=lambda info: info.step)

    def _initial_root_metadata(
        self, metadata: Mapping[str, Any] | None
    ) -> RootMetadata:
        """What is known of the run before its file is read.

        Raises:
            NotImplementedError: the metadata would have to be saved.
        """
        options = self._options
        directory = self._directory / METADATA_ITEM_NAME
        if options.read_only:
            is_saved = os.path.exists(directory)
            custom = None if is_saved else dict(metadata or {})
            return RootMetadata(custom_metadata=custom)
        if metadata is not None and options.save_root_metadata:
            if not os.path.exists(directory / ROOT_METADATA_FILENAME):
                raise not_implemented("CheckpointManager(metadata=...)")
        return RootMetadata(custom_metadata=None)

    @property
    def directory(self) -> Any:
        """The directory of all steps."""
        return self._directory

    def all_steps(self, read: bool = False) -> Sequence[int]:
        """The steps, in order.

        Args:
            read: look for them again, as `reload` does.
        """
        if read:
            logging.warning(
                "`read` option is deprecated. Use `reload` to read from disk."
            )
            self.reload()
        return [info.step for info in self._infos]

    def latest_step(self) -> int | None:
        """The last step; None without steps."""
        return self._infos[-1].step if self._infos else None

    def best_step(self) -> int | None:
        """The step whose metrics are best; the last one without `best_fn`.

        None without steps that have metrics.
        """
        best_fn = self._options.best_fn
        if best_fn is None:
            return self.latest_step()
        ranked = sorted(
            (info for info in self._infos if info.metrics is not None),
            key=lambda info: best_fn(info.metrics),
            reverse=self._options.best_mode == "min",
        )
        return ranked[-1].step if ranked else None

    def reload(self) -> None:
        """Looks for the steps again."""
        self._infos = self._find_steps(with_metadata=True)

    def reached_preemption(self, step: int) -> bool:
        """False: one process alone is told of no preemption."""
        return False

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
        context = DecisionContext(
            is_saving_in_progress=self.is_saving_in_progress(),
            reached_preemption=self.reached_preemption(step),
            multiprocessing_options=self._options.multiprocessing_options,
        )
        now = datetime.datetime.now(tz=datetime.timezone.utc)
        info = CheckpointInfo(step=step, time=now, metrics=None)
        return self._save_decision_policy.should_save(
            info, self._infos, context=context
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
        """Comes later.

        Raises:
            NotImplementedError: always.
        """
        raise not_implemented("CheckpointManager.save")

    def delete(self, step: int) -> None:
        """Comes later.

        Raises:
            NotImplementedError: always.
        """
        raise not_implemented("CheckpointManager.delete")

    def restore(
        self,
        step: int | None,
        items: Any | None = None,
        restore_kwargs: Any | None = None,
        directory: PathLike | None = None,
        args: CheckpointArgs | None = None,
    ) -> Any:
        """Restores a step's single item, or its named items.

        Args:
            step: its number; None: the last one.
            items: instead of `args`: what to restore like, or by item.
            restore_kwargs: instead of `args`: options, or by item.
            directory: another directory of steps.
            args: the single item's arguments, or a Composite of them; None
                restores every item as it is.

        Returns:
            The single item, or a Composite of items.

        Raises:
            FileNotFoundError: there are no steps; not this one.
            KeyError: there is no such item.
            ValueError: the arguments do not fit; the step was never committed.
            Exception: what an item's handler raises.
        """
        step = self._chosen_step(step, directory)
        path = self._step_path(step, handler_path(directory or self._directory))
        is_single = self._is_single_item(path)
        check_restore_args(items, args, is_single)
        if args is None:
            registry = self._checkpointer.handler._handler_registry
            args = legacy_args(registry, items, restore_kwargs, is_single)
        elif is_single:
            args = CompositeArgs(**{DEFAULT_ITEM_NAME: args})
        restored = self._checkpointer.restore(path, args=args)
        return default_item(restored) if is_single else restored

    def _chosen_step(self, step: int | None, directory: Any) -> int:
        """The step asked for, or the last one.

        Raises:
            FileNotFoundError: there are no steps.
        """
        if step is not None:
            return step
        if directory is None:
            latest = self.latest_step()
        else:
            latest = max(checkpoint_steps(directory), default=None)
        if latest is None:
            raise FileNotFoundError(
                f"No steps found in {directory or self._directory}."
            )
        return latest

    def _step_path(self, step: int, directory: Any) -> Any:
        """Where a step is, or would be.

        Raises:
            ValueError: the user's name format does not find it.
        """
        name_format = self._options.step_name_format
        if name_format is not None:
            return name_format.find_step(directory, step).path
        return build_step_path(directory, self._name_format, step)

    def _is_single_item(self, path: Any) -> bool:
        """Whether steps hold a single item; the first one asked for tells."""
        if self._holds_single_item is None:
            self._holds_single_item = os.path.exists(path / DEFAULT_ITEM_NAME)
        return self._holds_single_item

    def item_metadata(self, step: int) -> Any:
        """Metadata of the single item, or a Composite of the items'.

        Items whose handlers are not known yet have None.

        Args:
            step: its number.

        Raises:
            FileNotFoundError: there is no such step.
            ValueError: no step; metadata that cannot be read.
        """
        if step is None:
            raise ValueError(
                "`step` must be provided. `item_metadata` only exists at the"
                " checkpoint step level, not the root level."
            )
        return self.metadata(step).item_metadata

    def metrics(self, step: int) -> Any | None:
        """The metrics that were saved with a step; None without.

        Args:
            step: its number.

        Raises:
            ValueError: they cannot be read.
        """
        path = self._step_path(step, self._directory) / METRIC_ITEM_NAME
        try:
            return metrics_handler().restore(path)
        except FileNotFoundError:
            return None

    def metadata(self, step: int | None = None) -> Any:
        """Metadata of a step, or of the run.

        Args:
            step: its number; None: the run.

        Returns:
            A StepMetadata, or a RootMetadata.

        Raises:
            FileNotFoundError: there is no such step.
            OSError: the run's metadata cannot be read.
            ValueError: metadata of other types than Orbax writes.
        """
        return self._run_metadata() if step is None else self._metadata_of(step)

    def _run_metadata(self) -> RootMetadata:
        if self._root_metadata.custom_metadata is None:
            directory = self._directory / METADATA_ITEM_NAME
            if os.path.exists(directory):
                self._root_metadata = read_root_metadata(os.fspath(directory))
            else:
                self._root_metadata.custom_metadata = {}
        return self._root_metadata

    def _metadata_of(self, step: int) -> Any:
        path = self._step_path(step, self._directory)
        metadata: Any = self._checkpointer.metadata(path)
        if self._is_single_item(path):
            metadata.item_metadata = default_item(metadata.item_metadata)
        if METRIC_ITEM_NAME in (metadata.item_handlers or {}):
            metrics = self.metrics(step)
            if metrics is not None:
                metadata.metrics = check_json_object(dict(metrics))
        return metadata

    def is_saving_in_progress(self) -> bool:
        """False: nothing is saved."""
        return False

    def wait_until_finished(self) -> None:
        """Returns at once: nothing is saved."""

    def check_for_errors(self) -> None:
        """Does nothing: nothing is saved."""

    def close(self) -> None:
        """Closes the handlers."""
        self._checkpointer.close()

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
