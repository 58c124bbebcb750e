"""Helpers for the contents and keys of sharded state dicts."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.megatron.dict_utils import (
    dict_list_map_inplace,
    extract_matching_values,
)
from holdfast.megatron.mapping import (
    LocalNonpersistentObject,
    ShardedBase,
    ShardedObject,
    ShardedStateDict,
    ShardedTensor,
    ShardedTensorFactory,
    StateDict,
)

__all__ = [
    "add_prefix_for_sharding",
    "apply_prefix_mapping",
    "debug_time",
    "extract_nonpersistent",
    "extract_sharded_base",
    "extract_sharded_tensors",
    "extract_sharded_tensors_and_factories",
    "extract_sharded_tensors_or_nonpersistent",
    "force_all_tensors_to_non_fp8",
    "replace_prefix_for_sharding",
    "zip_strict",
]

ShardId = tuple[Any, ...]
Split = tuple[ShardedStateDict, StateDict]
_Types = type | tuple[type, ...]


def zip_strict(*args: Any) -> Any:
    """Zips iterables; raises AssertionError if their lengths differ."""
    lists = [list(each) for each in args]
    lengths = [len(each) for each in lists]
    if len(set(lengths)) > 1:
        raise AssertionError(
            f"Tried to zip iterables of unequal lengths: {lengths}!"
        )
    return zip(*lists, strict=True)


def _sharded_tensor_shard_id(sharded_tensor: ShardedTensor) -> ShardId:
    """Returns an id that is equal for the same data on different ranks."""
    flat = sharded_tensor.flattened_range
    return (
        sharded_tensor.key,
        sharded_tensor.global_offset,
        None if flat is None else (flat.start, flat.stop),
    )


def _sharded_object_id(sharded_object: ShardedObject) -> ShardId:
    """Returns an id that is equal for the same object on different ranks."""
    return (
        sharded_object.key,
        sharded_object.global_offset,
        sharded_object.global_shape,
    )


def _extract(sharded_state_dict: ShardedStateDict, types: _Types) -> Split:
    return extract_matching_values(
        sharded_state_dict, lambda v: isinstance(v, types)
    )


def extract_sharded_tensors(sharded_state_dict: ShardedStateDict) -> Split:
    """Returns the ShardedTensors, and the rest."""
    return _extract(sharded_state_dict, ShardedTensor)


def extract_sharded_tensors_and_factories(
    sharded_state_dict: ShardedStateDict,
) -> Split:
    """Returns the ShardedTensors and factories, and the rest."""
    return _extract(sharded_state_dict, (ShardedTensor, ShardedTensorFactory))


def extract_sharded_tensors_or_nonpersistent(
    sharded_state_dict: ShardedStateDict,
) -> Split:
    """Returns the ShardedTensors, factories and nonpersistent objects, and the
    rest."""
    return _extract(
        sharded_state_dict,
        (ShardedTensor, LocalNonpersistentObject, ShardedTensorFactory),
    )


def extract_sharded_base(sharded_state_dict: ShardedStateDict) -> Split:
    """Returns everything sharded, and the rest."""
    return _extract(sharded_state_dict, ShardedBase)


def extract_nonpersistent(sharded_state_dict: ShardedStateDict) -> Split:
    """Returns the nonpersistent objects, and the rest."""
    return _extract(sharded_state_dict, LocalNonpersistentObject)


def _rename(
    sharded_state_dict: ShardedStateDict, renamed: Callable[[str], str]
) -> None:
    def rename(x: Any) -> Any:
        if isinstance(x, ShardedBase):
            x.key = renamed(x.key)
        return x

    dict_list_map_inplace(rename, sharded_state_dict)


def add_prefix_for_sharding(
    sharded_state_dict: ShardedStateDict, prefix: str
) -> None:
    """Puts `prefix` before every key, in place."""
    _rename(sharded_state_dict, lambda key: prefix + key)


def replace_prefix_for_sharding(
    sharded_state_dict: ShardedStateDict, old_prefix: str, new_prefix: str
) -> None:
    """Replaces the prefix of every key, in place.

    Raises ValueError for a key that does not begin with `old_prefix`.
    """

    def renamed(key: str) -> str:
        if not key.startswith(old_prefix):
            raise ValueError(
                f"Expected {key} to begin with prefix {old_prefix}"
            )
        return new_prefix + key[len(old_prefix) :]

    _rename(sharded_state_dict, renamed)


def apply_prefix_mapping(
    sharded_state_dict: ShardedStateDict, prefix_map: dict[str, str]
) -> None:
    """Replaces the first prefix in the map that a key begins with."""

    def renamed(key: str) -> str:
        for old, new in prefix_map.items():
            if key.startswith(old):
                return new + key[len(old) :]
        return key

    _rename(sharded_state_dict, renamed)


def force_all_tensors_to_non_fp8(sharded_state_dict: ShardedStateDict) -> None:
    """Converts Transformer Engine's float8 tensors to a higher precision."""

    def plain(x: Any) -> Any:
        data: Any = getattr(x, "data", None)
        if data is not None and hasattr(data, "from_float8"):
            x.data = data.from_float8()
        elif type(data).__name__ in _QUANTIZED:
            x.data = data.dequantize()
        return x

    dict_list_map_inplace(plain, sharded_state_dict)


_QUANTIZED = frozenset(
    {"Float8Tensor", "MXFP8Tensor", "Float8BlockwiseQTensor"}
)


@contextlib.contextmanager
def debug_time(
    name: str, logger: logging.Logger | None = None
) -> Iterator[None]:
    """Logs how long the block took."""
    begin = time.monotonic()
    try:
        yield
    finally:
        took = time.monotonic() - begin
        (logger or logging.getLogger(__name__)).debug(
            "%s took %.4fs", name, took
        )
