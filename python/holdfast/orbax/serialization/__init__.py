"""Specs of arrays: what `orbax.checkpoint.serialization` exports.

`ts_utils` (the submodule `tensorstore_utils`) builds TensorStore's JSON specs
without TensorStore; `handles` opens them.
"""

from __future__ import annotations

from typing import Any

from holdfast.orbax._later import attribute_error
from holdfast.orbax.serialization import handles, tensorstore_utils
from holdfast.orbax.serialization import tensorstore_utils as ts_utils
from holdfast.orbax.serialization.tensorstore_utils import get_ts_context

__all__ = ["get_ts_context", "handles", "tensorstore_utils", "ts_utils"]

_LATER = frozenset({"async_deserialize", "async_serialize"})


def __getattr__(name: str) -> Any:
    raise attribute_error(__name__, name, _LATER)
