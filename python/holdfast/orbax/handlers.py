"""Handlers and their arguments: `orbax.checkpoint.handlers`."""

from typing import Any

from holdfast.orbax._handler import AsyncCheckpointHandler, CheckpointHandler
from holdfast.orbax._later import attribute_error
from holdfast.orbax.array_handler import (
    ArrayCheckpointHandler,
    ArrayRestoreArgs,
    ArraySaveArgs,
)
from holdfast.orbax.json_handler import (
    JsonCheckpointHandler,
    JsonRestoreArgs,
    JsonSaveArgs,
)
from holdfast.orbax.pytree_checkpoint_handler import (
    PyTreeCheckpointHandler,
    PyTreeRestoreArgs,
    PyTreeSaveArgs,
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
    "JsonCheckpointHandler",
    "JsonRestoreArgs",
    "JsonSaveArgs",
    "PyTreeCheckpointHandler",
    "PyTreeRestoreArgs",
    "PyTreeSaveArgs",
    "StandardCheckpointHandler",
    "StandardRestoreArgs",
    "StandardSaveArgs",
]

_LATER = frozenset(
    {
        "CheckpointHandlerRegistry",
        "CompositeArgs",
        "CompositeCheckpointHandler",
        "CompositeResults",
        "DefaultCheckpointHandlerRegistry",
        "JaxRandomKeyCheckpointHandler",
        "JaxRandomKeyRestoreArgs",
        "JaxRandomKeySaveArgs",
        "NumpyRandomKeyCheckpointHandler",
        "NumpyRandomKeyRestoreArgs",
        "NumpyRandomKeySaveArgs",
        "ProtoCheckpointHandler",
        "ProtoRestoreArgs",
        "ProtoSaveArgs",
        "create_default_handler_registry",
        "handler_registration",
    }
)


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, _LATER)
