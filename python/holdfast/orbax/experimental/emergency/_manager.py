"""The CheckpointManager for emergency checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.orbax._checkpointer.paths import handler_path
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._handlers.base import CheckpointHandler
from holdfast.orbax._manager import options as _plain_options
from holdfast.orbax._manager.root import make_root
from holdfast.orbax.args import Composite, PyTreeRestore
from holdfast.orbax.checkpoint_manager import (
    CheckpointManager as PlainManager,
)
from holdfast.orbax.checkpoint_utils import construct_restore_args
from holdfast.orbax.experimental.emergency._host_manager import HostManager
from holdfast.orbax.experimental.emergency._options import (
    CheckpointManagerOptions,
    MultiprocessingOptions,
)
from holdfast.orbax.experimental.emergency._steps import (
    TierSteps,
    check_step_names,
    kept_count,
    local_rules,
    slice_count,
    slice_of_process,
)
from holdfast.orbax.handler_registration import CheckpointHandlerRegistry
from holdfast.orbax.options import MultiprocessingOptions as PlainProcesses

STATE = "state"
DATASET = "dataset"
PROCESS_METADATA = "process_metadata"
_NOT_YET = " not yet implemented for emergency.CheckpointManager."


def check_save_args(args: Any) -> None:
    """Raises ValueError, with Orbax's message, for invalid arguments."""
    if not isinstance(args, Composite):
        raise ValueError(
            f"Expected args must be a Composite object, but got {type(args)}."
        )
    if STATE not in args.keys():
        raise ValueError(
            f"{STATE} is a required key and should be specified by the user."
        )
    if PROCESS_METADATA in args.keys():
        raise ValueError(
            f"{PROCESS_METADATA} is a reserved key and should not be specified"
            " by the user."
        )


def tree_of(given: Any) -> Any:
    """Returns the tree in an item's arguments.

    Chunk sizes in `save_args` are hints, and have no effect.

    Raises:
        NotImplementedError: `save_args` asks for a cast.
    """
    save_args = getattr(given, "save_args", None)
    leaves = require_jax("saving a tree").tree.leaves(save_args)
    if any(getattr(leaf, "dtype", None) is not None for leaf in leaves):
        raise NotImplementedError(
            "save_args with a dtype: the hosts store arrays as they are; cast"
            " them before saving"
        )
    return given.item


def persistent_options(
    options: CheckpointManagerOptions,
) -> _plain_options.CheckpointManagerOptions:
    """Returns the options of the manager for the persistent directory."""
    given = options.persistent
    return _plain_options.CheckpointManagerOptions(
        save_interval_steps=given.save_interval_steps,
        max_to_keep=given.max_to_keep,
        keep_period=given.keep_period,
        step_name_format=options.step_name_format,
        create=False,
        cleanup_tmp_directories=options.cleanup_tmp_directories,
        async_options=options.async_options,
        should_save_fn=given.should_save_fn,
        save_decision_policy=given.save_decision_policy,
        preservation_policy=given.preservation_policy,
        enable_async_checkpointing=options.enable_async_checkpointing,
        save_root_metadata=False,
    )


def _check_directory(directory: Any, what: str) -> None:
    if not os.path.isdir(os.fspath(directory)):
        raise FileNotFoundError(
            f"{what} directory {directory} must be created by the caller."
        )


