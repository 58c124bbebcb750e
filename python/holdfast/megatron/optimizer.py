"""Shards optimizer states like the model's parameters."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from holdfast.megatron.dict_utils import nested_values
from holdfast.megatron.mapping import (
    LocalNonpersistentObject,
    ShardedStateDict,
    ShardedTensor,
    ShardedTensorFactory,
    StateDict,
)
from holdfast.megatron.utils import extract_sharded_tensors_and_factories

__all__ = [
    "KEEP_VARS_HINT",
    "get_optim_param_to_id_map",
    "get_param_id_to_sharded_param_map",
    "make_sharded_optimizer_tensor",
    "optim_state_to_sharding_state",
]

logger = logging.getLogger(__name__)

# Appended to error messages when a state's parameter was not found.
KEEP_VARS_HINT = (
    " Make sure state dict contains original torch.nn.Parameters (not pure"
    " torch.Tensors) by passing `keep_vars=True` to `.state_dict()`. If any"
    " transformation of the original parameter is needed, use a"
    " ShardedTensorFactory."
)

Sharded = ShardedTensor | ShardedTensorFactory


def get_optim_param_to_id_map(
    optim_params_iter: Iterable[Any],
) -> dict[int, int]:
    """Returns the index of each parameter in the optimizer, by its `id`."""
    numbers: dict[int, int] = {}
    for each in optim_params_iter:
        numbers.setdefault(id(each), len(numbers))
    return numbers


def get_param_id_to_sharded_param_map(
    model_sharded_state_dict: ShardedStateDict,
    optim_params_iter: Iterable[Any],
) -> dict[int, Sharded]:
    """Returns the sharded parameter for each index in the optimizer.

    Args:
      model_sharded_state_dict: the model's state dict, with the parameters
        themselves as data (`state_dict(keep_vars=True)`).
      optim_params_iter: the parameters in the optimizer's order.
    """
    sharded, _ = extract_sharded_tensors_and_factories(model_sharded_state_dict)
    numbers = get_optim_param_to_id_map(optim_params_iter)
    found = {
        numbers[id(each.data)]: each
        for each in nested_values(sharded)
        if id(each.data) in numbers
    }
    if not found:
        logger.warning(
            "Sharded parameters mapping is empty. It means tensors in model"
            " state dict do not correspond to tensors in optimizer parameters"
            " map. Make sure to call state_dict with `keep_vars=True`."
        )
    return found


def make_sharded_optimizer_tensor(
    model_param: Any, optim_param: Any, prefix: str
) -> Any:
    """Returns an optimizer state, sharded like its parameter.

    Raises AssertionError if the shapes differ.
    """
    key = f"{prefix}.{model_param.key}"
    if isinstance(model_param, ShardedTensorFactory):
        return replace(model_param, key=key, data=optim_param)
    shape = tuple(optim_param.shape)
    assert shape == tuple(model_param.local_shape), (
        f"Optimizer shape ({shape} does not match model shape"
        f" ({model_param.local_shape})"
    )
    made = replace(
        model_param, key=key, data=optim_param, dtype=optim_param.dtype
    )
    made.validate_metadata_integrity()
    return made


def optim_state_to_sharding_state(
    optim_state_dict: StateDict,
    id_to_sharded_param_map: dict[int, Any],
    exclude_keys: tuple[str, ...] = (),
) -> None:
    """Shards an optimizer's state dict, in place.

    Its states, except `exclude_keys`, get the keys "optimizer.state.<name>.<key
    of the parameter>"; lists of parameters stay local. Raises ValueError for a
    parameter that is not in the map.
    """
    states: dict[Any, dict[str, Any]] = {}
    for number, state in optim_state_dict["state"].items():
        states[number] = {}
        for name, value in state.items():
            if name in exclude_keys:
                continue
            if number not in id_to_sharded_param_map:
                raise ValueError(
                    f"Param id {number} does not match any model sharded param"
                )
            states[number][name] = make_sharded_optimizer_tensor(
                id_to_sharded_param_map[number],
                value,
                prefix=f"optimizer.state.{name}",
            )
    groups = copy.deepcopy(optim_state_dict["param_groups"])
    for group in groups:
        group["params"] = LocalNonpersistentObject(group["params"])
    optim_state_dict["param_groups"] = groups
    optim_state_dict["state"] = states
