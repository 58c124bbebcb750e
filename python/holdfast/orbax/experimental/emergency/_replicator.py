"""ReplicatorCheckpointManager: saves steps only on the hosts.

In Orbax, a service of Google Kubernetes Engine copies the hosts' files to
shared storage, and copies a lost host's files back. Here, parity between the
hosts restores a lost host's files.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from holdfast import _engine
from holdfast.orbax._checkpointer.paths import handler_path
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._devices.placement import requested_sharding
from holdfast.orbax.args import Composite, PyTreeRestore, PyTreeSave
from holdfast.orbax.checkpoint_args import CheckpointArgs
from holdfast.orbax.checkpoint_manager import (
    CheckpointManager as PlainManager,
)
from holdfast.orbax.checkpoint_manager import (
    CheckpointManagerOptions as PlainOptions,
)
from holdfast.orbax.experimental.emergency._host_manager import HostManager
from holdfast.orbax.experimental.emergency._manager import (
    DATASET,
    check_save_args,
    tree_of,
)
from holdfast.orbax.experimental.emergency._options import ShouldSaveFn
from holdfast.orbax.experimental.emergency._steps import (
    TierSteps,
    kept_count,
    local_rules,
    slice_count,
    slice_of_process,
)
from holdfast.orbax.handler_registration import CheckpointHandlerRegistry
from holdfast.orbax.metadata.sharding import (
    NamedShardingMetadata,
    from_serialized_string,
)
from holdfast.orbax.multihost import is_pathways_backend
from holdfast.orbax.preservation_policy import PreservationPolicy
from holdfast.orbax.step import Metadata, NameFormat

# In effect no limit: steps are kept until there is no more room.
_KEPT_MAX = 1 << 31


@dataclasses.dataclass
class ReplicatorCheckpointManagerOptions:
    """Options of a ReplicatorCheckpointManager.

    Attributes:
        save_interval_steps: save at multiples of this number.
        step_name_format: names of the data set's steps.
        should_save_fn: called with the step and the latest step; replaces the
            interval.
        preservation_policy: `LatestN`; None keeps steps until there is no more
            room.
        use_colocated_python: refused, because it needs Pathways.
        enable_async_checkpointing: save in the background.
        save_concurrent_gb: ignored; accepted because Orbax has it.
        restore_concurrent_gb: ignored; accepted because Orbax has it.
    """

    save_interval_steps: int = 1
    step_name_format: NameFormat[Metadata] | None = None
    should_save_fn: ShouldSaveFn | None = None
    preservation_policy: PreservationPolicy | None = None
    use_colocated_python: bool = False
    enable_async_checkpointing: bool = True
    save_concurrent_gb: int | None = None
    restore_concurrent_gb: int | None = None


class ReplicatorCheckpointManager(HostManager):
    """Saves steps on the hosts' own disks, with parity between the hosts.

    Any one slice may be lost or, without slices, any one process. Every process
    makes the same calls. Thread-safety: one call at a time.
    """

    _steps: TierSteps

    def __init__(
        self,
        local_directory: Any,
        options: ReplicatorCheckpointManagerOptions | None = None,
        *,
        global_mesh: Any,
        persistent_directory: Any | None = None,
        handler_registry: CheckpointHandlerRegistry | None = None,
    ) -> None:
        """Finds the steps of all processes.

        Args:
            local_directory: this process's own directory; created if it does
                not exist.
            options: ReplicatorCheckpointManagerOptions.
            global_mesh: all devices; slices are along its first axis.
            persistent_directory: where to store the data set's state.
            handler_registry: handlers for the data set.

        Raises:
            ValueError: an option needs Pathways.
        """
        options = options or ReplicatorCheckpointManagerOptions()
        if options.use_colocated_python:
            _refuse_colocated_python()
        self._global_mesh = global_mesh
        self._directory = handler_path(local_directory)
        os.makedirs(os.fspath(local_directory), exist_ok=True)
        policy = options.preservation_policy
        self._steps = TierSteps(
            local_directory,
            rules=local_rules(
                options.save_interval_steps, options.should_save_fn, None
            ),
            keeps=_KEPT_MAX if policy is None else kept_count(policy, None),
            slices=(
                slice_of_process(global_mesh, 0),
                slice_count(global_mesh, 0),
            ),
            is_async=options.enable_async_checkpointing,
        )
        if persistent_directory is not None:
            self._dataset = PlainManager(
                persistent_directory,
                options=PlainOptions(
                    save_interval_steps=options.save_interval_steps,
                    step_name_format=options.step_name_format,
                    should_save_fn=options.should_save_fn,
                    preservation_policy=policy,
                    enable_background_delete=True,
                    enable_async_checkpointing=(
                        options.enable_async_checkpointing
                    ),
                ),
                handler_registry=handler_registry,
            )

    @property
    def directory(self) -> Any:
        """The local directory."""
        return self._directory

    @property
    def global_mesh(self) -> Any:
        return self._global_mesh

    def best_step(self) -> int | None:
        raise NotImplementedError(
            "best_step is not implemented for ReplicatorCheckpointManager."
        )

    def is_saving_in_progress(self) -> bool:
        raise NotImplementedError(
            "is_saving_in_progress: call wait_until_finished, or save, which"
            " waits for the previous save"
        )

    def save(
        self,
        step: int,
        args: Any,
        *,
        force: bool = False,
        custom_metadata: dict[str, Any] | None = None,
        backup: bool = False,
    ) -> bool:
        """Begins to save a step if it is due.

        Args:
            step: the step's number.
            args: a Composite with `state` and other trees as PyTreeSave, and
                optionally `dataset`.
            force: save even if the step is not due.
            custom_metadata: metadata of the data set's step.
            backup: request a copy of this step on persistent storage: add an
                empty file `_BACKUP_REQUESTED` to the step, as Orbax 0.12.10
                does. This has no effect on a step that is not due.

        Returns:
            Whether the step is saved.

        Raises:
            ValueError: the arguments do not match.
            Exception: any error from the previous save.
        """
        _check(args, PyTreeSave)
        trees = {k: tree_of(v) for k, v in args.items() if k != DATASET}
        if not self._steps.save(
            step,
            trees,
            force=force,
            custom_metadata=None,
            files=_backup_request if backup else dict,
        ):
            return False
        if self._dataset is not None and DATASET in args.keys():
            self._dataset.save(
                step,
                args=Composite(**{DATASET: args[DATASET]}),
                force=force,
                custom_metadata=custom_metadata,
            )
        return True

    def restore(self, step: int | None, args: Any) -> Any:
        """Restores a step onto the devices that the arguments name.

        Args:
            step: the step's number; None means the newest step that passes
                verification.
            args: a Composite with `state` and other trees as PyTreeRestore, and
                optionally `dataset`. An array's sharding comes from the
                `restore_args`, else from the item, else from the saved step.

        Returns:
            A Composite of the requested items.

        Raises:
            FileNotFoundError: the step does not exist.
        """
        _check(args, PyTreeRestore)
        wanted = {k: v for k, v in args.items() if k != DATASET}

        def target(checkpoint: _engine.Checkpoint) -> dict[str, Any]:
            saved = _saved_targets(checkpoint, self._global_mesh)
            return {
                name: _target(wanted[name], stored) if name in wanted else ...
                for name, stored in saved.items()
            }

        restored = self._steps.restore_with(target, step)
        missing = sorted(wanted.keys() - restored.keys())
        if missing:
            raise ValueError(f"The step has no items {missing}.")
        items = {name: restored[name] for name in wanted}
        if self._dataset is not None and DATASET in args.keys():
            items[DATASET] = self._dataset.restore(
                self._steps.restored_step,
                args=Composite(**{DATASET: args[DATASET]}),
            )[DATASET]
        return Composite(**items)

    def metrics(self, step: int) -> Any | None:
        raise NotImplementedError(
            "metrics is not implemented for ReplicatorCheckpointManager."
        )


def _backup_request() -> dict[str, bytes]:
    """Returns the file that requests a backup from Multi-Tier Checkpointing."""
    return {"_BACKUP_REQUESTED": b""}


def _refuse_colocated_python() -> None:
    if not is_pathways_backend():
        raise ValueError(
            "Pathways colocated Python MTC requires a Pathways backend. McJAX"
            " MTC must use the standard ReplicatorCheckpointManager path with"
            " use_colocated_python=False."
        )
    raise NotImplementedError(
        "use_colocated_python needs the workers of a Pathways backend, which"
        " holdfast does not support; save from each process with"
        " use_colocated_python=False"
    )


def _check(args: Any, kind: type) -> None:
    """Raises ValueError or TypeError, with Orbax's message, for invalid
    arguments."""
    check_save_args(args)
    for name, given in args.items():
        if not isinstance(given, CheckpointArgs):
            raise TypeError(
                f"Expected CheckpointArgs, got {type(given).__name__}"
            )
        if name != DATASET and not isinstance(given, kind):
            raise ValueError(
                f"{type(given)} is not supported by this CheckpointManager."
                " This is likely because it does not yet implement support for"
                " local checkpointing."
            )


def _saved_targets(checkpoint: _engine.Checkpoint, mesh: Any) -> dict[str, Any]:
    """Returns the saved trees with each leaf's default target.

    The target of a jax.Array is its shape, dtype and saved sharding, on `mesh`.
    Other leaves are their own targets.
    """
    values = []
    for i, leaf in enumerate(checkpoint.leaves):
        if leaf.kind == "array" and leaf.sharding_json:
            values.append(_abstract(leaf, mesh))
        else:
            values.append(checkpoint.read(i))
    trees: dict[str, Any] = checkpoint.nest(values)
    return trees


def _abstract(leaf: _engine.LeafInfo, mesh: Any) -> Any:
    jax = require_jax("restoring a jax.Array")
    saved = from_serialized_string(leaf.sharding_json)
    if isinstance(saved, NamedShardingMetadata):
        spec = jax.sharding.PartitionSpec(*saved.partition_spec)
        sharding = jax.sharding.NamedSharding(mesh, spec)
    else:
        sharding = saved.to_jax_sharding()
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _target(args: Any, stored: Any) -> Any:
    """Returns the tree of targets that an item's arguments request."""
    jax = require_jax("restoring a tree")
    item = stored if args.item is None else args.item
    if args.restore_args is None:
        return item

    def one(leaf: Any, given: Any) -> Any:
        sharding = requested_sharding(given)
        if sharding is None or not hasattr(leaf, "shape"):
            return leaf
        dtype = leaf.dtype if given.dtype is None else given.dtype
        return jax.ShapeDtypeStruct(leaf.shape, dtype, sharding=sharding)

    return jax.tree.map(one, item, args.restore_args)
