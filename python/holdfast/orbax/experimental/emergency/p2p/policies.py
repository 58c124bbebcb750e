"""`orbax.checkpoint.experimental.emergency.p2p.policies`: names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "OffsetFixedIntervalPolicy",
]


class OffsetFixedIntervalPolicy(Refused):
    """Not supported yet: making one says so."""
