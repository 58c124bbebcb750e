"""A checkpoint's leaves under their torch.distributed.checkpoint names."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from holdfast import _dtypes, _engine, _torch_arrays, errors
from holdfast.torch._names import Path, name_of
from holdfast.torch._sidecar import objects_in, tuples_of

__all__ = ["Catalogue", "Entry", "ObjectFile", "catalogue_of"]

# The torch dtypes that the engine can fill: numpy's dtypes, and dtypes that
# pass as integers of the same width.
_TORCH_DTYPES = _dtypes.NUMPYS | _torch_arrays.CARRIERS.keys()


@dataclasses.dataclass(frozen=True)
class ObjectFile:
    """A Python object as the bytes of its stored file."""

    content: bytes

    def open(self) -> io.BytesIO:
        return io.BytesIO(self.content)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One name of a state dict.

    Attributes:
        path: the keys that lead to the value.
        leaf: the index of the value's leaf; None for a list of several leaves.
        tensor: (dtype name, shape) for a tensor; None for other values.
    """

    path: Path
    leaf: int | None
    tensor: tuple[str, tuple[int, ...]] | None = None
    is_object: bool = False
    node: Any = None  # for a list, nested lists of leaf indices


class Catalogue:
    """The names in an opened checkpoint, and the values that are not tensors.

    Thread-safety: one thread at a time.
    """

    def __init__(
        self, checkpoint: _engine.Checkpoint, entries: dict[str, Entry]
    ) -> None:
        self.checkpoint = checkpoint
        self.entries = entries
        self._tuples = tuples_of(checkpoint.item_documents)
        self._numbers: dict[int, Any] = {}

    def read_numbers(self, names: Iterable[str]) -> None:
        """Reads all numbers among `names` in one pass; `value` then returns
        them.

        Raises DataLossError for damaged bytes.
        """
        wanted: dict[int, np.ndarray[Any, Any]] = {}
        for name in names:
            for leaf in _leaves_of(self.entries[name]):
                info = self.checkpoint.leaves[leaf]
                if info.kind != "scalar" or info.problem is not None:
                    continue
                dtype = _dtypes.numpy_dtype(info.dtype or "", info.name)
                if dtype.kind in "biufc":  # like Python's own numbers
                    wanted[leaf] = np.empty((), dtype)
        self.checkpoint.read_into(
            [(leaf, (), number) for leaf, number in wanted.items()]
        )
        self._numbers = {leaf: each.item() for leaf, each in wanted.items()}

    def value(self, name: str) -> Any:
        """Returns the value of a leaf that is not a tensor: None, a number, a
        str, a list, {}, or an ObjectFile.

        Raises:
          DataLossError: bytes are damaged.
          InvalidArgumentError: torch has no value for the leaf.
        """
        entry = self.entries[name]
        if entry.leaf is None:
            return self._list(entry.node, entry.path)
        info = self.checkpoint.leaves[entry.leaf]
        if info.problem is not None:
            raise info.problem
        if info.kind == "array" and not entry.is_object:
            raise errors.InvalidArgumentError(
                f"leaf {info.name!r}: torch has no tensors of {info.dtype}"
            )
        value = self._read(entry.leaf)
        if not entry.is_object:
            return value
        return ObjectFile(
            value if isinstance(value, bytes) else value.tobytes()
        )

    def _read(self, leaf: int) -> Any:
        if leaf in self._numbers:
            return self._numbers[leaf]
        return self.checkpoint.read(leaf)

    def _list(self, node: Any, path: Path) -> Any:
        if not isinstance(node, list):
            return self._read(node)
        values = [self._list(child, (*path, i)) for i, child in enumerate(node)]
        return tuple(values) if path in self._tuples else values


def _leaves_of(entry: Entry) -> Iterator[int]:
    waiting = [entry.node if entry.leaf is None else entry.leaf]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        else:
            yield node


