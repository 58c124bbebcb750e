"""Arrays and their specs: the exports of `orbax.checkpoint.serialization`.

`ts_utils` (the submodule `tensorstore_utils`) builds TensorStore's JSON specs
without TensorStore; `handles` opens them.
"""

from __future__ import annotations

from holdfast.orbax.serialization import handles, tensorstore_utils
from holdfast.orbax.serialization import tensorstore_utils as ts_utils
from holdfast.orbax.serialization._arrays import (
    async_deserialize,
    async_serialize,
)
from holdfast.orbax.serialization.tensorstore_utils import get_ts_context

__all__ = [
    "async_deserialize",
    "async_serialize",
    "get_ts_context",
    "handles",
    "tensorstore_utils",
    "ts_utils",
]
