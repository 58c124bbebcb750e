"""`orbax.checkpoint.experimental.emergency.p2p.local`: names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "LocalCheckpointManager",
]


class LocalCheckpointManager(Refused):
    """Not supported yet: making one says so."""
