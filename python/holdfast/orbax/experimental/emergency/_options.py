"""Options of the managers for emergency checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from holdfast.orbax.options import AsyncOptions
from holdfast.orbax.preservation_policy import PreservationPolicy
from holdfast.orbax.save_decision_policy import SaveDecisionPolicy
from holdfast.orbax.step import Metadata, NameFormat, standard_name_format

ShouldSaveFn = Callable[[int, int | None], bool]


def _refuse_both(policy: Any, options: Any, *names: str) -> None:
    """Raises ValueError for an option that the policy replaces."""
    for name in names if policy is not None else ():
        if getattr(options, name) is not None:
            raise ValueError(
                f"If `preservation_policy` is provided, `{name}` must be left"
                " to its default value (None)."
            )


@dataclasses.dataclass
class LocalCheckpointOptions:
    """Options for steps on the hosts.

    Attributes:
        save_interval_steps: save at multiples of this number.
        max_to_keep: number of steps to keep; None means 1.
        read_only: do not save.
        should_save_fn: called with the step and the latest step; replaces the
            interval.
        save_decision_policy: replaces the interval and `should_save_fn`.
        preservation_policy: `LatestN`; replaces `max_to_keep`.
        debug_use_full_global_mesh: ignored; accepted because Orbax has it.

    Raises:
        ValueError: options contradict each other.
    """

    save_interval_steps: int = 10
    max_to_keep: int | None = None
    read_only: bool = False
    should_save_fn: ShouldSaveFn | None = None
    save_decision_policy: SaveDecisionPolicy | None = None
    preservation_policy: PreservationPolicy | None = None
    debug_use_full_global_mesh: bool = False

    def __post_init__(self) -> None:
        _refuse_both(self.preservation_policy, self, "max_to_keep")
        if self.preservation_policy is None and self.max_to_keep is None:
            self.max_to_keep = 1


@dataclasses.dataclass
class PersistentCheckpointOptions:
    """Options for steps on shared storage.

    Attributes:
        save_interval_steps: save at multiples of this number.
        max_to_keep: number of steps to keep; None keeps all.
        keep_period: also keep steps that are multiples of this number.
        should_save_fn: called with the step and the latest step; replaces the
            interval.
        save_decision_policy: replaces the interval and `should_save_fn`.
        preservation_policy: replaces `max_to_keep` and `keep_period`.

    Raises:
        ValueError: options contradict each other.
    """

    save_interval_steps: int = 1000
    max_to_keep: int | None = None
    keep_period: int | None = None
    should_save_fn: ShouldSaveFn | None = None
    save_decision_policy: SaveDecisionPolicy | None = None
    preservation_policy: PreservationPolicy | None = None

    def __post_init__(self) -> None:
        _refuse_both(
            self.preservation_policy, self, "max_to_keep", "keep_period"
        )


@dataclasses.dataclass
class MultiprocessingOptions:
    """How processes wait for each other.

    Attributes:
        coordination_timeout_secs: how long to wait for the slowest process.
    """

    coordination_timeout_secs: int = 120


@dataclasses.dataclass
class CheckpointManagerOptions:
    """Options of a CheckpointManager.

    Attributes:
        local: options for steps on the hosts.
        persistent: options for steps on shared storage.
        replica_axis_index: the mesh axis of the slices.
        step_name_format: the names of persistent steps; only plain numbers are
            supported.
        cleanup_tmp_directories: remove persistent steps that were never
            committed.
        enable_async_checkpointing: save in the background.
        async_options: options for saves if there is only one slice.
        multiprocessing_options: how processes wait for each other.
        single_host_load_and_broadcast: ignored; accepted because Orbax has it.
    """

    local: LocalCheckpointOptions = dataclasses.field(
        default_factory=LocalCheckpointOptions
    )
    persistent: PersistentCheckpointOptions = dataclasses.field(
        default_factory=PersistentCheckpointOptions
    )
    replica_axis_index: int = 0
    step_name_format: NameFormat[Metadata] = dataclasses.field(
        default_factory=standard_name_format
    )
    cleanup_tmp_directories: bool = False
    enable_async_checkpointing: bool = True
    async_options: AsyncOptions | None = None
    multiprocessing_options: MultiprocessingOptions | None = None
    single_host_load_and_broadcast: bool = True
