"""Python values on their way to the engine's builders, and back."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from holdfast._dtypes import dtype_name

JsonSpec = dict[str, Any]

_SHAPES = frozenset({"shape", "chunks", "chunk_shape"})


def name_of(dtype: Any) -> str:
    """A dtype's name; scalar types and names are taken as well."""
    return dtype_name(np.dtype(dtype))


def text_of(value: Any) -> str | None:
    """str(value), but None stays None."""
    return None if value is None else str(value)


def parse(text: str) -> JsonSpec:
    """A spec's members, with shapes as tuples, as Orbax has them."""
    spec: JsonSpec = json.loads(text, object_hook=_with_tuples)
    return spec


def _with_tuples(members: JsonSpec) -> JsonSpec:
    return {
        name: tuple(value)
        if name in _SHAPES and isinstance(value, list)
        else value
        for name, value in members.items()
    }


def dump(spec: Any) -> str:
    """JSON text of a spec that may hold numpy integers and paths."""
    return json.dumps(spec, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    return os.fspath(value)
