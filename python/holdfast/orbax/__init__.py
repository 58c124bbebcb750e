"""A drop-in for `import orbax.checkpoint as ocp`.

Same names, signatures, defaults, results and error texts as Orbax 0.12.8; the
few that are not here are in doc/status.md.
Needs neither orbax nor tensorstore, and no jax for trees of numpy arrays.
"""

from __future__ import annotations

import importlib
from typing import Any

from holdfast.orbax import (
    aggregate_handlers,
    args,
    arrays,
    checkpoint_args,
    checkpoint_managers,
    checkpoint_utils,
    checkpointers,
    future,
    handlers,
    logging,
    metadata,
    msgpack_utils,
    multihost,
    options,
    path,
    pathways,
    serialization,
    step,
    transform_utils,
    tree,
    type_handlers,
    utils,
)
from holdfast.orbax._attributes import attribute_error
from holdfast.orbax._checkpointer import AbstractCheckpointer, Checkpointer
from holdfast.orbax._handler import AsyncCheckpointHandler, CheckpointHandler
from holdfast.orbax._standard_checkpointer import (
    PyTreeCheckpointer,
    StandardCheckpointer,
)
from holdfast.orbax.abstract_checkpoint_manager import (
    AbstractCheckpointManager,
)
from holdfast.orbax.array_handler import ArrayCheckpointHandler
from holdfast.orbax.async_checkpointer import AsyncCheckpointer
from holdfast.orbax.base_pytree_checkpoint_handler import (
    BasePyTreeCheckpointHandler,
)
from holdfast.orbax.checkpoint_manager import (
    CheckpointManager,
    CheckpointManagerOptions,
)
from holdfast.orbax.composite_checkpoint_handler import (
    CompositeCheckpointHandler,
    CompositeOptions,
)
from holdfast.orbax.future import Future
from holdfast.orbax.handler_registration import (
    CheckpointHandlerRegistry,
    DefaultCheckpointHandlerRegistry,
)
from holdfast.orbax.json_handler import JsonCheckpointHandler
from holdfast.orbax.options import AsyncOptions
from holdfast.orbax.proto_handler import ProtoCheckpointHandler
from holdfast.orbax.pytree_checkpoint_handler import PyTreeCheckpointHandler
from holdfast.orbax.random_key_handlers import (
    JaxRandomKeyCheckpointHandler,
    NumpyRandomKeyCheckpointHandler,
)
from holdfast.orbax.standard_checkpoint_handler import (
    StandardCheckpointHandler,
)
from holdfast.orbax.transform_utils import (
    RestoreTransform,
    Transform,
    apply_transformations,
    merge_trees,
)
from holdfast.orbax.type_handlers import (
    PLACEHOLDER,
    ArrayRestoreArgs,
    RestoreArgs,
    SaveArgs,
)
from holdfast.orbax.version import __version__

__all__ = [
    "PLACEHOLDER",
    "AbstractCheckpointManager",
    "AbstractCheckpointer",
    "ArrayCheckpointHandler",
    "ArrayRestoreArgs",
    "AsyncCheckpointHandler",
    "AsyncCheckpointer",
    "AsyncOptions",
    "BasePyTreeCheckpointHandler",
    "CheckpointHandler",
    "CheckpointHandlerRegistry",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "Checkpointer",
    "CompositeCheckpointHandler",
    "CompositeOptions",
    "DefaultCheckpointHandlerRegistry",
    "Future",
    "JaxRandomKeyCheckpointHandler",
    "JsonCheckpointHandler",
    "NumpyRandomKeyCheckpointHandler",
    "ProtoCheckpointHandler",
    "PyTreeCheckpointHandler",
    "PyTreeCheckpointer",
    "RestoreArgs",
    "RestoreTransform",
    "SaveArgs",
    "StandardCheckpointHandler",
    "StandardCheckpointer",
    "Transform",
    "__version__",
    "aggregate_handlers",
    "apply_transformations",
    "args",
    "arrays",
    "checkpoint_args",
    "checkpoint_managers",
    "checkpoint_utils",
    "checkpointers",
    "experimental",
    "future",
    "handlers",
    "logging",
    "merge_trees",
    "metadata",
    "msgpack_utils",
    "multihost",
    "options",
    "path",
    "pathways",
    "serialization",
    "step",
    "test_utils",
    "transform_utils",
    "tree",
    "type_handlers",
    "utils",
    "v1",
]

_SUBMODULES = frozenset({"experimental", "test_utils", "v1"})


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise attribute_error(__name__, name)
