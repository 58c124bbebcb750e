"""Prepares a state dict for a save or load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.megatron.dict_utils import (
    dict_list_map_inplace,
    extract_matching_values,
)
from holdfast.megatron.mapping import (
    CommonStateDict,
    ShardedStateDict,
    ShardedTensor,
    ShardedTensorFactory,
    StateDict,
    apply_factories,
)
from holdfast.megatron.utils import extract_nonpersistent, extract_sharded_base
from holdfast.megatron.validation import (
    check_integrity,
    determine_global_metadata,
    validate_common_state_dict,
)

__all__ = [
    "filter_out_empty_flatten_tensor",
    "load_preprocess",
    "save_preprocess",
]


def save_preprocess(
    sharded_state_dict: ShardedStateDict,
    validate_access_integrity: bool = True,
    preprocess_common_before_consistancy_check: (
        Callable[[CommonStateDict], StateDict] | None
    ) = None,
) -> tuple[ShardedStateDict, StateDict]:
    """Returns the sharded part and the common state; builds factories in place.

    Raises the errors of `validate_sharding_integrity`, on every rank.
    """
    apply_factories(sharded_state_dict)
    _, sharded_state_dict = extract_nonpersistent(sharded_state_dict)
    sharded, common = extract_sharded_base(sharded_state_dict)
    sharded = filter_out_empty_flatten_tensor(sharded)
    if validate_access_integrity:
        compared = common
        if preprocess_common_before_consistancy_check is not None:
            compared = preprocess_common_before_consistancy_check(common)
        # Check on every rank, so no rank writes anything if one refuses.
        everything = determine_global_metadata(sharded)[1]
        validate_common_state_dict(compared)
        check_integrity(everything)
    return sharded, common


def load_preprocess(
    sharded_state_dict: ShardedStateDict,
) -> tuple[ShardedStateDict, StateDict, StateDict]:
    """Returns a copy with built factories, the nonpersistent objects, and the
    factories.

    The original state dict does not change.
    """
    copy, _ = extract_matching_values(sharded_state_dict, lambda _: True)
    copy = filter_out_empty_flatten_tensor(copy)
    factories, _ = extract_matching_values(
        copy,
        lambda x: isinstance(x, ShardedTensorFactory),
        return_lists_as_dicts=True,
    )
    apply_factories(copy)
    # The factories' data is now in the state dicts that they have built.
    dict_list_map_inplace(lambda x: x.without_data(), factories)
    nonpersistent, copy = extract_nonpersistent(copy)
    dict_list_map_inplace(lambda x: x.unwrap(), nonpersistent)
    return copy, nonpersistent, factories


def filter_out_empty_flatten_tensor(sharded_state_dict: Any) -> Any:
    """Returns the state dict without empty tensors."""

    def has_elements(x: Any) -> bool:
        if not isinstance(x, ShardedTensor) or x.flattened_range is None:
            return True
        return bool(x.flattened_range.start != x.flattened_range.stop)

    return extract_matching_values(sharded_state_dict, has_elements)[0]
