"""Arguments of handlers: `orbax.checkpoint.args`."""

from holdfast.orbax import (
    array_handler,
    composite_checkpoint_handler,
    json_handler,
    proto_handler,
    pytree_checkpoint_handler,
    random_key_handlers,
    standard_checkpoint_handler,
)
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    get_registered_args_cls,
    get_registered_handler_cls,
    has_registered_args,
    register_with_handler,
)

__all__ = [
    "ArrayRestore",
    "ArraySave",
    "CheckpointArgs",
    "Composite",
    "JaxRandomKeyRestore",
    "JaxRandomKeySave",
    "JsonRestore",
    "JsonSave",
    "NumpyRandomKeyRestore",
    "NumpyRandomKeySave",
    "ProtoRestore",
    "ProtoSave",
    "PyTreeRestore",
    "PyTreeSave",
    "StandardRestore",
    "StandardSave",
    "get_registered_args_cls",
    "get_registered_handler_cls",
    "has_registered_args",
    "register_with_handler",
]

ArrayRestore = array_handler.ArrayRestoreArgs
ArraySave = array_handler.ArraySaveArgs
Composite = composite_checkpoint_handler.CompositeArgs
JaxRandomKeyRestore = random_key_handlers.JaxRandomKeyRestoreArgs
JaxRandomKeySave = random_key_handlers.JaxRandomKeySaveArgs
JsonRestore = json_handler.JsonRestoreArgs
JsonSave = json_handler.JsonSaveArgs
NumpyRandomKeyRestore = random_key_handlers.NumpyRandomKeyRestoreArgs
NumpyRandomKeySave = random_key_handlers.NumpyRandomKeySaveArgs
ProtoRestore = proto_handler.ProtoRestoreArgs
ProtoSave = proto_handler.ProtoSaveArgs
PyTreeRestore = pytree_checkpoint_handler.PyTreeRestoreArgs
PyTreeSave = pytree_checkpoint_handler.PyTreeSaveArgs
StandardRestore = standard_checkpoint_handler.StandardRestoreArgs
StandardSave = standard_checkpoint_handler.StandardSaveArgs
