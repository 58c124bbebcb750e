"""`value_metadata_tree` of `_METADATA`: tuples and namedtuples as such.

A JSON text of the tree itself, each leaf with what `tree_metadata` has of it.
"""

from __future__ import annotations

import collections
import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.orbax._empty_values import (
    get_empty_value_typestr,
    is_empty_typestr,
    is_supported_empty_value,
)
from holdfast.orbax.options import PyTreeMetadataOptions
from holdfast.orbax.tree_paths import (
    children_with_keys,
    get_key_name,
    isinstance_of_namedtuple,
)

RICH_TYPES = PyTreeMetadataOptions(support_rich_types=True)

Names = tuple[str, ...]

_LEAF_CLASS = "ValueMetadataEntry"


def value_metadata_tree_json(
    item: Any,
    typestr_of: Callable[[Any], str],
    write_shape_of: Callable[[Any], tuple[int, ...] | None],
) -> str:
    """The text for a tree that is saved.

    Args:
        item: the tree.
        typestr_of: the text of a leaf's type.
        write_shape_of: the recorded shape of a leaf's shards, in elements.
    """

    def entry(value: Any) -> dict[str, Any]:
        if is_supported_empty_value(value, RICH_TYPES):
            typestr = get_empty_value_typestr(value, RICH_TYPES)
        elif children_with_keys(value) is not None:
            typestr = "None"  # an empty container that is none of those
        else:
            typestr = typestr_of(value)
        data: dict[str, Any] = {
            "value_type": typestr,
            "skip_deserialize": is_empty_typestr(typestr),
        }
        write_shape = write_shape_of(value)
        if write_shape is not None:
            data["write_shape"] = list(write_shape)
        return {"category": "custom", "clazz": _LEAF_CLASS, "data": data}

    def walk(node: Any) -> Any:
        pairs = children_with_keys(node)
        if not pairs:
            return entry(node)
        children = [walk(child) for _, child in pairs]
        names = [str(get_key_name(key)) for key, _ in pairs]
        if isinstance_of_namedtuple(node):
            kind = type(node)
            return {
                "category": "namedtuple",
                "module": kind.__module__,
                "clazz": kind.__qualname__,
                "entries": [
                    {"key": name, "value": child}
                    for name, child in zip(names, children, strict=True)
                ],
            }
        if isinstance(node, tuple):
            return {
                "category": "custom",
                "clazz": "tuple",
                "entries": children,
            }
        if isinstance(node, list):
            return children
        return dict(zip(names, children, strict=True))

    return json.dumps(walk(item))


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
