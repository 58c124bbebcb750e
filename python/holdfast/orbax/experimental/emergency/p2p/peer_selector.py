"""`orbax.checkpoint.experimental.emergency.p2p.peer_selector`: names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "PeerSelector",
]


class PeerSelector(Refused):
    """Not supported yet: making one says so."""
