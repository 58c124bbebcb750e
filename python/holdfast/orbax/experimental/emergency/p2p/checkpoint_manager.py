"""`orbax.checkpoint.experimental.emergency.p2p.checkpoint_manager`:
names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "CheckpointManager",
    "PyTree",
]

PyTree: TypeAlias = Any


class CheckpointManager(Refused):
    """Not supported yet: making one says so."""
