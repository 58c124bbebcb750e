"""Handlers of leaf types and their arguments: `orbax.checkpoint.type_handlers`.

A custom handler is registered for its type, either globally
(`register_type_handler`) or in a registry passed to PyTreeCheckpointHandler.
"""

from __future__ import annotations

import importlib
from typing import Any, TypeAlias

import numpy as np

from holdfast.orbax._compat.attributes import attribute_error
from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._handlers.ocdbt_merge import (
    get_process_index_for_subdir,
    merge_ocdbt_per_process_files,
)
from holdfast.orbax._leaves.args import (
    JAX_ARRAY_TYPE_STR,
    PLACEHOLDER,
    PLACEHOLDER_TYPESTR,
    ArrayRestoreArgs,
    RestoreArgs,
    SaveArgs,
    SingleReplicaArrayRestoreArgs,
    default_restore_type,
    is_placeholder,
)
from holdfast.orbax._leaves.limits import (
    LimitInFlightBytes,
    UnlimitedInFlightBytes,
    get_byte_limiter,
)
from holdfast.orbax._leaves.param_info import ParamInfo, TransferPriority
from holdfast.orbax._trees.empty_values import (
    RESTORE_TYPE_DICT,
    RESTORE_TYPE_LIST,
    RESTORE_TYPE_NONE,
    get_empty_value_from_typestr,
    get_empty_value_typestr,
    is_empty_typestr,
    is_supported_empty_value,
)
from holdfast.orbax._type_handlers.arrays import ArrayHandler
from holdfast.orbax._type_handlers.base import (
    TypeHandler,
    TypeHandlerRegistry,
    check_input_arguments,
    is_supported_type,
)
from holdfast.orbax._type_handlers.registry import (
    GLOBAL_TYPE_HANDLER_REGISTRY,
    create_type_handler_registry,
    get_type_handler,
    has_type_handler,
    register_standard_handlers_with_options,
    register_type_handler,
    supported_types,
)
from holdfast.orbax._type_handlers.single_replica import (
    InvalidShardingError,
    SingleReplicaArrayHandler,
)
from holdfast.orbax._type_handlers.standard import (
    NumpyHandler,
    PlaceholderHandler,
    ScalarHandler,
    StringHandler,
)
from holdfast.orbax.format_utils import is_ocdbt_checkpoint
from holdfast.orbax.metadata.sharding import ShardingMetadata
from holdfast.orbax.metadata.value import (
    ArrayMetadata,
    Metadata,
    ScalarMetadata,
    StringMetadata,
)

__all__ = [
    "GLOBAL_TYPE_HANDLER_REGISTRY",
    "JAX_ARRAY_TYPE_STR",
    "PLACEHOLDER",
    "PLACEHOLDER_TYPESTR",
    "RESTORE_TYPE_DICT",
    "RESTORE_TYPE_LIST",
    "RESTORE_TYPE_NONE",
    "ArrayHandler",
    "ArrayMetadata",
    "ArrayRestoreArgs",
    "InvalidShardingError",
    "LimitInFlightBytes",
    "Metadata",
    "NumpyHandler",
    "ParamInfo",
    "PlaceholderHandler",
    "RestoreArgs",
    "SaveArgs",
    "Scalar",
    "ScalarHandler",
    "ScalarMetadata",
    "ShardingMetadata",
    "SingleReplicaArrayHandler",
    "SingleReplicaArrayRestoreArgs",
    "StringHandler",
    "StringMetadata",
    "TransferPriority",
    "TypeHandler",
    "TypeHandlerRegistry",
    "UnlimitedInFlightBytes",
    "check_input_arguments",
    "create_type_handler_registry",
    "default_restore_type",
    "get_byte_limiter",
    "get_empty_value_from_typestr",
    "get_empty_value_typestr",
    "get_process_index_for_subdir",
    "get_type_handler",
    "has_type_handler",
    "is_empty_typestr",
    "is_ocdbt_checkpoint",
    "is_placeholder",
    "is_supported_empty_value",
    "is_supported_type",
    "merge_ocdbt_per_process_files",
    "register_standard_handlers_with_options",
    "register_type_handler",
    "supported_types",
]


Scalar: TypeAlias = int | float | np.number

_TENSORSTORE_NAMES = frozenset(
    {
        "ZARR_VER2",
        "ZARR_VER3",
        "get_cast_tspec_deserialize",
        "get_cast_tspec_serialize",
        "get_json_tspec_read",
        "get_json_tspec_write",
        "get_sharding_tensorstore_spec",
        "get_ts_context",
    }
)
_SPECS = "holdfast.orbax.serialization.tensorstore_utils"


def __getattr__(name: str) -> Any:
    if name in _TENSORSTORE_NAMES:
        return getattr(importlib.import_module(_SPECS), name)
    if name == "NamedSharding":
        return require_jax(name).sharding.NamedSharding
    raise attribute_error(__name__, name)
