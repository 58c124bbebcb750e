"""`orbax.checkpoint.experimental.emergency.p2p.registry`: names alone."""

from __future__ import annotations

from typing import TypeAlias

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "PeerRegistry",
    "ProcessIndex",
    "Step",
]

ProcessIndex: TypeAlias = int
Step: TypeAlias = int


class PeerRegistry(Refused):
    """Not supported yet: making one says so."""
