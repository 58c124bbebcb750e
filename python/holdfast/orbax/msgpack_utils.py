"""flax's msgpack dialect, in memory: `orbax.checkpoint.msgpack_utils`.

Arrays, numpy scalars, complex numbers and tuples are stored as extensions, and
arrays larger than MAX_CHUNK_SIZE bytes as dicts of pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast._dtypes import numpy_dtype
from holdfast._engine import (
    MsgpackExtension,
    msgpack_pack,
    msgpack_unpack,
)
from holdfast.orbax._devices.optional_jax import is_jax_array

__all__ = ["MAX_CHUNK_SIZE", "msgpack_restore", "msgpack_serialize"]

MAX_CHUNK_SIZE = 2**30

_NDARRAY, _COMPLEX, _SCALAR, _TUPLE = 1, 2, 3, 4
_CHUNKED = "__msgpack_chunked_array__"


def msgpack_serialize(pytree: Any, in_place: bool = False) -> bytes:
    """Serializes a tree.

    Args:
        pytree: dicts, lists and tuples of arrays, numbers, strings and None.
        in_place: allows jax arrays and large arrays to be replaced in the dicts
            of `pytree`.

    Raises:
        ValueError: the format cannot store a leaf.
    """
    tree = pytree if in_place else _copy(pytree)
    return msgpack_pack(_prepared(tree), _extension)


def msgpack_restore(encoded_pytree: bytes) -> Any:
    """Deserializes a tree with read-only numpy arrays.

    Raises:
        ValueError: the bytes are damaged.
    """
    return _joined(msgpack_unpack(encoded_pytree, _value_of))


def _copy(tree: Any) -> Any:
    """Copies the tree's containers; dicts are sorted as in jax."""
    if isinstance(tree, dict):
        return {key: _copy(tree[key]) for key in sorted(tree)}
    if type(tree) in (list, tuple):
        return type(tree)(_copy(item) for item in tree)
    return tree


def _prepared(tree: Any) -> Any:
    """Converts jax arrays to numpy in dicts and splits large arrays."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            tree[key] = _prepared(value)
        return tree
    if is_jax_array(tree):
        tree = np.array(tree)
    if isinstance(tree, np.ndarray) and tree.nbytes > MAX_CHUNK_SIZE:
        return _pieces(tree)
    return tree


def _numbered(items: Any) -> dict[str, Any]:
    return {str(i): item for i, item in enumerate(items)}


def _pieces(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    size = max(1, MAX_CHUNK_SIZE // array.dtype.itemsize)
    flat = array.reshape(-1)
    starts = range(0, flat.size, size)
    return {
        _CHUNKED: True,
        "shape": _numbered(array.shape),
        "chunks": _numbered(flat[start : start + size] for start in starts),
    }


def _joined(tree: Any) -> Any:
    """Joins the pieces of large arrays."""
    if not isinstance(tree, dict):
        return tree
    if _CHUNKED in tree:
        shape, chunks = (
            [tree[key][str(i)] for i in range(len(tree[key]))]
            for key in ("shape", "chunks")
        )
        return np.concatenate(chunks).reshape(shape)
    return {key: _joined(value) for key, value in tree.items()}


def _extension(value: Any) -> MsgpackExtension:
    """Returns the extension for a value of a type that msgpack lacks.

    Raises:
        ValueError: no extension supports the value's type.
    """
    if isinstance(value, np.ndarray) or is_jax_array(value):
        return MsgpackExtension(_NDARRAY, _array_bytes(np.asarray(value)))
    if isinstance(value, np.generic):
        return MsgpackExtension(_SCALAR, _array_bytes(np.asarray(value)))
    if isinstance(value, complex):
        parts = [value.real, value.imag]
        return MsgpackExtension(_COMPLEX, msgpack_pack(parts, _extension))
    if isinstance(value, tuple):
        items = msgpack_pack(list(value), _extension)
        return MsgpackExtension(_TUPLE, items)
    raise ValueError(f"Unsupported msgpack object: {value}")


def _array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype.hasobject or array.dtype.isalignedstruct:
        raise ValueError(
            "Object and structured dtypes not supported for serialization of"
            " ndarrays."
        )
    parts = [list(array.shape), array.dtype.name, array.tobytes("C")]
    return msgpack_pack(parts, _extension)


def _value_of(code: int, data: bytes) -> Any:
    """Returns the value of an extension.

    Raises:
        ValueError: the code is unknown, or the bytes are damaged.
    """
    if code == _NDARRAY:
        return _array_of(data)
    if code == _SCALAR:
        return _array_of(data)[()]
    if code == _COMPLEX:
        return complex(*msgpack_unpack(data, _value_of))
    if code == _TUPLE:
        return tuple(msgpack_unpack(data, _value_of))
    raise ValueError(f"Unsupported msgpack code: {code}")


def _array_of(data: bytes) -> np.ndarray[Any, Any]:
    shape, name, values = msgpack_unpack(data, _value_of, texts_are_bytes=True)
    return np.frombuffer(values, _dtype_of(name.decode())).reshape(shape)


def _dtype_of(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        return numpy_dtype(name)
