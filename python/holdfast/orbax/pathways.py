"""Checkpoints on Pathways: `orbax.checkpoint.pathways`.

holdfast has no Pathways backend. Functions that need one raise
NotImplementedError; the others work.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from holdfast.orbax._devices.optional_jax import require_jax
from holdfast.orbax._type_handlers.array_metadata import Store
from holdfast.orbax._type_handlers.arrays import ArrayHandler
from holdfast.orbax._type_handlers.registry import register_type_handler
from holdfast.orbax._type_handlers.single_replica import (
    SingleReplicaArrayHandler,
)
from holdfast.orbax._type_handlers.standard import NumpyHandler, ScalarHandler

__all__ = ["CheckpointingImpl", "register_type_handlers"]

# The name of the database that the controller writes.
_CONTROLLER = "pwcontroller"


class CheckpointingImpl(enum.Enum):
    """Selects what writes the arrays of a Pathways job."""

    COLOCATED_PYTHON = enum.auto()
    PERSISTENCE = enum.auto()
    NO_DISPATCHER = enum.auto()

    @classmethod
    def from_options(
        cls,
        *,
        use_colocated_python: bool = False,
        use_persistence_array_handler: bool = False,
    ) -> CheckpointingImpl:
        """Returns the first enabled implementation, else NO_DISPATCHER."""
        if use_colocated_python:
            return cls.COLOCATED_PYTHON
        if use_persistence_array_handler:
            return cls.PERSISTENCE
        return cls.NO_DISPATCHER


def register_type_handlers(
    use_single_replica_array_handler: bool = False,
    checkpointing_impl: CheckpointingImpl | None = None,
    **kwargs: Any,
) -> None:
    """Registers the handlers of a Pathways job globally.

    Args:
        use_single_replica_array_handler: one replica reads and broadcasts to
            the others.
        checkpointing_impl: with NO_DISPATCHER, this program writes; None means
            COLOCATED_PYTHON.
        **kwargs: arguments of the ArrayHandler.

    Raises:
        NotImplementedError: `checkpointing_impl` lets the workers write.
    """
    impl = checkpointing_impl or CheckpointingImpl.COLOCATED_PYTHON
    if impl is not CheckpointingImpl.NO_DISPATCHER:
        raise NotImplementedError(
            f"{impl} needs a Pathways backend, which holdfast does not"
            " support: give CheckpointingImpl.NO_DISPATCHER, and this program"
            " writes the arrays"
        )
    kwargs.setdefault("array_metadata_store", Store())
    kind = (
        SingleReplicaArrayHandler
        if use_single_replica_array_handler
        else ArrayHandler
    )
    array = require_jax("saving jax.Arrays").Array
    register_type_handler(array, kind(**kwargs), override=True)
    scalars = ScalarHandler(ocdbt_process_id=_CONTROLLER)
    for scalar in (int, float, bytes, np.number):
        register_type_handler(scalar, scalars, override=True)
    arrays = NumpyHandler(ocdbt_process_id=_CONTROLLER)
    register_type_handler(np.ndarray, arrays, override=True)
