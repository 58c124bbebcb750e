"""Metadata of checkpoints and leaves: `orbax.checkpoint.metadata`."""

from holdfast.orbax.metadata import sharding, tree, value
from holdfast.orbax.metadata.root import RootMetadata
from holdfast.orbax.metadata.sharding import (
    NamedShardingMetadata,
    ShardingMetadata,
    SingleDeviceShardingMetadata,
)
from holdfast.orbax.metadata.step import StepMetadata, get_step_metadata
from holdfast.orbax.metadata.store import MetadataStore, metadata_store
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
    "MetadataStore",
    "NamedShardingMetadata",
    "RootMetadata",
    "ScalarMetadata",
    "ShardingMetadata",
    "SingleDeviceShardingMetadata",
    "StepMetadata",
    "StorageMetadata",
    "StringMetadata",
    "get_step_metadata",
    "metadata_store",
    "sharding",
    "tree",
    "value",
]
