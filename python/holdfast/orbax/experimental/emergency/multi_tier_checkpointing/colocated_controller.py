"""`orbax.checkpoint.experimental.emergency.multi_tier_checkpointing.colocated_controller`:
names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax.experimental.emergency._refusal import Refused
from holdfast.orbax.experimental.emergency.multi_tier_checkpointing.time_block import (  # noqa: E501
    TimeBlock,
)

__all__ = [
    "ColocatedController",
    "PyTree",
    "TimeBlock",
]

PyTree: TypeAlias = Any


class ColocatedController(Refused):
    """Not supported yet: making one says so."""
