"""A drop-in replacement for `import orbax.checkpoint as ocp`.

Names, signatures, defaults, results and error messages are those of Orbax
0.12.8; doc/support.md lists the few missing names.
The package needs neither orbax nor tensorstore; trees of numpy arrays do not
need jax. Each module is imported when one of its names is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from holdfast.orbax import checkpoint_args
from holdfast.orbax._compat.attributes import attribute_error

if TYPE_CHECKING:
    from holdfast.orbax import (
        aggregate_handlers,
        args,
        arrays,
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
    from holdfast.orbax._checkpointer.base import (
        AbstractCheckpointer,
        Checkpointer,
    )
    from holdfast.orbax._checkpointer.standard import (
        PyTreeCheckpointer,
        StandardCheckpointer,
    )
    from holdfast.orbax._handlers.base import (
        AsyncCheckpointHandler,
        CheckpointHandler,
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

# Maps each exported class, function and constant to its module.
_HOMES = {
    "AbstractCheckpointManager": "abstract_checkpoint_manager",
    "AbstractCheckpointer": "_checkpointer.base",
    "ArrayCheckpointHandler": "array_handler",
    "ArrayRestoreArgs": "type_handlers",
    "AsyncCheckpointHandler": "_handlers.base",
    "AsyncCheckpointer": "async_checkpointer",
    "AsyncOptions": "options",
    "BasePyTreeCheckpointHandler": "base_pytree_checkpoint_handler",
    "CheckpointHandler": "_handlers.base",
    "CheckpointHandlerRegistry": "handler_registration",
    "CheckpointManager": "checkpoint_manager",
    "CheckpointManagerOptions": "checkpoint_manager",
    "Checkpointer": "_checkpointer.base",
    "CompositeCheckpointHandler": "composite_checkpoint_handler",
    "CompositeOptions": "composite_checkpoint_handler",
    "DefaultCheckpointHandlerRegistry": "handler_registration",
    "Future": "future",
    "JaxRandomKeyCheckpointHandler": "random_key_handlers",
    "JsonCheckpointHandler": "json_handler",
    "NumpyRandomKeyCheckpointHandler": "random_key_handlers",
    "PLACEHOLDER": "type_handlers",
    "ProtoCheckpointHandler": "proto_handler",
    "PyTreeCheckpointHandler": "pytree_checkpoint_handler",
    "PyTreeCheckpointer": "_checkpointer.standard",
    "RestoreArgs": "type_handlers",
    "RestoreTransform": "transform_utils",
    "SaveArgs": "type_handlers",
    "StandardCheckpointHandler": "standard_checkpoint_handler",
    "StandardCheckpointer": "_checkpointer.standard",
    "Transform": "transform_utils",
    "__version__": "version",
    "apply_transformations": "transform_utils",
    "merge_trees": "transform_utils",
}

checkpoint_args.fill_registry_with(
    lambda: importlib.import_module(f"{__name__}.handlers")
)


def __getattr__(name: str) -> Any:
    full = f"{__name__}.{_HOMES.get(name, name)}"
    if name in _HOMES:
        globals()[name] = getattr(importlib.import_module(full), name)
        return globals()[name]
    if name.startswith("_") or importlib.util.find_spec(full) is None:
        raise attribute_error(__name__, name)
    return importlib.import_module(full)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if "absl.flags" in sys.modules:
    # Defines Orbax's flags before the program parses its command line.
    importlib.import_module(f"{__name__}.multihost")
