"""The peer-to-peer manager for emergency checkpoints: options and arguments.

Orbax's manager sends complete shards between processes that hold the same part
of the arrays. Here the data of a lost process is rebuilt from parity. The other
processes store that parity, no matter which parts of the arrays they hold.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
from collections.abc import Sequence
from typing import Any

from holdfast._lazy import importing
from holdfast.orbax._checkpointer.paths import handler_path
from holdfast.orbax._manager.root import make_root
from holdfast.orbax.args import Composite as PlainComposite
from holdfast.orbax.checkpoint_manager import (
    CheckpointManager as PlainManager,
)
from holdfast.orbax.checkpoint_manager import (
    CheckpointManagerOptions as PlainOptions,
)
from holdfast.orbax.experimental.emergency._host_manager import HostManager
from holdfast.orbax.experimental.emergency._manager import STATE, tree_of
from holdfast.orbax.experimental.emergency._steps import (
    TierSteps,
    check_step_names,
    exchanged,
    kept_count,
    local_rules,
    slice_count,
    slice_of_process,
)
from holdfast.orbax.multihost import process_index
from holdfast.orbax.options import MultiprocessingOptions
from holdfast.orbax.save_decision_policy import (
    DecisionContext,
    PolicyCheckpointInfo,
    SaveDecisionPolicy,
)
from holdfast.orbax.step import Metadata, NameFormat, standard_name_format

DATA_ITER = "data_iter"
_STATES = "pygrain_states.json"
_TIMEOUT_SECONDS = 120.0


def pygrain() -> Any | None:
    """Returns the module grain.python; None if grain is not installed."""
    with importing, contextlib.suppress(ImportError):
        return importlib.import_module("grain.python")
    return None


class Composite(PlainComposite):
    """The arguments for `state` and `data_iter`.

    Raises:
        ValueError: `state` is missing, or there is an item with another name.
        ImportError: `data_iter` is given and grain is not installed.
        TypeError: `data_iter` is not a grain iterator.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = list(self.keys())
        if STATE not in names:
            raise ValueError(f'Composite must contain "{STATE}" key: {names}')
        for name in names:
            if name not in (STATE, DATA_ITER):
                raise ValueError(f"Unsupported key in Composite: {name}")
        if DATA_ITER in names:
            _check_data_iter(self[DATA_ITER])


def _check_data_iter(value: Any) -> None:
    grain = pygrain()
    if grain is None:
        raise ImportError(
            "grain library is not available. Please install grain to use"
            " data_iter."
        )
    kinds = (grain.PyGrainCheckpointSave, grain.PyGrainCheckpointRestore)
    if not isinstance(value, kinds):
        raise TypeError(f"Unsupported type for data_iter: {type(value)}")


@dataclasses.dataclass
class LocalCheckpointOptions:
    """Options for steps on the hosts.

    Attributes:
        save_interval_steps: save at multiples of this number, counted from
            `save_interval_offset_steps`.
        save_interval_offset_steps: the first step to save.
        max_to_keep: number of steps to keep; None means 1.
    """

    save_interval_steps: int = 10
    save_interval_offset_steps: int = 0
    max_to_keep: int | None = None

    def __post_init__(self) -> None:
        if self.max_to_keep is None:
            self.max_to_keep = 1


@dataclasses.dataclass
class PersistentCheckpointOptions:
    """Options for steps on shared storage.

    Attributes:
        save_interval_steps: save at multiples of this number, counted from
            `save_interval_offset_steps`.
        save_interval_offset_steps: the first step to save.
        max_to_keep: number of steps to keep; None keeps all.
    """

    save_interval_steps: int = 1000
    save_interval_offset_steps: int = 0
    max_to_keep: int | None = None


@dataclasses.dataclass
class CheckpointManagerOptions:
    """Some of the options of `emergency.checkpoint_manager`."""

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


@dataclasses.dataclass
class OffsetFixedIntervalPolicy(SaveDecisionPolicy):
    """Saves every `interval`-th step, beginning with `offset`."""

    interval: int
    offset: int = 0

    def should_save(
        self,
        step: PolicyCheckpointInfo,
        previous_steps: Sequence[PolicyCheckpointInfo],
        *,
        context: DecisionContext,
    ) -> bool:
        after = step.step - self.offset
        return after >= 0 and after % self.interval == 0


