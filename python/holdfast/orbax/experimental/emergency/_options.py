"""Options of the managers of emergency checkpoints."""

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
    """Raises ValueError for an option that the policy stands for."""
    for name in names if policy is not None else ():
        if getattr(options, name) is not None:
            raise ValueError(
                f"If `preservation_policy` is provided, `{name}` must be left"
                " to its default value (None)."
            )


@dataclasses.dataclass
class LocalCheckpointOptions:
    """Steps on the hosts themselves.

    Attributes:
        save_interval_steps: save at its multiples.
        max_to_keep: number of steps that stay; None: 1.
        read_only: save none.
        should_save_fn: called with the step and the latest one, instead of the
            interval.
        save_decision_policy: instead of both.
        preservation_policy: `LatestN`, instead of `max_to_keep`.
        debug_use_full_global_mesh: nothing; accepted because Orbax has it.

    Raises:
        ValueError: options that contradict each other.
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
    """Steps on shared storage.

    Attributes:
        save_interval_steps: save at its multiples.
        max_to_keep: number of steps that stay; None: all.
        keep_period: its multiples stay.
        should_save_fn: called with the step and the latest one, instead of the
            interval.
        save_decision_policy: instead of both.
        preservation_policy: instead of `max_to_keep` and `keep_period`.

    Raises:
        ValueError: options that contradict each other.
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
        coordination_timeout_secs: for the slowest of the others.
    """

    coordination_timeout_secs: int = 120


@dataclasses.dataclass
class CheckpointManagerOptions:
    """Options of a CheckpointManager.

    Attributes:
        local: of steps on the hosts themselves.
        persistent: of steps on shared storage.
        replica_axis_index: the mesh's axis along which slices lie.
        step_name_format: of the names of persistent steps; only that of plain
            numbers.
        cleanup_tmp_directories: remove persistent steps that were never
            committed.
        enable_async_checkpointing: save in the background.
        async_options: of saves by only one slice.
        multiprocessing_options: how processes wait for each other.
        single_host_load_and_broadcast: nothing; accepted because Orbax has it.
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
