"""Strategies, and the default strategy for a back end and version."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any

from holdfast.megatron.core import CheckpointingException
from holdfast.megatron.mapping import ShardedStateDict, StateDict

__all__ = [
    "AsyncSaveShardedStrategy",
    "LoadCommonStrategy",
    "LoadShardedStrategy",
    "LoadStrategyBase",
    "SaveCommonStrategy",
    "SaveShardedStrategy",
    "SaveStrategyBase",
    "StrategyAction",
    "get_default_strategy",
    "load_strategies",
    "register_back_end",
    "register_default_strategy",
]

CheckpointDir = str | os.PathLike[str]


class StrategyAction(Enum):
    """The actions that a strategy may support."""

    LOAD_COMMON = "load_common"
    LOAD_SHARDED = "load_sharded"
    SAVE_COMMON = "save_common"
    SAVE_SHARDED = "save_sharded"


default_strategies: dict[str, dict[tuple[Any, Any], Any]] = {
    action.value: {} for action in StrategyAction
}
# Functions that register a back end's strategies when one is requested.
_back_ends: dict[str, tuple[Callable[[], None], ...]] = {}


def register_back_end(backend: str, *registers: Callable[[], None]) -> None:
    """Calls `registers` whenever a default of a back end is requested."""
    _back_ends[backend] = registers


def get_default_strategy(
    action: StrategyAction, backend: Any, version: Any
) -> Any:
    """Returns the strategy registered for a back end and version.

    Raises CheckpointingException if none is registered.
    """
    if type(backend) is str:
        for register in _back_ends.get(backend, ()):
            register()
    try:
        return default_strategies[action.value][backend, version]
    except (KeyError, TypeError):
        what = (action.value, backend, version)
        raise CheckpointingException(
            f"Cannot find a default strategy for: {what}{_hint(action)}",
            code="UNKNOWN_STRATEGY",
        ) from None


def load_strategies(given: Any) -> list[Any]:
    """Returns the strategies that a load of sharded tensors may use: `given`,
    or the defaults if `given` is not a strategy."""
    if given is not None and not isinstance(given, tuple):
        return [given]
    return list(default_strategies[StrategyAction.LOAD_SHARDED.value].values())


def _hint(action: StrategyAction) -> str:
    known = [
        f"{backend} version {version}"
        for backend, version in default_strategies[action.value]
    ]
    return f". There is one for {', '.join(known)}" if known else ""


def register_default_strategy(
    action: StrategyAction, backend: str, version: int, strategy: Any
) -> None:
    """Makes `strategy` the default for a back end and version."""
    default_strategies[action.value][backend, version] = strategy


class LoadStrategyBase(ABC):
    """The base class of strategies that load."""

    @abstractmethod
    def check_backend_compatibility(self, loaded_backend: Any) -> None:
        """Raises CheckpointingException for a back end that it cannot read."""

    @abstractmethod
    def check_version_compatibility(self, loaded_version: Any) -> None:
        """Raises CheckpointingException for a version that it cannot read."""

    @property
    def can_handle_sharded_objects(self) -> bool:
        """Whether the strategy also loads ShardedObjects."""
        return False


class SaveStrategyBase(ABC):  # noqa: B024
    """The base class of strategies that save in the format of a back end and
    version."""

    def __init__(self, backend: str, version: int) -> None:
        self.backend = backend
        self.version = version

    @property
    def can_handle_sharded_objects(self) -> bool:
        """Whether the strategy also saves ShardedObjects."""
        return False

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.backend}, {self.version})"


class LoadCommonStrategy(LoadStrategyBase):
    """Loads the state that is not sharded."""

    @abstractmethod
    def load_common(self, checkpoint_dir: CheckpointDir) -> StateDict:
        """Returns the common state."""

    @abstractmethod
    def load_sharded_objects(
        self,
        sharded_objects_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> Any:
        """Replaces ShardedObjects with the objects, in place."""

    def load_sharded_metadata(
        self, checkpoint_dir: CheckpointDir
    ) -> ShardedStateDict:
        """Returns the checkpoint's ShardedObjects by unique key."""
        if not self.can_handle_sharded_objects:
            return {}
        raise NotImplementedError


class LoadShardedStrategy(LoadStrategyBase):
    """Loads the sharded state."""

    @abstractmethod
    def load(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> StateDict:
        """Replaces ShardedTensors with the tensors."""

    @abstractmethod
    def load_tensors_metadata(
        self, checkpoint_dir: CheckpointDir
    ) -> ShardedStateDict:
        """Returns a complete ShardedTensor without data for each key."""

    def load_sharded_metadata(
        self, checkpoint_dir: CheckpointDir
    ) -> ShardedStateDict:
        """Returns `load_tensors_metadata`, plus ShardedObjects if the strategy
        loads them."""
        if not self.can_handle_sharded_objects:
            return self.load_tensors_metadata(checkpoint_dir)
        raise NotImplementedError(
            "Loading only sharded metadata not implemented for"
            f" {type(self).__name__}"
        )

    def remove_sharded_tensors(
        self, checkpoint_dir: CheckpointDir, key_prefix: str
    ) -> None:
        """Removes the tensors whose keys start with `key_prefix`."""
        raise NotImplementedError(
            f"{type(self).__name__} does not remove tensors"
        )


class SaveCommonStrategy(SaveStrategyBase):
    """Saves the state that is not sharded."""

    @abstractmethod
    def save_common(
        self, common_state_dict: StateDict, checkpoint_dir: CheckpointDir
    ) -> None:
        """Writes the common state, on rank 0."""

    def save_sharded_objects(
        self,
        sharded_objects_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> None:
        """Writes the objects of the main replicas."""
        raise NotImplementedError


class SaveShardedStrategy(SaveStrategyBase):
    """Saves the sharded state."""

    @abstractmethod
    def save(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> None:
        """Writes the tensors of the main replicas. All ranks call it."""


class AsyncSaveShardedStrategy(SaveShardedStrategy):
    """A strategy that can also save in the background; zarr's cannot."""

    @abstractmethod
    def async_save(
        self,
        sharded_state_dict: ShardedStateDict,
        checkpoint_dir: CheckpointDir,
    ) -> Any:
        """Returns the request that performs the save."""