class CheckpointManager(HostManager):
    """Saves steps on the hosts' own disks, and some on shared storage.

    Every process makes the same calls. Steps are stored by a
    `holdfast.TieredManager`: each process writes a share of the state into its
    local directory, and holds parity of the other processes' shares. The
    persistent directory contains plain checkpoints, which any CheckpointManager
    reads. If there is only one slice, a plain CheckpointManager does all the
    work, as in Orbax.

    Thread-safety: one call at a time.
    """

    def __init__(
        self,
        local_directory: Any,
        persistent_directory: Any,
        global_mesh: Any,
        abstract_state: Any,
        *,
        options: CheckpointManagerOptions | None = None,
        metadata: Mapping[str, Any] | None = None,
        logger: Any | None = None,
        item_handlers: CheckpointHandler
        | Mapping[str, CheckpointHandler]
        | None = None,
        handler_registry: CheckpointHandlerRegistry | None = None,
        persistent_non_replicated_directory: Any | None = None,
    ) -> None:
        """Finds the steps of all processes.

        Args:
            local_directory: this process's own directory, which exists.
            persistent_directory: the directory that all processes share.
            global_mesh: all devices; slices are along one of its axes.
            abstract_state: describes the result of `restore`:
                ShapeDtypeStructs with shardings, or arrays.
            options: CheckpointManagerOptions.
            metadata: the run's metadata, a JSON object.
            logger: receives entries for saves if there is only one slice.
            item_handlers: handlers for the data set.
            handler_registry: handlers for the data set.
            persistent_non_replicated_directory: the directory for the data
                set's state, which differs between processes.

        Raises:
            FileNotFoundError: the local directory does not exist.
            ValueError: arguments contradict each other.
        """
        options = options or CheckpointManagerOptions()
        axis = options.replica_axis_index
        count = slice_count(global_mesh, axis)
        if count <= 0:
            raise ValueError(
                f"Slice count must be positive, but got {count} for mesh"
                f" {global_mesh}."
            )
        self._global_mesh = global_mesh
        self._abstract_state = abstract_state
        self._slice = slice_of_process(global_mesh, axis)
        self._directory = handler_path(persistent_directory)
        make_root(self._directory, PlainProcesses(), None)
        plain = PlainManager(
            persistent_directory,
            options=persistent_options(options),
            metadata=metadata,
            logger=logger,
        )
        self._steps = plain
        if count > 1:
            self._steps = self._make_tiers(
                local_directory, options, count, plain
            )
        if persistent_non_replicated_directory is not None:
            self._dataset = PlainManager(
                persistent_non_replicated_directory,
                options=persistent_options(options),
                metadata=metadata,
                handler_registry=handler_registry,
                item_handlers=item_handlers,
            )

    def _make_tiers(
        self,
        local_directory: Any,
        options: CheckpointManagerOptions,
        count: int,
        plain: PlainManager,
    ) -> TierSteps:
        _check_directory(local_directory, "Local")
        check_step_names(options.step_name_format)
        local = options.local
        processes = options.multiprocessing_options or MultiprocessingOptions()
        return TierSteps(
            local_directory,
            rules=local_rules(
                local.save_interval_steps,
                local.should_save_fn,
                local.save_decision_policy,
            ),
            keeps=kept_count(local.preservation_policy, local.max_to_keep),
            slices=(self._slice, count),
            persistent=plain,
            saves_local=not local.read_only,
            is_async=options.enable_async_checkpointing,
            timeout_seconds=processes.coordination_timeout_secs,
        )

    @property
    def directory(self) -> Any:
        """The persistent directory."""
        return self._directory

    @property
    def in_primary_slice(self) -> bool:
        """Whether this process has a device of the first slice."""
        return isinstance(self._steps, PlainManager) or self._slice == 0

    @property
    def global_mesh(self) -> Any:
        return self._global_mesh

    def all_steps(self, read: bool | None = None) -> Sequence[int]:
        """Returns the steps of both tiers on all processes, in order.

        Args:
            read: find the steps again; several slices always do.
        """
        has_tiers = isinstance(self._steps, TierSteps)
        return super().all_steps(read or has_tiers)

    def best_step(self) -> int | None:
        raise NotImplementedError("Metrics tracking" + _NOT_YET)

    def delete(self, step: int) -> None:
        raise NotImplementedError("Delete" + _NOT_YET)

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
            args: a Composite with `state`, and optionally `dataset`.
            force: save on both tiers, even if the step is not due.
            custom_metadata: the step's metadata; has no effect if there are
                several slices.

        Returns:
            Whether the step is saved.

        Raises:
            ValueError: the arguments do not match, or the step exists.
            Exception: any error from the previous save.
        """
        keywords: dict[str, Any] = {
            "force": force,
            "custom_metadata": custom_metadata,
        }
        if isinstance(args, Composite) and DATASET in args.keys():
            self._dataset_manager(step, "provided").save(
                step, args=args[DATASET], **keywords
            )
            rest = {k: v for k, v in args.items() if k != DATASET}
            args = Composite(**rest)
        if isinstance(self._steps, PlainManager):
            return self._steps.save(step, args=args, **keywords)
        check_save_args(args)
        return self._steps.save(step, tree_of(args[STATE]), **keywords)

    def restore(self, step: int | None, args: Any | None = None) -> Any:
        """Restores a step in the form of the abstract state.

        Args:
            step: the step's number; None means the newest step that passes
                verification.
            args: a Composite; if it has `dataset`, the data set is restored
                too.

        Returns:
            A Composite with `state`.

        Raises:
            FileNotFoundError: the step does not exist.
        """
        restored = {}
        if args and DATASET in args.keys():
            manager = self._dataset_manager(step, "requested to be restored")
            found = manager.restore(step, args=args[DATASET])
            if found:
                restored[DATASET] = found
        state = self._restore_state(step)
        return Composite(**{STATE: state, **restored})

    def _restore_state(self, step: int | None) -> Any:
        if isinstance(self._steps, TierSteps):
            return self._steps.restore(self._abstract_state, step)
        args = PyTreeRestore(
            item=self._abstract_state,
            restore_args=construct_restore_args(self._abstract_state),
        )
        return self._steps.restore(step, args=Composite(**{STATE: args}))[STATE]

    def _dataset_manager(self, step: int | None, what: str) -> PlainManager:
        if self._dataset is None:
            raise ValueError(
                "Non-replicated checkpoint manager is None, but dataset was"
                f" {what} at step {step}."
            )
        return self._dataset

    def item_metadata(self, step: int) -> Any:
        raise NotImplementedError(
            "Item metadata not implemented for emergency.CheckpointManager."
        )

    def metadata(self, step: int | None = None) -> Any:
        raise NotImplementedError("Metadata" + _NOT_YET)

    def metrics(self, step: int) -> Any | None:
        raise NotImplementedError("Metrics" + _NOT_YET)
