"""`orbax.checkpoint.experimental.emergency.p2p.persistent`: names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "PersistentCheckpointManager",
    "PyTree",
]

PyTree: TypeAlias = Any


class PersistentCheckpointManager(Refused):
    """Not supported yet: making one says so."""
