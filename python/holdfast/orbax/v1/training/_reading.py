"""Reads the steps of a run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NoReturn

from holdfast import _files
from holdfast.orbax._manager.root import read_run_metadata
from holdfast.orbax.logging.step_statistics import RestoreStepStatistics
from holdfast.orbax.metadata.root import RootMetadata as StoredRootMetadata
from holdfast.orbax.v1._layout import STATE_NAME
from holdfast.orbax.v1._leaves import check_abstract_state
from holdfast.orbax.v1._load import load_checkpointables
from holdfast.orbax.v1._metadata import checkpointables_metadata, metadata
from holdfast.orbax.v1._metadata_types import (
    CheckpointMetadata as PathMetadata,
)
from holdfast.orbax.v1._step_metadata import CheckpointMetadata, RootMetadata
from holdfast.orbax.v1.context import Context, get_context
from holdfast.orbax.v1.training._run import SavingRun


def number_of(step: Any) -> Any:
    """Returns the number of a step, given as its number or its metadata."""
    return step.step if isinstance(step, CheckpointMetadata) else step


class StepReader:
    """The part of Checkpointer that reads; Checkpointer sets the attributes.

    Attributes:
        _run: the steps.
        _context: the context of all calls.
        _directory: the directory of all steps.
        _logger: receives an entry for each load.
        _run_metadata: the run's metadata; None if it was not read yet.
    """

    _run: SavingRun
    _context: Context
    _directory: Any
    _logger: Any
    _run_metadata: StoredRootMetadata | None

    def load(
        self,
        step: int | CheckpointMetadata[Any] | None = None,
        abstract_state: Any | None = None,
        *,
        checkpointable_name: str = STATE_NAME,
    ) -> Any:
        """Loads a tree of a step.

        Args:
            step: the step's number; None means the last step.
            abstract_state: as for `holdfast.orbax.v1.load`.
            checkpointable_name: the subdirectory that contains the tree.

        Raises:
            StepNotFoundError: the step does not exist.
            Exception: as for `holdfast.orbax.v1.load_checkpointables`.
        """
        if isinstance(abstract_state, PathMetadata):
            abstract_state = abstract_state.metadata
        if abstract_state is not None:
            check_abstract_state(abstract_state)
        loaded = self.load_checkpointables(
            step, {checkpointable_name: abstract_state}
        )
        return loaded[checkpointable_name]

    def load_checkpointables(
        self,
        step: int | CheckpointMetadata[Any] | None = None,
        abstract_checkpointables: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Loads several checkpointables of a step.

        Args:
            step: the step's number; None means the last step.
            abstract_checkpointables: as for
                `holdfast.orbax.v1.load_checkpointables`.

        Raises:
            StepNotFoundError: the step does not exist.
            DataLossError: `step` is None, and the last step is damaged.
            Exception: as for `holdfast.orbax.v1.load_checkpointables`.
        """
        begun = time.time()
        with get_context(self._context):
            info = self._run.find(number_of(step))
            newest = info if step is None else None
            with self._run.reading(self._directory, newest):
                loaded = load_checkpointables(
                    info.path, abstract_checkpointables
                )
        facts = RestoreStepStatistics(
            step=info.step,
            directory=str(self._directory),
            checkpoint_manager_start_time=begun,
            checkpoint_manager_duration_secs=time.time() - begun,
        )
        self._logger.log_entry(dataclasses.asdict(facts))
        return loaded

    def load_async(
        self,
        step: int | CheckpointMetadata[Any] | None = None,
        abstract_state: Any | None = None,
    ) -> NoReturn:
        """Always raises, as Orbax does.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError()

    def load_checkpointables_async(
        self,
        step: int | CheckpointMetadata[Any] | None = None,
        abstract_checkpointables: dict[str, Any] | None = None,
    ) -> NoReturn:
        """Always raises, as Orbax does.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError()

    def metadata(
        self, step: int | CheckpointMetadata[Any] | None = None
    ) -> CheckpointMetadata[Any]:
        """Returns the metadata of a step's tree.

        Args:
            step: the step's number; None means the last step.

        Raises:
            StepNotFoundError: the step does not exist.
            Exception: as for `holdfast.orbax.v1.metadata`.
        """
        return self._metadata(step, metadata)

    def checkpointables_metadata(
        self, step: int | CheckpointMetadata[Any] | None = None
    ) -> CheckpointMetadata[dict[str, Any]]:
        """Returns the metadata of everything in a step.

        Args:
            step: the step's number; None means the last step.

        Raises:
            StepNotFoundError: the step does not exist.
            Exception: as for `holdfast.orbax.v1.checkpointables_metadata`.
        """
        return self._metadata(step, checkpointables_metadata)

    def _metadata(
        self,
        step: int | CheckpointMetadata[Any] | None,
        read: Callable[[Any], PathMetadata[Any]],
    ) -> CheckpointMetadata[Any]:
        with get_context(self._context):
            info = self._run.find(number_of(step))
            with _files.asking_once():
                found = read(info.path)
            return CheckpointMetadata(
                info.step,
                found.path,
                metadata=found.metadata,
                init_timestamp_nsecs=found.init_timestamp_nsecs,
                commit_timestamp_nsecs=found.commit_timestamp_nsecs,
                custom_metadata=found.custom_metadata,
                metrics=info.metrics,
            )

    def root_metadata(self) -> RootMetadata:
        """Returns the metadata of the run.

        Raises:
            OSError: the metadata cannot be read.
            ValueError: the metadata contains types that Orbax does not write.
        """
        if self._run_metadata is None:
            self._run_metadata = read_run_metadata(self._directory)
        return RootMetadata(
            directory=self._directory,
            custom_metadata=self._run_metadata.custom_metadata or {},
        )
