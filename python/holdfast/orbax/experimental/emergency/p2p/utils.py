"""`orbax.checkpoint.experimental.emergency.p2p.utils`: names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import refused_function

__all__ = [
    "detect_process_index",
    "pygrain",
]

detect_process_index = refused_function(__name__, "detect_process_index")
pygrain = refused_function(__name__, "pygrain")
