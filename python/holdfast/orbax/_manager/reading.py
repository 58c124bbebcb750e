"""The part of a manager that reads: steps, items, metrics and metadata."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Sequence
from typing import Any

from holdfast import _engine, _files
from holdfast._log import log
from holdfast.orbax._checkpointer.base import Checkpointer
from holdfast.orbax._checkpointer.paths import PathLike, handler_path
from holdfast.orbax._devices.monitoring import timed
from holdfast.orbax._manager.args import (
    check_args,
    default_item,
    legacy_args,
)
from holdfast.orbax._manager.handlers import (
    DEFAULT_ITEM_NAME,
    METRIC_ITEM_NAME,
    metrics_handler,
)
from holdfast.orbax._manager.options import CheckpointManagerOptions
from holdfast.orbax._manager.root import read_run_metadata
from holdfast.orbax._manager.run import (
    CheckpointInfo,
    Run,
    step_number,
    stored_infos,
)
from holdfast.orbax.checkpoint_args import CheckpointArgs
from holdfast.orbax.composite_checkpoint_handler import CompositeArgs
from holdfast.orbax.logging.step_statistics import RestoreStepStatistics
from holdfast.orbax.metadata.root import RootMetadata
from holdfast.orbax.metadata.step import check_json_object
from holdfast.orbax.step import (
    Metadata,
    NameFormat,
    build_step_path,
    checkpoint_steps,
    is_standard_name_format,
)


class ReadingManager:
    """Lists the steps in a directory and restores them.

    A derived class sets the attributes declared here. Orbax's names with an
    underscore exist for managers in libraries that derive from Orbax's manager
    (doc/clients.md). Thread-safety: one call at a time.
    """

    _options: CheckpointManagerOptions
    _directory: Any
    _name_format: NameFormat[Metadata]
    _checkpoints: Run
    _checkpointer: Checkpointer
    # The run's metadata; None if not read yet.
    _run_metadata: RootMetadata | None
    _logger: Any
    # Whether steps hold a single item; None until the first call decides.
    _holds_single_item: bool | None = None

    @property
    def directory(self) -> Any:
        """The directory of all steps."""
        return self._directory

    def all_steps(self, read: bool = False) -> Sequence[int]:
        """Returns the steps, in order.

        Args:
            read: find the steps again, like `reload`.
        """
        if read:
            log.warning(
                "`read` option is deprecated. Use `reload` to read from disk."
            )
            self.reload()
        return [info.step for info in self._checkpoints.all()]

    def latest_step(self) -> int | None:
        """Returns the last saved step; None without steps."""
        infos = self._checkpoints.all()
        return infos[-1].step if infos else None

    def best_step(self) -> int | None:
        """Returns the step with the best metrics, or the last step if there is
        no `best_fn`.

        Returns None if no step has metrics; NaN is never the best.
        """
        best_fn = self._options.best_fn
        if best_fn is None:
            return self.latest_step()
        infos = self._checkpoints.all()
        best = _engine.best_by_metric(
            infos, best_fn, self._options.best_mode == "min"
        )
        return None if best is None else infos[best].step

    def reload(self) -> None:
        """Finds the steps again."""
        self._checkpoints.set(self._load_checkpoint_infos())

    def _load_checkpoint_infos(
        self, skip_metadata_read: bool = False
    ) -> list[CheckpointInfo]:
        """Returns the committed steps in order.

        A directory that only has the name of a step does not count; otherwise a
        policy could count it as kept, or delete it.

        Args:
            skip_metadata_read: omit times and metrics, which are otherwise read
                on first use.
        """
        # A user's own format may need the directory.
        is_standard = is_standard_name_format(self._name_format)
        if not is_standard and not _files.exists(self._directory):
            return []
        name = "/jax/checkpoint/read/load_all_step_metadata_duration_secs"
        with timed(name):
            found = list(self._name_format.find_all(self._directory))
            # In an object store, the marker already proves a checkpoint.
            if not _files.is_url(self._directory):
                paths = [os.fspath(step.path) for step in found]
                are_steps = _engine.hold_checkpoints(paths)
                found = list(itertools.compress(found, are_steps))
            return stored_infos(found, is_lightweight=skip_metadata_read)

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
            step: the step's number; None means the last step.
            items: the single item's target, or targets by item name; an
                alternative to `args`.
            restore_kwargs: options for the single item, or options by item
                name; an alternative to `args`.
            directory: a different directory of steps.
            args: the single item's arguments, or a Composite of arguments; None
                restores every item as stored.

        Returns:
            The single item, or a Composite of items.

        Raises:
            FileNotFoundError: there are no steps, or `step` does not exist.
            KeyError: an item does not exist.
            ValueError: the arguments do not match, or the step was never
                committed.
            DataLossError: `step` is None, and the last step is damaged.
            Exception: any error from an item's handler.
        """
        newest = None
        if step is None and directory is None:
            newest = next(reversed(self._checkpoints.all()), None)
        with self._checkpoints.reading(self._directory, newest):
            return self._restore(step, items, restore_kwargs, directory, args)

    def _restore(
        self,
        step: int | None,
        items: Any,
        restore_kwargs: Any,
        directory: PathLike | None,
        args: CheckpointArgs | None,
    ) -> Any:
        start = time.time()
        step = self._chosen_step(step, directory)
        path = self._get_read_step_directory(
            step, handler_path(directory or self._directory)
        )
        is_single = self._is_single_item(path)
        check_args(items, args, is_single)
        if args is None:
            registry = self._checkpointer.handler._handler_registry
            args = legacy_args(
                registry,
                items,
                restore_kwargs,
                is_single=is_single,
                is_save=False,
            )
        elif is_single:
            args = CompositeArgs(**{DEFAULT_ITEM_NAME: args})
        statistics = RestoreStepStatistics(
            step=step,
            directory=str(directory or self._directory),
            checkpoint_manager_start_time=start,
            checkpointer_start_time=time.time(),
        )
        restored = self._checkpointer.restore(path, args=args)
        end = time.time()
        assert statistics.checkpointer_start_time is not None
        statistics.checkpointer_duration_secs = (
            end - statistics.checkpointer_start_time
        )
        statistics.checkpoint_manager_duration_secs = end - start
        self._logger.log_entry(dataclasses.asdict(statistics))
        return default_item(restored) if is_single else restored

    def _chosen_step(self, step: int | None, directory: Any) -> int:
        """Returns the given step, or the last step.

        Raises:
            FileNotFoundError: there are no steps.
        """
        if step is not None:
            return step_number(step)
        if directory is None:
            latest = self.latest_step()
        else:
            latest = max(checkpoint_steps(directory), default=None)
        if latest is None:
            raise FileNotFoundError(
                f"No steps found in {directory or self._directory}."
            )
        return latest

    def _get_read_step_directory(self, step: int, root_dir: Any) -> Any:
        """Returns the directory of a step, which may not exist.

        Raises:
            ValueError: the user's name format does not find the step.
        """
        step = step_number(step)
        name_format = self._options.step_name_format
        if name_format is not None:
            return name_format.find_step(root_dir, step).path
        return self._get_save_directory(step, root_dir)

    def _get_write_step_directory(self, step: int, root_dir: Any) -> Any:
        """Returns the directory to save a step to."""
        return self._get_save_directory(step, root_dir)

    def _get_save_directory(self, step: int, directory: Any) -> Any:
        return build_step_path(directory, self._name_format, step)

    @property
    def _track_best(self) -> bool:
        return self._options.best_fn is not None

    def _is_single_item(self, path: Any) -> bool:
        """Returns whether steps hold a single item; the first requested step
        decides."""
        if self._holds_single_item is None:
            self._holds_single_item = _files.exists(path / DEFAULT_ITEM_NAME)
        return self._holds_single_item

    def item_metadata(self, step: int) -> Any:
        """Returns the single item's metadata, or a Composite of the items'
        metadata.

        The metadata is None for an item whose handler is not known yet.

        Args:
            step: the step's number.

        Raises:
            FileNotFoundError: the step does not exist.
            ValueError: `step` is None, or the metadata cannot be read.
        """
        if step is None:
            raise ValueError(
                "`step` must be provided. `item_metadata` only exists at the"
                " checkpoint step level, not the root level."
            )
        return self.metadata(step).item_metadata

    def metrics(self, step: int) -> Any | None:
        """Returns the metrics that were saved with a step, or None.

        Args:
            step: the step's number.

        Raises:
            ValueError: the metrics cannot be read.
        """
        path = (
            self._get_read_step_directory(step, self._directory)
            / METRIC_ITEM_NAME
        )
        try:
            return metrics_handler().restore(path)
        except FileNotFoundError:
            return None

    def metadata(self, step: int | None = None) -> Any:
        """Returns the metadata of a step, or of the run.

        Args:
            step: the step's number; None means the run.

        Returns:
            A StepMetadata, or a RootMetadata.

        Raises:
            FileNotFoundError: the step does not exist.
            OSError: the run's metadata cannot be read.
            ValueError: the metadata contains types that Orbax does not write.
        """
        if step is not None:
            return self._metadata_of(step)
        if self._run_metadata is None:
            self._run_metadata = read_run_metadata(self._directory)
        return self._run_metadata

    def _metadata_of(self, step: int) -> Any:
        path = self._get_read_step_directory(step, self._directory)
        with _files.asking_once():
            metadata: Any = self._checkpointer.metadata(path)
            if self._is_single_item(path):
                metadata.item_metadata = default_item(metadata.item_metadata)
        if METRIC_ITEM_NAME in (metadata.item_handlers or {}):
            metrics = self.metrics(step)
            if metrics is not None:
                metadata.metrics = check_json_object(dict(metrics))
        return metadata
