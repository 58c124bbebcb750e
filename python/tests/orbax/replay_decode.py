"""Decodes recorded requests to trees, arguments and shardings.

JSON objects with "$" represent values that JSON does not have, as described in
`tests/golden/corpus`. Needs jax with eight devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from replay_expressions import evaluate

import holdfast.orbax as ocp

RESTORE_TYPES: dict[str | None, Any] = {
    None: None,
    "bool": bool,
    "float": float,
    "int": int,
    "jax.Array": jax.Array,
    "np.ndarray": np.ndarray,
    "str": str,
}
KEY_IMPLS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg"}


def sharding(recorded: dict[str, Any] | None) -> Any | None:
    """Returns a jax sharding."""
    if recorded is None:
        return None
    devices = jax.devices()
    if recorded["kind"] == "single":
        return jax.sharding.SingleDeviceSharding(devices[recorded["device"]])
    shape = recorded["mesh_shape"]
    ids = recorded.get("device_ids") or list(range(int(np.prod(shape))))
    mesh = jax.sharding.Mesh(
        np.array([devices[i] for i in ids]).reshape(shape),
        recorded["axis_names"],
    )
    spec = [tuple(e) if isinstance(e, list) else e for e in recorded["spec"]]
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


def dtype(name: str | None) -> Any | None:
    """Returns a numpy dtype, or the dtype of typed PRNG keys."""
    if name is None:
        return None
    if name in KEY_IMPLS:
        return jax.random.key(0, impl=KEY_IMPLS[name]).dtype
    return jnp.dtype(name)


def _array(recorded: dict[str, Any]) -> np.ndarray[Any, Any]:
    kind = jnp.dtype(recorded["dtype"])
    if "data_hex" in recorded:
        data = np.frombuffer(bytes.fromhex(recorded["data_hex"]), kind)
        return data.reshape(recorded["shape"]).copy()
    return np.full(recorded["shape"], recorded.get("fill", 0)).astype(kind)


def _jax_array(recorded: dict[str, Any]) -> Any:
    where = sharding(recorded.get("sharding")) or jax.devices()[0]
    return jax.device_put(_array(recorded), where)


def _shape_dtype_struct(recorded: dict[str, Any]) -> Any:
    return jax.ShapeDtypeStruct(
        tuple(recorded["shape"]),
        dtype(recorded["dtype"]),
        sharding=sharding(recorded.get("sharding")),
    )


def _restore_args(recorded: dict[str, Any]) -> Any:
    return ocp.RestoreArgs(
        restore_type=RESTORE_TYPES[recorded.get("restore_type")],
        dtype=dtype(recorded.get("dtype")),
    )


def _array_restore_args(recorded: dict[str, Any]) -> Any:
    options: dict[str, Any] = {
        name: tuple(recorded[name])
        for name in ("global_shape", "shape")
        if name in recorded
    }
    if "restore_type" in recorded:
        options["restore_type"] = RESTORE_TYPES[recorded["restore_type"]]
    return ocp.ArrayRestoreArgs(
        dtype=dtype(recorded.get("dtype")),
        sharding=sharding(recorded.get("sharding")),
        strict=recorded.get("strict", True),
        **options,
    )


def _transform(recorded: dict[str, Any]) -> Any:
    options: dict[str, Any] = {}
    if "original_key" in recorded:
        options["original_key"] = recorded["original_key"]
    if recorded.get("use_fallback"):
        options["use_fallback"] = True
    if "value_fn" in recorded:
        expression = recorded["value_fn"]
        options["value_fn"] = lambda v: evaluate(expression, None, v)
    if "multi_value_fn" not in recorded:
        return ocp.Transform(**options)
    function = recorded["multi_value_fn"]
    options["multi_value_fn"] = lambda _, tree, *args: evaluate(
        function, tree, None
    )
    if "multi_value_fn_input_args" in recorded:
        inputs = recorded["multi_value_fn_input_args"]
        options["multi_value_fn_input_args"] = decode(inputs)
    return ocp.RestoreTransform(**options)


_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "array": _array,
    "array_restore_args": _array_restore_args,
    "jax_array": _jax_array,
    "placeholder": lambda recorded: ...,
    "restore_args": _restore_args,
    "sds": _shape_dtype_struct,
    "transform": _transform,
    "tuple": lambda recorded: tuple(map(decode, recorded["items"])),
}


def decode(recorded: Any) -> Any:
    """Returns a recorded tree as a tree of Python objects."""
    if isinstance(recorded, list):
        return [decode(element) for element in recorded]
    if not isinstance(recorded, dict):
        return recorded
    if "$" in recorded:
        return _DECODERS[recorded["$"]](recorded)
    return {key: decode(value) for key, value in recorded.items()}
