"""Values of a training state that Orbax cannot store as leaves.

Tensors and arrays without elements, bytes and BytesIOs are stored as torch.save
files in arrays of bytes. The item's custom metadata records which arrays these
are, so a load can return the values. Modules have such values as their extra
state, and as parameters that belong to a different rank.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import torch

from holdfast import _dtensor
from holdfast.torch._objects import file_of
from holdfast.torch._sidecar import TREE_KEY

__all__ = ["StateTree", "is_object"]

# Each key, and whether it is a dict key.
Path = tuple[tuple[Any, bool], ...]


class StateTree(dict[str, Any]):
    """A tree to save, in which arrays of bytes stand for non-leaf values.

    Attributes:
      item_documents: a JSON object that lists these arrays; "" for no arrays.
    """

    def __init__(self, tree: dict[str, Any]) -> None:
        leaves: list[dict[str, Any]] = []
        super().__init__(_replaced(tree, (), leaves))
        document = {"version": 1, "partial": True, "leaves": leaves}
        self.item_documents = (
            json.dumps({TREE_KEY: document}) if leaves else ""
        )


def _replaced(value: Any, path: Path, leaves: list[dict[str, Any]]) -> Any:
    if is_object(value):
        leaves.append(_leaf_at(path))
        return np.frombuffer(file_of(_plain(value)).getvalue(), np.uint8)
    is_dict = isinstance(value, dict)
    if not is_dict and type(value) not in (list, tuple):
        return value
    children = list(value.items() if is_dict else enumerate(value))
    replaced = [
        (key, _replaced(child, (*path, (key, is_dict)), leaves))
        for key, child in children
    ]
    is_same = [
        new is old
        for (_, new), (_, old) in zip(replaced, children, strict=True)
    ]
    if all(is_same):
        return value
    if is_dict:
        return dict(replaced)
    return type(value)(new for _, new in replaced)


def _leaf_at(path: Path) -> dict[str, Any]:
    return {
        "key": [str(key) for key, _ in path],
        "is_sequence": [not is_dict for _, is_dict in path],
        "is_integer": [is_dict and type(key) is int for key, is_dict in path],
        "kind": "object",
        "stored": ".".join(str(key) for key, _ in path),
    }


def is_object(value: Any) -> bool:
    """Returns whether Orbax has no leaf for `value`, so a torch.save file
    stores it."""
    if isinstance(value, torch.Tensor):
        return (
            value.numel() == 0
            and value.layout is torch.strided
            and not value.is_meta
            and not _dtensor.is_dtensor(value)
        )
    if isinstance(value, np.ndarray):
        return value.size == 0 and value.dtype.kind in "biufc"
    return type(value) in (bytes, bytearray, io.BytesIO)


def _plain(value: Any) -> Any:
    """Removes a tensor's autograd graph, device and subclass."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().as_subclass(torch.Tensor)
    return value
