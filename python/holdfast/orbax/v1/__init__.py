"""A drop-in for `from orbax.checkpoint import v1 as ocp`.

Checkpoints are directories of named checkpointables; `save` and `load` are
about the one that is a tree. Options live in a `Context`.
"""

from __future__ import annotations

import warnings
from typing import Any

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


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is deprecated. Use `{new}` instead.",
        DeprecationWarning,
        stacklevel=3,
    )


def save_pytree(*args: Any, **kwargs: Any) -> None:
    """Deprecated: `save`."""
    _warn("save_pytree", "save")
    save(*args, **kwargs)


def save_pytree_async(*args: Any, **kwargs: Any) -> AsyncResponse[None]:
    """Deprecated: `save_async`."""
    _warn("save_pytree_async", "save_async")
    return save_async(*args, **kwargs)


def load_pytree(*args: Any, **kwargs: Any) -> Any:
    """Deprecated: `load`."""
    _warn("load_pytree", "load")
    return load(*args, **kwargs)


def load_pytree_async(*args: Any, **kwargs: Any) -> Any:
    """Deprecated: `load_async`."""
    _warn("load_pytree_async", "load_async")
    return load_async(*args, **kwargs)


def pytree_metadata(*args: Any, **kwargs: Any) -> CheckpointMetadata[Any]:
    """Deprecated: `metadata`."""
    _warn("pytree_metadata", "metadata")
    return metadata(*args, **kwargs)
