"""Handlers of checkpointables: `orbax.checkpoint.v1.handlers`."""

from __future__ import annotations

from holdfast.orbax.v1._handler_types import (
    AbstractCheckpointable,
    Checkpointable,
    CheckpointableHandler,
    StatefulCheckpointable,
)
from holdfast.orbax.v1._json_handler import JsonHandler, MetricsHandler
from holdfast.orbax.v1._layout import METRICS_NAME, STATE_NAME
from holdfast.orbax.v1._proto_handler import ProtoHandler
from holdfast.orbax.v1._pytree_handler import PyTreeHandler
from holdfast.orbax.v1._registry import (
    CheckpointableHandlerRegistry,
    global_registry,
    local_registry,
    register_handler,
)
from holdfast.orbax.v1._stateful_handler import StatefulCheckpointableHandler

__all__ = [
    "AbstractCheckpointable",
    "Checkpointable",
    "CheckpointableHandler",
    "CheckpointableHandlerRegistry",
    "JsonHandler",
    "ProtoHandler",
    "PyTreeHandler",
    "StatefulCheckpointable",
    "global_registry",
    "local_registry",
    "register_handler",
]


def _older(*handlers: str) -> list[str]:
    """Returns the type strings that the older interface's handlers record."""
    return [
        f"orbax.checkpoint.{package}.handlers.{handler}"
        for handler in handlers
        for package in ("_src", "v0._src")
    ]


def _register_standard_handlers() -> None:
    register_handler(
        ProtoHandler,
        secondary_typestrs=_older(
            "proto_checkpoint_handler.ProtoCheckpointHandler"
        ),
    )
    register_handler(
        JsonHandler,
        secondary_typestrs=_older(
            "json_checkpoint_handler.JsonCheckpointHandler"
        ),
    )
    register_handler(StatefulCheckpointableHandler)
    register_handler(MetricsHandler, checkpointable_name=METRICS_NAME)
    register_handler(
        PyTreeHandler,
        secondary_typestrs=_older(
            "pytree_checkpoint_handler.PyTreeCheckpointHandler",
            "standard_checkpoint_handler.StandardCheckpointHandler",
        ),
    )
    register_handler(PyTreeHandler, checkpointable_name=STATE_NAME)


_register_standard_handlers()
