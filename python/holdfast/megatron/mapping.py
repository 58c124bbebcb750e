"""Describes local tensors and objects as parts of global ones.

A sharded state dict is a state dict whose tensors are wrapped: each
`ShardedTensor` records which box of which global tensor its data is. Once
Megatron Core is imported, its own objects count as instances of the classes
here (`adopt_megatron_core`).

Shapes and offsets are in elements. `local_shape` leaves out the prepended axes;
`global_shape`, `global_offset` and `axis_fragmentations` include them.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.megatron._errors import coded
from holdfast.megatron._sharded_tensor import (
    ReplicaId,
    ShardedBase,
    ShardedTensor,
)
from holdfast.megatron.core import CheckpointingException
from holdfast.megatron.dict_utils import dict_list_map_inplace

__all__ = [
    "CommonStateDict",
    "FactoryBuildFn",
    "FactoryMergeFn",
    "LocalNonpersistentObject",
    "ReplicaId",
    "ShardedBase",
    "ShardedObject",
    "ShardedStateDict",
    "ShardedTensor",
    "ShardedTensorFactory",
    "StateDict",
    "adopt_megatron_core",
    "apply_factories",
    "apply_factory_merges",
    "is_main_replica",
]

StateDict = dict[str, Any]
CommonStateDict = dict[str, Any]
ShardedStateDict = dict[str, Any]


def is_main_replica(replica_id: ReplicaId) -> bool:
    """Returns whether the id is 0 or a tuple of zeros."""
    if isinstance(replica_id, int):
        return replica_id == 0
    return all(part == 0 for part in replica_id)


class LocalNonpersistentObject(metaclass=ABCMeta):  # noqa: B024
    """An object that is not saved. A load returns the caller's own object."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def unwrap(self) -> Any:
        """Returns the object."""
        return self.obj


@dataclass
class ShardedObject(ShardedBase):
    """One of the objects under a key, saved in its own file.

    `global_shape` and `global_offset` count objects, which cannot be resharded.
    """

    key: str
    data: Any
    global_shape: tuple[int, ...]
    global_offset: tuple[int, ...]
    replica_id: ReplicaId = 0

    def __post_init__(self) -> None:
        self.validate_metadata_integrity()

    def validate_metadata_integrity(self) -> None:
        """Raises CheckpointingException if the dimensions differ."""
        if len(self.global_shape) != len(self.global_offset):
            raise CheckpointingException(
                "Global offset dimensions should be equal to global shape"
                f" dimensions for {self}",
                code="INVALID_DIMS",
            )

    def without_data(self) -> ShardedObject:
        """Returns a copy whose `data` is None."""
        return replace(self, data=None)

    @property
    def unique_key(self) -> str:
        """The key `<key>/shard_<offset>_<shape>`; dots join the numbers."""
        offset = ".".join(map(str, self.global_offset))
        shape = ".".join(map(str, self.global_shape))
        return f"{self.key}/shard_{offset}_{shape}"

    def __str__(self) -> str:
        return f"{type(self).__name__}(key='{self.key}')"

    @classmethod
    def empty_from_unique_key(
        cls, unique_key: str, replica_id: ReplicaId = 0
    ) -> ShardedObject:
        """Returns an object with that unique key and without data.

        If the shape lacks its last extent, as before 0.8, that extent is -1 for
        "unknown". Raises ValueError or AssertionError for a malformed key.
        """
        try:
            key, shard = unique_key.split("/")
            tag, offset_text, shape_text = shard.split("_")
        except ValueError as error:
            raise coded("BAD_OBJECT_NAME", str(error), ValueError) from None
        if tag != "shard":
            raise coded("BAD_OBJECT_NAME", "", AssertionError)
        try:
            offset = tuple(map(int, offset_text.split(".")))
            shape = tuple(map(int, shape_text.split(".")))
        except ValueError as error:
            raise coded("BAD_OBJECT_NAME", str(error), ValueError) from None
        if len(shape) + 1 == len(offset):
            shape += (-1,)
        return cls(key, None, shape, offset, replica_id)


