"""`orbax.checkpoint.experimental.emergency.multi_tier_checkpointing.initialization`:
names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import refused_function
from holdfast.orbax.experimental.emergency.multi_tier_checkpointing.time_block import (  # noqa: E501
    TimeBlock,
)

__all__ = [
    "TimeBlock",
    "initialize_multi_tier_checkpointing",
]

initialize_multi_tier_checkpointing = refused_function(
    __name__, "initialize_multi_tier_checkpointing"
)
