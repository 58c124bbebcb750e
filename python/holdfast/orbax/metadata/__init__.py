"""Metadata of checkpoints and leaves: `orbax.checkpoint.metadata`."""

from typing import Any

from holdfast.orbax._later import attribute_error
from holdfast.orbax.metadata import sharding, tree, value
from holdfast.orbax.metadata.root import RootMetadata
from holdfast.orbax.metadata.sharding import (
    NamedShardingMetadata,
    ShardingMetadata,
    SingleDeviceShardingMetadata,
)
from holdfast.orbax.metadata.step import StepMetadata, get_step_metadata
from holdfast.orbax.metadata.value import (
    ArrayMetadata,
    Metadata,
    ScalarMetadata,
    StorageMetadata,
    StringMetadata,
)

__all__ = [
    "ArrayMetadata",
    "Metadata",
    "NamedShardingMetadata",
    "RootMetadata",
    "ScalarMetadata",
    "ShardingMetadata",
    "SingleDeviceShardingMetadata",
    "StepMetadata",
    "StorageMetadata",
    "StringMetadata",
    "get_step_metadata",
    "sharding",
    "tree",
    "value",
]

_LATER = frozenset({"MetadataStore", "metadata_store"})


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, _LATER)
