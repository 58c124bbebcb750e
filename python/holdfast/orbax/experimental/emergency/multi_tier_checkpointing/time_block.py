"""`orbax.checkpoint.experimental.emergency.multi_tier_checkpointing.time_block`:
names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "TimeBlock",
]


class TimeBlock(Refused):
    """Not supported yet: making one says so."""
