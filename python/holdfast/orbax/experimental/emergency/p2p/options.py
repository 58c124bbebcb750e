"""`orbax.checkpoint.experimental.emergency.p2p.options`: names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "CheckpointManagerOptions",
    "LocalCheckpointOptions",
    "PersistentCheckpointOptions",
]


class CheckpointManagerOptions(Refused):
    """Not supported yet: making one says so."""


class LocalCheckpointOptions(Refused):
    """Not supported yet: making one says so."""


class PersistentCheckpointOptions(Refused):
    """Not supported yet: making one says so."""
