"""CheckpointManagerOptions: names, intervals and rules of a manager."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Container
from typing import Any

from holdfast import _engine
from holdfast._delta import DeltaPolicy
from holdfast._log import log
from holdfast.orbax import preservation_policy
from holdfast.orbax._compat.errors import as_builtin
from holdfast.orbax.options import (
    AsyncOptions,
    AtomicityOptions,
    FileOptions,
    MultiprocessingOptions,
)
from holdfast.orbax.preservation_policy import PreservationPolicy
from holdfast.orbax.save_decision_policy import (
    AnySavePolicy,
    ContinuousCheckpointingPolicy,
    EnginePolicy,
    FixedIntervalPolicy,
    SaveDecisionPolicy,
)
from holdfast.orbax.step import Metadata, NameFormat


@dataclasses.dataclass
class CheckpointManagerOptions:
    """Options of a CheckpointManager.

    Attributes:
        save_interval_steps: save at multiples of this number.
        max_to_keep: number of steps to keep; None keeps all.
        keep_time_interval: also keep one step per interval of this length.
        keep_period: also keep steps that are multiples of this number.
        best_fn: maps a step's metrics to a number, or another sortable value,
            that decides which step is best.
        best_mode: "max" or "min".
        keep_checkpoints_without_metrics: never delete steps without metrics.
        step_prefix: names are `<prefix>_<step>`.
        step_format_fixed_length: the minimum number of digits in names.
        step_name_format: a name format that replaces the two options above.
        create: create the directory.
        cleanup_tmp_directories: remove checkpoints that were never committed.
        save_on_steps: also save at these steps.
        single_host_load_and_broadcast: one process lists steps for all.
        todelete_subdir: move steps there instead of deleting them.
        todelete_full_path: like `todelete_subdir`, in a bucket.
        enable_background_delete: `delete` returns before the files are removed;
            deleting after a save never waits for their removal.
        num_deletion_threads: maximum number of steps removed concurrently.
        read_only: do not save or delete; clears the options for saving and
            deleting.
        enable_async_checkpointing: save in the background.
        async_options: options of background saves.
        multiprocessing_options: which processes take part.
        should_save_fn: called with the step and the latest step; returns
            whether to save. Replaces `save_interval_steps` and
            `save_on_steps`.
        file_options: how files are created.
        atomicity_options: how steps are committed.
        save_root_metadata: write the manager's metadata.
        temporary_path_class: creates and finalizes the directories of steps and
            items, and overrides `atomicity_options`.
        save_decision_policy: decides when to save; replaces the older options
            above.
        preservation_policy: decides which steps to keep; replaces the older
            options above.
        prevent_write_metrics: do not store metrics.
        enable_should_save_is_saving_in_progress_check: pass to policies whether
            a save is running.
        enable_per_process_directory_creation: each process creates directories.
        lightweight_initialize: do not read the times and metrics of steps
            when the manager is created.
        deltas: store most steps as changes since the previous step
            (`doc/deltas.md`); None stores every step in full. Orbax does not
            have this option and reads only full steps. One process only.
        fingerprints: store a 128-bit fingerprint of each array's elements
            (`doc/fingerprints.md`) in addition to what Orbax reads. Orbax does
            not have this option.

    Raises:
        ValueError: options contradict each other.
    """

    save_interval_steps: int = 1
    max_to_keep: int | None = None
    keep_time_interval: datetime.timedelta | None = None
    keep_period: int | None = None
    best_fn: Callable[[Any], float] | None = None
    best_mode: str = "max"
    keep_checkpoints_without_metrics: bool = True
    step_prefix: str | None = None
    step_format_fixed_length: int | None = None
    step_name_format: NameFormat[Metadata] | None = None
    create: bool = True
    cleanup_tmp_directories: bool = False
    save_on_steps: Container[int] | None = None
    single_host_load_and_broadcast: bool = False
    todelete_subdir: str | None = None
    todelete_full_path: str | None = None
    enable_background_delete: bool = False
    num_deletion_threads: int | None = None
    read_only: bool = False
    enable_async_checkpointing: bool = True
    async_options: AsyncOptions | None = None
    multiprocessing_options: MultiprocessingOptions = dataclasses.field(
        default_factory=MultiprocessingOptions
    )
    should_save_fn: Callable[[int, int | None], bool] | None = None
    file_options: FileOptions = dataclasses.field(default_factory=FileOptions)
    atomicity_options: AtomicityOptions | None = None
    save_root_metadata: bool = True
    temporary_path_class: Any | None = None
    save_decision_policy: SaveDecisionPolicy | None = None
    preservation_policy: PreservationPolicy | None = None
    prevent_write_metrics: bool = False
    enable_should_save_is_saving_in_progress_check: bool = True
    enable_per_process_directory_creation: bool = False
    lightweight_initialize: bool = False
    deltas: DeltaPolicy | None = dataclasses.field(default=None, kw_only=True)
    fingerprints: bool = dataclasses.field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        with as_builtin():
            without_writing = _engine.check_manager_options(self, log.warning)
        for name, value in without_writing.items():
            setattr(self, name, value)
        steps: Any = self.save_on_steps
        self.save_on_steps = frozenset(steps or ())


def continuous_checkpointing_options(
    target_interval_steps: int, **options: Any
) -> CheckpointManagerOptions:
    """Returns options for a manager that saves as often as storage allows.

    At every multiple of the interval, the manager waits for the previous save
    and saves. In between it saves whenever no save is running. Orbax has this
    function since 0.12.10.

    Args:
        target_interval_steps: the interval, in steps; at least 1.
        options: more fields of CheckpointManagerOptions. Every step is kept,
            unless one of these options removes steps.

    Raises:
        ValueError: the interval is less than 1, or the options contradict each
            other.
        TypeError: an option is unknown, or is `save_decision_policy`.
    """
    if target_interval_steps < 1:
        raise ValueError(
            f"target_interval_steps is {target_interval_steps}, want at least 1"
        )
    policy = AnySavePolicy(
        [
            FixedIntervalPolicy(target_interval_steps),
            ContinuousCheckpointingPolicy(),
        ]
    )
    return CheckpointManagerOptions(save_decision_policy=policy, **options)


@dataclasses.dataclass
class _ShouldSaveFnPolicy(EnginePolicy):
    """Calls the user's function."""

    should_save_fn: Any

    def _rule(self) -> _engine.SaveRule:
        return _engine.SaveRule.function(self.should_save_fn)


class _SaveByOptions(EnginePolicy):
    def __init__(self, options: CheckpointManagerOptions) -> None:
        self._by = _engine.SaveRule.of_options(options)

    def _rule(self) -> _engine.SaveRule:
        return self._by


class _KeepByOptions(preservation_policy.EnginePolicy):
    def __init__(self, options: CheckpointManagerOptions) -> None:
        with as_builtin():
            self._by = _engine.KeepRule.of_options(options)

    def _rule(self) -> _engine.KeepRule:
        return self._by


def save_policy_of(options: CheckpointManagerOptions) -> SaveDecisionPolicy:
    """Returns the options' policy, or a policy made from the older options."""
    if options.save_decision_policy is not None:
        return options.save_decision_policy
    return _SaveByOptions(options)


def keep_policy_of(options: CheckpointManagerOptions) -> PreservationPolicy:
    """Returns the options' policy, or a policy made from the older options.

    Raises:
        ValueError: the options have both a policy and older options.
    """
    older = _KeepByOptions(options)
    if options.preservation_policy is not None:
        return options.preservation_policy
    return older
