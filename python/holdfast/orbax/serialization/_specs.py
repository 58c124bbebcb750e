"""Converts Python values for the engine's spec builders, and back."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from holdfast._dtypes import dtype_name

JsonSpec = dict[str, Any]

_SHAPES = frozenset({"shape", "chunks", "chunk_shape"})


def name_of(dtype: Any) -> str:
    """Returns a dtype's name; also accepts scalar types and names."""
    return dtype_name(np.dtype(dtype))


def text_of(value: Any) -> str | None:
    """Returns str(value), but None for None."""
    return None if value is None else str(value)


def parse(text: str) -> JsonSpec:
    """Returns a spec's members, with shapes as tuples, as in Orbax."""
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
    """Returns the JSON text of a spec, which may contain numpy integers and
    paths."""
    return json.dumps(spec, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    return os.fspath(value)
