"""Arguments of handlers: `orbax.checkpoint.args`."""

from holdfast.orbax.array_handler import (
    ArrayRestoreArgs as ArrayRestore,
)
from holdfast.orbax.array_handler import (
    ArraySaveArgs as ArraySave,
)
from holdfast.orbax.checkpoint_args import (
    CheckpointArgs,
    get_registered_args_cls,
    get_registered_handler_cls,
    has_registered_args,
    register_with_handler,
)
from holdfast.orbax.composite_checkpoint_handler import (
    CompositeArgs as Composite,
)
from holdfast.orbax.json_handler import (
    JsonRestoreArgs as JsonRestore,
)
from holdfast.orbax.json_handler import (
    JsonSaveArgs as JsonSave,
)
from holdfast.orbax.proto_handler import (
    ProtoRestoreArgs as ProtoRestore,
)
from holdfast.orbax.proto_handler import (
    ProtoSaveArgs as ProtoSave,
)
from holdfast.orbax.pytree_checkpoint_handler import (
    PyTreeRestoreArgs as PyTreeRestore,
)
from holdfast.orbax.pytree_checkpoint_handler import (
    PyTreeSaveArgs as PyTreeSave,
)
from holdfast.orbax.random_key_handlers import (
    JaxRandomKeyRestoreArgs as JaxRandomKeyRestore,
)
from holdfast.orbax.random_key_handlers import (
    JaxRandomKeySaveArgs as JaxRandomKeySave,
)
from holdfast.orbax.random_key_handlers import (
    NumpyRandomKeyRestoreArgs as NumpyRandomKeyRestore,
)
from holdfast.orbax.random_key_handlers import (
    NumpyRandomKeySaveArgs as NumpyRandomKeySave,
)
from holdfast.orbax.standard_checkpoint_handler import (
    StandardRestoreArgs as StandardRestore,
)
from holdfast.orbax.standard_checkpoint_handler import (
    StandardSaveArgs as StandardSave,
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
