"""Handlers and their arguments: `orbax.checkpoint.handlers`."""

from holdfast.orbax import handler_registration
from holdfast.orbax._handlers.base import (
    AsyncCheckpointHandler,
    CheckpointHandler,
)
from holdfast.orbax.array_handler import (
    ArrayCheckpointHandler,
    ArrayRestoreArgs,
    ArraySaveArgs,
)
from holdfast.orbax.composite_checkpoint_handler import (
    CompositeArgs,
    CompositeCheckpointHandler,
    CompositeResults,
)
from holdfast.orbax.handler_registration import (
    CheckpointHandlerRegistry,
    DefaultCheckpointHandlerRegistry,
    create_default_handler_registry,
)
from holdfast.orbax.json_handler import (
    JsonCheckpointHandler,
    JsonRestoreArgs,
    JsonSaveArgs,
)
from holdfast.orbax.proto_handler import (
    ProtoCheckpointHandler,
    ProtoRestoreArgs,
    ProtoSaveArgs,
)
from holdfast.orbax.pytree_checkpoint_handler import (
    PyTreeCheckpointHandler,
    PyTreeRestoreArgs,
    PyTreeSaveArgs,
)
from holdfast.orbax.random_key_handlers import (
    JaxRandomKeyCheckpointHandler,
    JaxRandomKeyRestoreArgs,
    JaxRandomKeySaveArgs,
    NumpyRandomKeyCheckpointHandler,
    NumpyRandomKeyRestoreArgs,
    NumpyRandomKeySaveArgs,
)
from holdfast.orbax.standard_checkpoint_handler import (
    StandardCheckpointHandler,
    StandardRestoreArgs,
    StandardSaveArgs,
)

__all__ = [
    "ArrayCheckpointHandler",
    "ArrayRestoreArgs",
    "ArraySaveArgs",
    "AsyncCheckpointHandler",
    "CheckpointHandler",
    "CheckpointHandlerRegistry",
    "CompositeArgs",
    "CompositeCheckpointHandler",
    "CompositeResults",
    "DefaultCheckpointHandlerRegistry",
    "JaxRandomKeyCheckpointHandler",
    "JaxRandomKeyRestoreArgs",
    "JaxRandomKeySaveArgs",
    "JsonCheckpointHandler",
    "JsonRestoreArgs",
    "JsonSaveArgs",
    "NumpyRandomKeyCheckpointHandler",
    "NumpyRandomKeyRestoreArgs",
    "NumpyRandomKeySaveArgs",
    "ProtoCheckpointHandler",
    "ProtoRestoreArgs",
    "ProtoSaveArgs",
    "PyTreeCheckpointHandler",
    "PyTreeRestoreArgs",
    "PyTreeSaveArgs",
    "StandardCheckpointHandler",
    "StandardRestoreArgs",
    "StandardSaveArgs",
    "create_default_handler_registry",
    "handler_registration",
]
