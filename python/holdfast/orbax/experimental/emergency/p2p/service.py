"""`orbax.checkpoint.experimental.emergency.p2p.service`: names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "NodeHandler",
    "P2PNode",
]


class NodeHandler(Refused):
    """Not supported yet: making one says so."""


class P2PNode(Refused):
    """Not supported yet: making one says so."""