class CheckpointManager(HostManager):
    """Saves steps on the hosts' own disks, with parity between the hosts, and
    some on shared storage.

    Any one slice may be lost or, without slices, any one process. Every process
    makes the same calls. Thread-safety: one call at a time.
    """

    _steps: TierSteps

    def __init__(
        self,
        global_mesh: Any,
        abstract_state: Any,
        local_directory: Any,
        persistent_directory: Any | None = None,
        *,
        options: CheckpointManagerOptions | None = None,
    ) -> None:
        """Finds the steps of all processes.

        Args:
            global_mesh: all devices; slices are along one of its axes.
            abstract_state: describes the result of `restore` if the arguments
                of `restore` do not.
            local_directory: this process's own directory; created if it does
                not exist.
            persistent_directory: the directory that all processes share, or
                None.
            options: CheckpointManagerOptions.
        """
        options = options or CheckpointManagerOptions()
        check_step_names(options.step_name_format)
        self._abstract_state = abstract_state
        self._local_directory = handler_path(local_directory)
        os.makedirs(os.fspath(local_directory), exist_ok=True)
        self._persistent: PlainManager | None = None
        if persistent_directory:
            self._persistent = _persistent_manager(
                persistent_directory, options.persistent
            )
        axis = options.replica_axis_index
        self._steps = TierSteps(
            local_directory,
            rules=local_rules(
                options.local.save_interval_steps,
                None,
                OffsetFixedIntervalPolicy(
                    options.local.save_interval_steps,
                    options.local.save_interval_offset_steps,
                ),
            ),
            keeps=kept_count(None, options.local.max_to_keep),
            slices=(
                slice_of_process(global_mesh, axis),
                slice_count(global_mesh, axis),
            ),
            persistent=self._persistent,
            item=STATE,
            timeout_seconds=_TIMEOUT_SECONDS,
        )

    @property
    def directory(self) -> Any:
        """The persistent directory or, without one, the local directory."""
        if self._persistent is not None:
            return self._persistent.directory
        return self._local_directory

    def latest_step(self) -> int | None:
        """Returns the last step on the hosts, or else on shared storage."""
        local = self._steps.local()
        return local[-1] if local else super().latest_step()

    def best_step(self) -> int | None:
        """Returns the last step, because there are no metrics."""
        return self.latest_step()

    def save(
        self,
        step: int,
        args: Any,
        *,
        force: bool = False,
        custom_metadata: dict[str, Any] | None = None,
    ) -> bool:
        """Begins to save a step if it is due on at least one tier.

        Args:
            step: the step's number.
            args: a Composite with `state`, and optionally `data_iter`. The
                iterator's state on every process is stored in a file of the
                step.
            force: save on both tiers, even if the step is not due.
            custom_metadata: has no effect.

        Returns:
            Whether the step is saved.

        Raises:
            Exception: any error from the previous save.
        """

        def files() -> dict[str, bytes]:
            if DATA_ITER not in args.keys():
                return {}
            return self._data_iter_files(args[DATA_ITER].item)

        return self._steps.save(
            step,
            tree_of(args[STATE]),
            force=force,
            custom_metadata=custom_metadata,
            files=files,
        )

    def _data_iter_files(self, iterator: Any) -> dict[str, bytes]:
        state = iterator.get_state()
        if isinstance(state, bytes):
            state = state.decode()
        states: dict[str, Any] = {}
        for own in exchanged(
            {str(process_index()): state}, DATA_ITER, _TIMEOUT_SECONDS
        ):
            states.update(own)
        if process_index() != 0:
            return {}
        return {f"{DATA_ITER}/{_STATES}": json.dumps(states, indent=2).encode()}

    def restore(self, step: int | None, args: Any) -> Any:
        """Restores a step onto the devices that the arguments name.

        Args:
            step: the step's number; None means the newest step that passes
                verification.
            args: a Composite with `state` as PyTreeRestore, and optionally
                `data_iter`.

        Returns:
            A Composite of the requested items.

        Raises:
            ValueError: there are no arguments, or the state of this process's
                iterator is missing.
            FileNotFoundError: the step does not exist.
        """
        if args is None:
            raise ValueError("The `args` parameter is required for restore.")
        target = getattr(args[STATE], "item", None)
        if target is None:
            target = self._abstract_state
        restored = {STATE: self._steps.restore(target, step)}
        if DATA_ITER in args.keys():
            restored[DATA_ITER] = self._data_iter(args[DATA_ITER].item)
        return PlainComposite(**restored)

    def _data_iter(self, iterator: Any) -> Any:
        path = f"{DATA_ITER}/{_STATES}"
        states = json.loads(self._steps.read_file(path))
        own = str(process_index())
        if own not in states:
            raise ValueError(f"Process index {own} not found in {path}")
        state = states[own]
        iterator.set_state(state.encode() if isinstance(state, str) else state)
        return iterator

    def metrics(self, step: int) -> Any | None:
        """Returns None, because there are no metrics."""
        return None


def _persistent_manager(
    directory: Any, options: PersistentCheckpointOptions
) -> PlainManager:
    make_root(handler_path(directory), MultiprocessingOptions(), None)
    return PlainManager(
        directory,
        options=PlainOptions(
            create=False,
            save_root_metadata=False,
            save_decision_policy=OffsetFixedIntervalPolicy(
                options.save_interval_steps,
                options.save_interval_offset_steps,
            ),
            max_to_keep=options.max_to_keep,
        ),
    )
