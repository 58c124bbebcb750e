"""`orbax.checkpoint.experimental.emergency.p2p.args`: names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "Composite",
]


class Composite(Refused):
    """Not supported yet: making one says so."""
