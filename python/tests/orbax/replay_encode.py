"""Encodes results as they are recorded: JSON with a digest for each array."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from typing import Any

import jax
import numpy as np

from holdfast.orbax.metadata import value as value_metadata

# The bits that hold the value, for dtypes smaller than a byte.
_VALUE_BITS = {
    "int2": 3,
    "uint2": 3,
    "int4": 15,
    "uint4": 15,
    "float4_e2m1fn": 15,
}


@dataclasses.dataclass
class JsonDocument:
    """A JSON value, in a class to distinguish it from a tree."""

    value: Any


def digest(value: Any) -> str:
    """Returns the sha256 of the elements in C order, little endian."""
    array = np.ascontiguousarray(value)
    bits = _VALUE_BITS.get(array.dtype.name)
    if bits is not None:
        array = array.view(np.uint8) & bits
    elif array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return hashlib.sha256(array.tobytes()).hexdigest()


def _float(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _number(value: Any) -> Any:
    if isinstance(value, complex):
        return [_float(value.real), _float(value.imag)]
    return _float(value) if isinstance(value, float) else value


def _array(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "sha256": digest(array),
    }


def _sharding(sharding: Any) -> dict[str, Any]:
    if isinstance(sharding, jax.sharding.SingleDeviceSharding):
        (device,) = sharding.device_set
        return {"kind": "single", "device": device.id}
    mesh = sharding.mesh
    return {
        "kind": "named",
        "mesh_shape": list(mesh.devices.shape),
        "axis_names": list(mesh.axis_names),
        "device_ids": [device.id for device in mesh.devices.flat],
        "spec": [list(e) if isinstance(e, tuple) else e for e in sharding.spec],
    }


def _shards(array: Any) -> list[dict[str, Any]]:
    def index(shard: Any) -> list[list[int]]:
        return [
            [part.start or 0, extent if part.stop is None else part.stop]
            for part, extent in zip(shard.index, array.shape, strict=True)
        ]

    return [
        {
            "device": shard.device.id,
            "index": index(shard),
            "sha256": digest(shard.data),
        }
        for shard in sorted(
            array.addressable_shards, key=lambda shard: shard.device.id
        )
    ]


def _jax_array(value: Any) -> dict[str, Any]:
    result = {"$": "result", "type": "jax.Array"}
    is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
    result |= _array(jax.random.key_data(value) if is_key else value)
    if is_key:
        result["prng_impl"] = str(jax.random.key_impl(value))
        result["logical_shape"] = list(value.shape)
    result["sharding"] = _sharding(value.sharding)
    if not is_key and len(value.sharding.device_set) > 1:
        result["shards"] = _shards(value)
    return result


def _metadata(value: Any) -> dict[str, Any]:
    if isinstance(value, value_metadata.StringMetadata):
        return {"$": "metadata", "type": "string"}
    result = {"$": "metadata", "dtype": value.dtype.name}
    if isinstance(value, value_metadata.ScalarMetadata):
        return result | {"type": "scalar"}
    result |= {"type": "array", "shape": list(value.shape)}
    for name in ("chunk_shape", "write_shape"):
        shape = getattr(value.storage, name)
        result[name] = None if shape is None else list(shape)
    recorded = value.sharding
    result["sharding"] = recorded and json.loads(
        recorded.to_serialized_string()
    )
    return result


def _leaf(value: Any) -> dict[str, Any]:
    if isinstance(value, jax.Array):
        return _jax_array(value)
    if isinstance(value, value_metadata.Metadata):
        return _metadata(value)
    if isinstance(value, np.ndarray):
        return {"$": "result", "type": "np.ndarray", **_array(value)}
    if isinstance(value, np.generic):
        number = _number(value.item())
        kind = {"$": "result", "type": "np.generic"}
        return kind | _array(value) | {"value": number}
    if value is None:
        return {"$": "result", "type": "none"}
    if value is ...:
        return {"$": "result", "type": "placeholder"}
    result = {"$": "result", "type": type(value).__name__}
    result["value"] = _number(value)
    if isinstance(value, float):
        result["bytes_hex"] = np.float64(value).tobytes().hex()
    return result


def encode(tree: Any) -> Any:
    """Returns a result in the form of the records."""
    if isinstance(tree, JsonDocument):
        return {"$": "json", "value": tree.value}
    if isinstance(tree, dict):
        return {str(key): encode(value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return {"$": "tuple", "items": [encode(value) for value in tree]}
    if isinstance(tree, list):
        return [encode(value) for value in tree]
    return _leaf(tree)
