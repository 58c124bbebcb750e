"""The common state, and objects, in torch.save files.

The files are pickles. Reading a file runs none of the code that it names. The
result consists of numbers, strings, containers, tensors, numpy arrays and a few
plain classes. Objects of other classes become `holdfast.PickleRecord`. If a
file names a function with side effects (such as os.system), the read fails.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from holdfast import _engine, _files
from holdfast._remote_path import plain_path
from holdfast.megatron import _torch_file, ranks
from holdfast.megatron._errors import from_engine
from holdfast.megatron.core import CheckpointingException
from holdfast.megatron.dict_utils import dict_list_map_inplace, nested_values
from holdfast.megatron.mapping import (
    ShardedObject,
    ShardedStateDict,
    StateDict,
    is_main_replica,
)
from holdfast.megatron.strategies.base import (
    CheckpointDir,
    LoadCommonStrategy,
    SaveCommonStrategy,
    StrategyAction,
    register_default_strategy,
)
from holdfast.megatron.strategies.torch import load_object

__all__ = [
    "COMMON_STATE_FNAME",
    "TorchCommonLoadStrategy",
    "TorchCommonSaveStrategy",
    "register_default_common_strategies",
]

COMMON_STATE_FNAME = "common.pt"
_COMMON_STATE_OBJECT = "common_state/shard_0_1"


def register_default_common_strategies() -> None:
    """Makes the strategies below the defaults for torch version 1."""
    register_default_strategy(
        StrategyAction.LOAD_COMMON, "torch", 1, TorchCommonLoadStrategy()
    )
    register_default_strategy(
        StrategyAction.SAVE_COMMON,
        "torch",
        1,
        TorchCommonSaveStrategy("torch", 1),
    )


class TorchCommonSaveStrategy(SaveCommonStrategy):
    """Writes with torch.save if torch is installed. Otherwise writes plain
    values to files in the same format.
    """

    def save_common(
        self, common_state_dict: StateDict, checkpoint_dir: CheckpointDir
    ) -> None:
        """Writes common.pt, on rank 0."""
        if ranks.this_rank() == 0:
            _torch_file.write(
                os.path.join(checkpoint_dir, COMMON_STATE_FNAME),
                common_state_dict,
            )

    def save_sharded_objects(
        self,
        sharded_objects_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> None:
        """Writes a file for the object of each main replica."""
        for each in nested_values(sharded_objects_state_dict):
            if not is_main_replica(each.replica_id):
                continue
            with from_engine():
                _engine.megatron_check_key(each.key)
            path = os.path.join(checkpoint_dir, f"{each.unique_key}.pt")
            _files.makedirs(_files.dirname(path), exist_ok=True)
            _torch_file.write(path, each.data)

    @property
    def can_handle_sharded_objects(self) -> bool:
        return True


class TorchCommonLoadStrategy(LoadCommonStrategy):
    """Reads torch.save files without running code from them."""

    def load_common(self, checkpoint_dir: CheckpointDir) -> StateDict:
        """Returns the contents of common.pt, with tensors on the CPU.

        The newest torch_dist checkpoints store this state as an object instead.
        Raises CheckpointingException if both are missing.
        """
        path = os.path.join(checkpoint_dir, COMMON_STATE_FNAME)
        state: StateDict
        try:
            state = _torch_file.read(path)
        except FileNotFoundError as error:
            with contextlib.suppress(FileNotFoundError):
                state = load_object(checkpoint_dir, _COMMON_STATE_OBJECT)
                return state
            raise CheckpointingException(
                f"Common file {path} does not exist", code="COMMON_NOT_FOUND"
            ) from error
        return state

    def load_sharded_objects(
        self,
        sharded_objects_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> Any:
        """Replaces ShardedObjects with the objects, in place.

        Raises CheckpointingException for an object that has no file
        under its current name or its name before 0.8.
        """

        def loaded(each: ShardedObject) -> Any:
            with from_engine():
                _engine.megatron_check_key(each.key)
            each.data = None
            unique = each.unique_key
            for name in (unique, os.path.splitext(unique)[0]):
                try:
                    return _torch_file.read(
                        os.path.join(checkpoint_dir, f"{name}.pt")
                    )
                except FileNotFoundError:
                    continue
            path = os.path.join(checkpoint_dir, f"{unique}.pt")
            raise CheckpointingException(
                f"Object shard {path} not found", code="OBJECT_NOT_FOUND"
            )

        return dict_list_map_inplace(loaded, sharded_objects_state_dict)

    def load_sharded_metadata(
        self, checkpoint_dir: CheckpointDir
    ) -> ShardedStateDict:
        """Returns ShardedObjects without data, by unique key."""
        metadata: ShardedStateDict = {}
        with _files.scandir(checkpoint_dir) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        for name in names:
            directory = plain_path(checkpoint_dir) / name
            metadata.update(_objects_in(directory))
        return metadata

    @property
    def can_handle_sharded_objects(self) -> bool:
        return True

    def check_backend_compatibility(self, loaded_backend: Any) -> None:
        """Accepts every back end."""

    def check_version_compatibility(self, loaded_version: Any) -> None:
        """Accepts every version."""


def _objects_in(directory: Any) -> dict[str, ShardedObject]:
    objects = [
        ShardedObject.empty_from_unique_key(f"{directory.name}/{file.stem}")
        for file in sorted(directory.glob("shard_*.pt"))
    ]
    # Before 0.8 the names lacked the last extent; compute it from the offsets.
    if objects and objects[0].global_shape[-1] < 0:
        extent = max(each.global_offset[-1] for each in objects) + 1
        for each in objects:
            each.global_shape = (*each.global_shape[:-1], extent)
    return {each.unique_key: each for each in objects}
