"""Turns the result of a read into a string; equal strings mean that the values
are equal bit for bit.

The string contains structure, kinds, dtypes, shapes, strings, shardings, the
kinds of random keys, and the arrays' SHA-1, but no paths or addresses.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def content(value: Any, *homes: Path) -> str:
    """Returns the string for a value, without the names of the directories
    `homes`."""
    text = repr(_plain(value))
    for home in homes:
        text = text.replace(str(home), "<home>")
    return _ADDRESS.sub("<address>", text)


def sha1_of(array: Any) -> str:
    """Returns the SHA-1 of an array's bytes in C order."""
    return hashlib.sha1(np.ascontiguousarray(array)).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, jax.Array):
        return _plain_jax(value)
    if isinstance(value, np.ndarray):
        return ("numpy", value.dtype.name, value.shape, sha1_of(value))
    if isinstance(value, np.generic):
        return ("generic", value.dtype.name, value.tobytes())
    if type(value).__module__ == "torch":
        return _plain_torch(value)
    if isinstance(value, Mapping):
        pairs = [(key, _plain(value[key])) for key in value]
        return (type(value).__name__, pairs)
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [_plain(each) for each in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = [
            (field.name, _plain(getattr(value, field.name)))
            for field in dataclasses.fields(value)
        ]
        return (type(value).__name__, pairs)
    return (type(value).__name__, repr(value))


def _plain_jax(value: jax.Array) -> Any:
    placed = _sharding(value.sharding)
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = np.asarray(jax.random.key_data(value))
        kind = str(jax.random.key_impl(value))
        return ("key", kind, value.shape, sha1_of(data), placed)
    data = np.asarray(value)
    return ("jax", data.dtype.name, data.shape, sha1_of(data), placed)


def _sharding(sharding: Any) -> str:
    if isinstance(sharding, jax.sharding.NamedSharding):
        devices = [device.id for device in sharding.mesh.devices.flat]
        return f"{sharding} on {devices}"
    return str(sharding)


def _plain_torch(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return (type(value).__name__, repr(value))
    if not value.shape:
        value = value.reshape(1)
    data = value.detach().cpu().contiguous().view(torch.uint8).numpy()
    return ("torch", str(value.dtype), tuple(value.shape), sha1_of(data))