FactoryBuildFn = Callable[[str, Any, ReplicaId, "slice | None"], Any]
FactoryMergeFn = Callable[[Any], Any]


@dataclass
class ShardedTensorFactory(ShardedBase):
    """A tensor that is stored in a different form.

    Before a save or load, `build_fn(key, data, replica_id, flattened_range)`
    builds the sharded state dict that replaces it. After a load, `merge_fn`
    makes a tensor from the loaded parts.
    """

    key: str
    data: Any
    build_fn: FactoryBuildFn
    merge_fn: FactoryMergeFn
    replica_id: ReplicaId = 0
    flattened_range: slice | None = None

    def build(self) -> Any:
        """Returns the sharded state dict."""
        return self.build_fn(
            self.key, self.data, self.replica_id, self.flattened_range
        )

    def validate_metadata_integrity(self) -> None:
        """Does nothing."""

    def without_data(self) -> ShardedTensorFactory:
        """Returns a copy whose `data` is None."""
        return replace(self, data=None)


_MEGATRON_CORE = "megatron.core.dist_checkpointing.mapping"
_ADOPTED: list[Any] = []


def adopt_megatron_core() -> None:
    """Makes Megatron Core's objects instances of the classes here if the
    program has imported Megatron Core. Never imports anything.
    """
    module = sys.modules.get(_MEGATRON_CORE)
    if module is None or any(known is module for known in _ADOPTED):
        return
    if not hasattr(module, "ShardedTensorFactory"):
        return  # its import has not finished
    ShardedBase.register(module.ShardedBase)
    ShardedTensor.register(module.ShardedTensor)
    ShardedObject.register(module.ShardedObject)
    ShardedTensorFactory.register(module.ShardedTensorFactory)
    LocalNonpersistentObject.register(module.LocalNonpersistentObject)
    _ADOPTED.append(module)


def apply_factories(sharded_state_dict: ShardedStateDict) -> None:
    """Replaces factories with the state dicts that they build, in place."""

    def built(x: Any) -> Any:
        return x.build() if isinstance(x, ShardedTensorFactory) else x

    dict_list_map_inplace(built, sharded_state_dict)


def apply_factory_merges(x1: Any, x2: Any, key: tuple[Any, ...] = ()) -> Any:
    """Merges the loaded parts in `x1` with the factories in `x2`, in place.

    A list in `x1` may correspond to a dict of indices in `x2`. Raises
    ValueError for a path that `x1` does not have.
    """
    if isinstance(x2, ShardedTensorFactory):
        return x2.merge_fn(x1)
    if isinstance(x1, dict) and isinstance(x2, dict):
        for k in x2:
            if k not in x1:
                raise ValueError(
                    "Different dict keys encountered in"
                    f" `apply_factory_merges` ({x1.keys()} vs {x2.keys()})"
                )
    elif isinstance(x1, list) and isinstance(x2, list):
        if len(x1) != len(x2):
            raise ValueError(
                "Cannot merge two lists with different lengths"
                f" ({len(x1)} and {len(x2)}, encountered at key {key})"
            )
    elif isinstance(x1, list) and isinstance(x2, dict):
        for k in x2:
            if not isinstance(k, int):
                raise ValueError(
                    f"Invalid dict key {k} non-integer type encountered in a"
                    f" list-dict merge at level {key}"
                )
            if k >= len(x1):
                raise ValueError(
                    f"Dict key {k} out of bound for list of length{len(x1)}"
                    f" (encountered at level {key})"
                )
    else:
        raise ValueError(
            "Duplicate non-dict and non-list values encountered:"
            f" `{x1}` and `{x2} (at key {key})`"
        )
    items = x2.items() if isinstance(x2, dict) else enumerate(x2)
    for k, value in list(items):
        x1[k] = apply_factory_merges(x1[k], value, (*key, k))
    return x1
