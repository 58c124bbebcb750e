"""Which arrays of a checkpoint hold Python objects: the item's metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.torch._names import Path, name_of

__all__ = ["objects_in", "sidecar_of"]

_KEY = "holdfast.tree"


def sidecar_of(objects: Sequence[tuple[Path, int]]) -> str:
    """The item's custom metadata, a JSON object; empty without objects.

    `objects`: (path, bytes) of each.
    """
    if not objects:
        return ""
    leaves = [
        {
            "key": [str(part) for part in path],
            "key_is_sequence": [isinstance(part, int) for part in path],
            "kind": "object",
            "shape": [byte_count],
            "stored": name_of(path),
        }
        for path, byte_count in objects
    ]
    return json.dumps({_KEY: {"leaves": leaves}})


def objects_in(item_custom_metadata: str) -> frozenset[str]:
    """Names of the arrays that hold Python objects."""
    if not item_custom_metadata:
        return frozenset()
    try:
        found = json.loads(item_custom_metadata)[_KEY]["leaves"]
        return frozenset(
            str(leaf["stored"]) for leaf in found if leaf["kind"] == "object"
        )
    except (ValueError, TypeError, KeyError):
        return frozenset()
