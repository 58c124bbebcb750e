"""`value_metadata_tree` of `_METADATA`: tuples and namedtuples as such.

A JSON text of the tree itself, each leaf with what `tree_metadata` has of it.
"""

from __future__ import annotations

import collections
import functools
import json
from collections.abc import Mapping
from typing import Any

from holdfast.orbax.options import PyTreeMetadataOptions

RICH_TYPES = PyTreeMetadataOptions(support_rich_types=True)

Names = tuple[str, ...]

_LEAF_CLASS = "ValueMetadataEntry"


@functools.lru_cache
def _namedtuple_type(module: str, clazz: str, fields: tuple[str, ...]) -> Any:
    # The class itself may be gone; its name says where it was.
    name = f"{module}_{clazz}_{len(fields)}".replace(".", "_")
    return collections.namedtuple(name, fields)  # noqa: PYI024


def rich_tree(text: str, leaves: Mapping[Names, Any]) -> Any:
    """The tree that a text stands for.

    Args:
        text: of `value_metadata_tree`.
        leaves: by their keys, those of empty containers too.

    Raises:
        ValueError: it is not such a text.
    """

    def walk(names: Names, node: Any) -> Any:
        if isinstance(node, list):
            return [walk((*names, str(i)), v) for i, v in enumerate(node)]
        if not isinstance(node, Mapping):
            return node
        category = node.get("category")
        if category == "custom" and node["clazz"] == _LEAF_CLASS:
            return leaves[names]
        if category == "custom":
            if node["clazz"] != "tuple":
                raise ValueError(
                    'Unsupported "custom" object in JSON deserialization:'
                    f" {node}"
                )
            return tuple(walk(names, node["entries"]))
        if category == "namedtuple":
            fields = [entry["key"] for entry in node["entries"]]
            values = [
                walk((*names, entry["key"]), entry["value"])
                for entry in node["entries"]
            ]
            kind = _namedtuple_type(node["module"], node["clazz"], (*fields,))
            return kind(*values)
        return {k: walk((*names, k), v) for k, v in node.items()}

    try:
        return walk((), json.loads(text))
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"value_metadata_tree is not as Orbax writes it: {error!r}"
        ) from error