def catalogue_of(checkpoint: _engine.Checkpoint) -> Catalogue:
    """Returns the catalogue of a checkpoint.

    Raises InvalidArgumentError if two leaves have the same name in torch."""
    objects = objects_in(checkpoint.item_documents)
    entries: dict[str, Entry] = {}
    for entry in _entries(checkpoint, objects):
        name = name_of(entry.path)
        if name in entries:
            raise errors.InvalidArgumentError(
                f"{checkpoint.path}: the leaves at {entries[name].path} and"
                f" {entry.path} have one name for torch: {name!r}"
            )
        entries[name] = entry
    return Catalogue(checkpoint, entries)


def _entries(
    checkpoint: _engine.Checkpoint, objects: frozenset[str]
) -> Iterator[Entry]:
    leaves = checkpoint.leaves
    root = _tree_of(leaves)
    if not isinstance(root, _Node):
        yield _entry_of(leaves[root], root, ("",), objects)
        return
    # Not recursive, because trees may be deeper than Python's stack.
    waiting: list[tuple[Path, Any]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, _Node):
            # If an empty dict had a name, torch would mistake the state dict
            # for one from torch 2.3.
            if leaves[node].kind != "empty_dict":
                yield _entry_of(leaves[node], node, path, objects)
            continue
        if path and node.is_sequence and _is_one_value(node, leaves, objects):
            yield Entry(path, None, node=_indices(node))
            continue
        keys = node.children if path else map(str, node.children)
        waiting.extend(
            reversed(
                [
                    ((*path, key), child)
                    for key, child in zip(
                        keys, node.children.values(), strict=True
                    )
                ]
            )
        )


class _Node:
    """A container of leaf indices and other containers."""

    def __init__(self, is_sequence: bool) -> None:
        self.is_sequence = is_sequence
        self.children: dict[str | int, Any] = {}


def _tree_of(leaves: list[_engine.LeafInfo]) -> Any:
    """Returns the root, or the index of the only leaf if it has no key."""
    root: _Node | None = None
    for i, info in enumerate(leaves):
        if not info.key:
            return i
        parts = _parts(info)
        if root is None:
            root = _Node(isinstance(parts[0], int))
        node = root
        for part, following in zip(parts[:-1], parts[1:], strict=True):
            child = node.children.setdefault(
                part, _Node(isinstance(following, int))
            )
            if not isinstance(child, _Node):
                raise errors.InvalidArgumentError(
                    f"leaf {info.name!r} lies below another leaf"
                )
            node = child
        node.children[parts[-1]] = i
    return root or _Node(False)


def _parts(info: _engine.LeafInfo) -> list[str | int]:
    if not any(info.key_is_sequence):
        return list(info.key)
    return [
        int(key) if is_index and key.isdecimal() else key
        for key, is_index in zip(info.key, info.key_is_sequence, strict=True)
    ]


def _is_one_value(
    node: _Node, leaves: list[_engine.LeafInfo], objects: frozenset[str]
) -> bool:
    """Returns whether torch treats a list as one value: it contains no tensors
    or dicts."""
    if not node.is_sequence:
        return False
    if list(node.children) != list(range(len(node.children))):
        return False
    for child in node.children.values():
        if isinstance(child, _Node):
            if not _is_one_value(child, leaves, objects):
                return False
            continue
        info = leaves[child]
        if info.problem is not None or info.kind in (
            "array",
            "empty_dict",
            "object",
            "placeholder",
        ):
            return False
    return True


def _indices(node: Any) -> Any:
    if isinstance(node, _Node):
        return [_indices(child) for child in node.children.values()]
    return node


def _entry_of(
    info: _engine.LeafInfo, leaf: int, path: Path, objects: frozenset[str]
) -> Entry:
    if info.kind in ("object", "bytes") or (
        info.kind == "array"
        and info.name in objects
        and info.dtype == "uint8"
        and len(info.shape) == 1
    ):
        return Entry(path, leaf, is_object=True)
    is_tensor = (
        info.kind == "array"
        and info.problem is None
        and info.dtype in _TORCH_DTYPES
    )
    if not is_tensor:
        return Entry(path, leaf)
    assert info.dtype is not None
    return Entry(path, leaf, tensor=(info.dtype, info.shape))
