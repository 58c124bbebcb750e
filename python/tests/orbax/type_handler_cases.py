"""The arguments with which tests call the handlers of single types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from meshes import sharding

jax = pytest.importorskip("jax")

ROWS = np.arange(24.0).reshape(4, 6)


# Name -> (function that makes a package's handler, values, function that makes
# save args, function that makes restore args, options of ParamInfo).
Make = Callable[[Any], Any]
CASES: dict[str, tuple[Make, dict[str, Any], Make, Make, dict[str, Any]]] = {
    "numpy": (
        lambda p: p.type_handlers.NumpyHandler(),
        {"a": ROWS, "b.c": np.ones(3, np.int8)},
        lambda p: None,
        lambda p: None,
        {},
    ),
    "numpy_args": (
        lambda p: p.type_handlers.NumpyHandler(),
        {"a": ROWS, "b": ROWS},
        lambda p: [
            p.SaveArgs(dtype=np.dtype("float32")),
            p.SaveArgs(chunk_byte_size=48),
        ],
        lambda p: [p.RestoreArgs(dtype=np.dtype("int32")), p.RestoreArgs()],
        {},
    ),
    "numpy_files": (
        lambda p: p.type_handlers.NumpyHandler(),
        {"a.b": ROWS},
        lambda p: None,
        lambda p: None,
        {"is_ocdbt_checkpoint": False},
    ),
    "numpy_key": (
        lambda p: p.type_handlers.NumpyHandler(metadata_key="meta.json"),
        {"a": ROWS},
        lambda p: None,
        lambda p: None,
        {"is_ocdbt_checkpoint": False},
    ),
    "numpy_zarr3": (
        lambda p: p.type_handlers.NumpyHandler(),
        {"a": ROWS},
        lambda p: None,
        lambda p: None,
        {"use_zarr3": True},
    ),
    "numpy_process_id": (
        lambda p: p.type_handlers.NumpyHandler(ocdbt_process_id="w7"),
        {"a": ROWS},
        lambda p: None,
        lambda p: None,
        {},
    ),
    "scalar": (
        lambda p: p.type_handlers.ScalarHandler(),
        {"i": 1, "f": 2.5, "b": True, "n": np.float32(3)},
        lambda p: None,
        lambda p: [
            p.RestoreArgs(restore_type=float),
            p.RestoreArgs(restore_type=int),
            p.RestoreArgs(),
            p.RestoreArgs(),
        ],
        {},
    ),
    "string": (
        lambda p: p.type_handlers.StringHandler(),
        {"a": "x", "b/c": "y\N{LATIN SMALL LETTER E WITH ACUTE}"},
        lambda p: None,
        lambda p: None,
        {},
    ),
    "string_file": (
        lambda p: p.type_handlers.StringHandler("texts.json"),
        {"a": "x"},
        lambda p: None,
        lambda p: None,
        {"is_ocdbt_checkpoint": False},
    ),
    "array": (
        lambda p: p.type_handlers.ArrayHandler(),
        {"a": jax.numpy.arange(8), "b": jax.numpy.ones((2, 2))},
        lambda p: None,
        lambda p: [p.ArrayRestoreArgs(), p.ArrayRestoreArgs()],
        {},
    ),
    "array_sharded": (
        lambda p: p.type_handlers.ArrayHandler(),
        {
            "a": jax.device_put(
                np.arange(64.0).reshape(8, 8), sharding((4, 2), "x")
            )
        },
        lambda p: None,
        lambda p: [p.ArrayRestoreArgs(sharding=sharding((8,), None, "x"))],
        {},
    ),
    "array_not_parallel": (
        lambda p: p.type_handlers.ArrayHandler(use_replica_parallel=False),
        {"a": jax.device_put(np.arange(8.0), sharding((8,)))},
        lambda p: None,
        lambda p: [p.ArrayRestoreArgs()],
        {},
    ),
    "array_few_replicas": (
        lambda p: p.type_handlers.ArrayHandler(
            max_replicas_for_replica_parallel=2
        ),
        {"a": jax.device_put(np.arange(8.0), sharding((8,)))},
        lambda p: None,
        lambda p: [p.ArrayRestoreArgs()],
        {},
    ),
    "array_small_slices": (
        lambda p: p.type_handlers.ArrayHandler(
            min_slice_bytes_for_replica_parallel=1000
        ),
        {"a": jax.device_put(np.arange(8.0), sharding((8,)))},
        lambda p: None,
        lambda p: [p.ArrayRestoreArgs()],
        {},
    ),
    "array_separate_folder": (
        lambda p: p.type_handlers.ArrayHandler(
            enable_replica_parallel_separate_folder=True
        ),
        {
            "a": jax.device_put(np.arange(8.0), sharding((8,))),
            "b": jax.device_put(np.arange(8.0), sharding((8,), "x")),
        },
        lambda p: None,
        lambda p: [p.ArrayRestoreArgs(), p.ArrayRestoreArgs()],
        {},
    ),
    "single_replica": (
        lambda p: p.type_handlers.SingleReplicaArrayHandler(),
        {"a": jax.device_put(np.arange(8.0), sharding((2, 4), "y"))},
        lambda p: None,
        lambda p: [
            p.type_handlers.SingleReplicaArrayRestoreArgs(
                sharding=sharding((2, 4), "y"),
                global_shape=(8,),
                dtype=np.dtype("float32"),
            )
        ],
        {},
    ),
}
