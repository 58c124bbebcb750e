"""The item's metadata, which records what Orbax's leaves cannot express."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.torch._names import Path, name_of

__all__ = ["TREE_KEY", "objects_in", "sidecar_of", "tuples_of"]

TREE_KEY = "holdfast.tree"
_TUPLES_KEY = "holdfast.tuples"


def sidecar_of(
    objects: Sequence[tuple[Path, str]], tuples: Sequence[Path]
) -> str:
    """Returns the item's own documents as a JSON object, or "" without any.

    Args:
      objects: (path, kind) of arrays of bytes that represent Python objects:
        kind "object" for torch.save files, "bytes" for other arrays.
      tuples: paths of lists that must become tuples.
    """
    found: dict[str, Any] = {}
    if objects:
        leaves = [
            {
                "key": [str(part) for part in path],
                "is_sequence": [isinstance(part, int) for part in path],
                "kind": kind,
                "stored": name_of(path),
            }
            for path, kind in objects
        ]
        # Like the engine's tree sidecars, this lists only the leaves that Orbax
        # would describe wrongly.
        found[TREE_KEY] = {"version": 1, "partial": True, "leaves": leaves}
    if tuples:
        found[_TUPLES_KEY] = tuples
    return json.dumps(found) if found else ""


def objects_in(item_documents: str) -> frozenset[str]:
    """Returns the names of the arrays that hold Python objects."""
    try:
        found = json.loads(item_documents)[TREE_KEY]["leaves"]
        return frozenset(
            str(leaf["stored"])
            for leaf in found
            if leaf["kind"] in ("object", "bytes")
        )
    except (ValueError, TypeError, KeyError):
        return frozenset()


def tuples_of(item_documents: str) -> frozenset[Path]:
    """Returns the paths of the lists that must become tuples."""
    try:
        found = json.loads(item_documents)[_TUPLES_KEY]
        return frozenset(tuple(path) for path in found)
    except (ValueError, TypeError, KeyError):
        return frozenset()
