"""A drop-in replacement for `from orbax.checkpoint import v1 as ocp`.

A checkpoint is a directory of named checkpointables. `save` and `load` handle a
single checkpointable, which is a tree. A `Context` holds the options.
"""

from __future__ import annotations

from holdfast.orbax.v1 import (
    arrays,
    errors,
    handlers,
    multihost,
    options,
    partial,
    path,
    training,
    tree,
)
from holdfast.orbax.v1._deletion import delete, delete_async
from holdfast.orbax.v1._load import (
    PLACEHOLDER,
    load,
    load_async,
    load_checkpointables,
    load_checkpointables_async,
)
from holdfast.orbax.v1._metadata import (
    checkpointables_metadata,
    is_orbax_checkpoint,
    metadata,
)
from holdfast.orbax.v1._metadata_types import (
    CheckpointMetadata,
    PyTreeMetadata,
)
from holdfast.orbax.v1._older_names import older_name
from holdfast.orbax.v1._responses import AsyncResponse
from holdfast.orbax.v1._save import (
    save,
    save_async,
    save_checkpointables,
    save_checkpointables_async,
)
from holdfast.orbax.v1.context import Context
from holdfast.orbax.v1.handlers import (
    AbstractCheckpointable,
    Checkpointable,
    CheckpointableHandler,
    StatefulCheckpointable,
)

__all__ = [
    "PLACEHOLDER",
    "AbstractCheckpointable",
    "AsyncResponse",
    "CheckpointMetadata",
    "Checkpointable",
    "CheckpointableHandler",
    "Context",
    "PyTreeMetadata",
    "StatefulCheckpointable",
    "arrays",
    "checkpointables_metadata",
    "delete",
    "delete_async",
    "errors",
    "handlers",
    "is_orbax_checkpoint",
    "load",
    "load_async",
    "load_checkpointables",
    "load_checkpointables_async",
    "load_pytree",
    "load_pytree_async",
    "metadata",
    "multihost",
    "options",
    "partial",
    "path",
    "pytree_metadata",
    "save",
    "save_async",
    "save_checkpointables",
    "save_checkpointables_async",
    "save_pytree",
    "save_pytree_async",
    "training",
    "tree",
]

save_pytree = older_name("save_pytree", save)
save_pytree_async = older_name("save_pytree_async", save_async)
load_pytree = older_name("load_pytree", load)
load_pytree_async = older_name("load_pytree_async", load_async)
pytree_metadata = older_name("pytree_metadata", metadata)
