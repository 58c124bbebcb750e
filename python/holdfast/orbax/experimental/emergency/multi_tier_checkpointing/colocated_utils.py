"""`orbax.checkpoint.experimental.emergency.multi_tier_checkpointing.colocated_utils`:
names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax.experimental.emergency._refusal import refused_function

__all__ = [
    "MAX_TRACKED_STEPS",
    "NO_STEP_SENTINEL",
    "PyTree",
    "addressable_array_bytes",
    "array_result_values",
    "assert_arrays_on_allowed_cpu_ids",
    "assert_arrays_on_platform",
    "assert_specs_on_allowed_cpu_ids",
    "compute_distributed_to_device_ids",
    "device_list_signature",
    "make_scalar_on_like",
    "nested_id_sample",
    "replicated_sharding_like",
    "require_unanimous_scalar_result",
    "scalar_result_values",
    "value_sample",
]

MAX_TRACKED_STEPS = 128
NO_STEP_SENTINEL = 0

PyTree: TypeAlias = Any

addressable_array_bytes = refused_function(__name__, "addressable_array_bytes")
array_result_values = refused_function(__name__, "array_result_values")
assert_arrays_on_allowed_cpu_ids = refused_function(
    __name__, "assert_arrays_on_allowed_cpu_ids"
)
assert_arrays_on_platform = refused_function(
    __name__, "assert_arrays_on_platform"
)
assert_specs_on_allowed_cpu_ids = refused_function(
    __name__, "assert_specs_on_allowed_cpu_ids"
)
compute_distributed_to_device_ids = refused_function(
    __name__, "compute_distributed_to_device_ids"
)
device_list_signature = refused_function(__name__, "device_list_signature")
make_scalar_on_like = refused_function(__name__, "make_scalar_on_like")
nested_id_sample = refused_function(__name__, "nested_id_sample")
replicated_sharding_like = refused_function(
    __name__, "replicated_sharding_like"
)
require_unanimous_scalar_result = refused_function(
    __name__, "require_unanimous_scalar_result"
)
scalar_result_values = refused_function(__name__, "scalar_result_values")
value_sample = refused_function(__name__, "value_sample")
