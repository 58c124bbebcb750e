"""Functions that jax processes call in test_jax_ranks.py (process_jobs.Job)."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import holdfast
from holdfast import errors

SHAPES = {"even": (8, 12), "cube": (8, 2, 4), "line": (16,)}


def values(name: str) -> np.ndarray[Any, Any]:
    shape = SHAPES[name]
    return np.arange(math.prod(shape), dtype=np.float32).reshape(shape)


def layouts() -> dict[str, NamedSharding]:
    """Returns shardings over all devices of all processes, by name."""
    devices = np.array(jax.devices())
    line = Mesh(devices, ("data",))
    square = Mesh(devices.reshape(2, -1), ("data", "model"))
    backwards = Mesh(devices[::-1].reshape(-1, 2), ("data", "model"))
    return {
        "line": NamedSharding(line, P("data")),
        "replicated": NamedSharding(line, P()),
        "square": NamedSharding(square, P("data")),
        "model": NamedSharding(square, P("model")),
        "backwards": NamedSharding(backwards, P(("model", "data"))),
    }


def spread_key(mesh: Mesh, seed: int) -> jax.Array:
    """Returns a typed PRNG key that is replicated on all devices."""
    made: jax.Array = jax.jit(
        lambda: jax.random.key(seed), out_shardings=NamedSharding(mesh, P())
    )()
    return made


def spread_tree(sharding: NamedSharding) -> dict[str, Any]:
    arrays = {
        name: jax.make_array_from_callback(
            SHAPES[name], sharding, lambda index, name=name: values(name)[index]
        )
        for name in SHAPES
    }
    return {
        "params": arrays,
        "key": spread_key(sharding.mesh, 7),
        "plain": np.full(3, float(jax.process_index())),
        "step": jax.process_index(),
    }


def targets(sharding: NamedSharding) -> dict[str, Any]:
    return {
        "params": {
            name: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)
            for name, shape in SHAPES.items()
        },
        "key": spread_key(sharding.mesh, 0),
        "plain": np.zeros(3),
        "step": 0,
    }


def check(got: dict[str, Any], what: str) -> None:
    for name in SHAPES:
        array = got["params"][name]
        for shard in array.addressable_shards:
            np.testing.assert_array_equal(
                np.asarray(shard.data), values(name)[shard.index], what
            )
    assert got["plain"].tolist() == [0, 0, 0] and got["step"] == 0
    key_data = jax.random.key_data(got["key"]).addressable_shards[0].data
    wanted = jax.random.key_data(jax.random.key(7))
    np.testing.assert_array_equal(np.asarray(key_data), np.asarray(wanted))


def save_all(folder: str) -> None:
    count = jax.process_count()
    for name, sharding in layouts().items():
        holdfast.save(Path(folder) / f"{count}-{name}", spread_tree(sharding))
    future = holdfast.save(
        Path(folder) / f"{count}-background",
        spread_tree(layouts()["line"]),
        background=True,
    )
    assert future.result(timeout=60).total_seconds > 0


def load_all(folder: str) -> None:
    for path in sorted(Path(folder).iterdir()):
        for name, sharding in layouts().items():
            got = holdfast.load(path, targets(sharding))
            assert got["params"]["even"].sharding == sharding
            check(got, f"{path.name} on {name}")


def load_alone(folder: str) -> None:
    """Loads on one process only; no call may wait for the other processes."""
    if jax.process_index() == 1:
        for path in sorted(Path(folder).iterdir()):
            got = holdfast.load(path)
            for name in SHAPES:
                np.testing.assert_array_equal(got["params"][name], values(name))
        holdfast.save(
            Path(folder).with_name(f"own-{os.getpid()}"),
            {"w": np.ones(2)},
            group=None,
        )


def replicas(path: str) -> None:
    """Checks and saves arrays of which a device of the last process has another
    value."""
    for name in ("replicated", "model"):
        tree = spread_tree(layouts()[name])
        own = {"params": tree["params"], "key": tree["key"]}
        counts = holdfast.check_replicas(own)
        assert counts.compared_count == counts.replica_count > 4
        even = own["params"]["even"]
        shards = even.addressable_shards
        parts = [shard.data for shard in shards]
        if jax.process_index() == jax.process_count() - 1:
            parts[-1] = jax.device_put(
                np.asarray(parts[-1]) + 1, shards[-1].device
            )
        own["params"]["even"] = jax.make_array_from_single_device_arrays(
            even.shape, even.sharding, parts
        )
        try:
            holdfast.save(path, own, check_replicas=True)
        except errors.DataLossError as error:
            assert str(error).startswith("replicas differ: tensor params.even")
            assert f"rank {jax.process_count() - 1}" in str(error)
        else:
            raise AssertionError("nothing was raised")
        assert not Path(path).exists()


def absent(path: str) -> None:
    """Saves without the last process."""
    if jax.process_index() == jax.process_count() - 1:
        return
    tree = spread_tree(layouts()["line"])
    try:
        holdfast.save(path, tree, timeout_seconds=1.0)
    except errors.DeadlineExceededError as error:
        assert f"rank {jax.process_count() - 1} of" in str(error), error
        assert path in str(error)
    else:
        raise AssertionError("nothing was raised")
    assert not Path(path).exists()


def after_absent(path: str) -> None:
    """Saves after one process has left out a save: the next save fails on all
    processes, later saves succeed."""
    tree = spread_tree(layouts()["line"])
    try:
        holdfast.save(path, tree, timeout_seconds=20.0)
    except errors.HoldfastError as error:
        print(error)
    else:
        raise AssertionError("nothing was raised")
    assert not Path(path).exists()


def odd_tree(path: str) -> None:
    """Saves; one process has another tree."""
    tree = spread_tree(layouts()["line"])
    if jax.process_index() == 1:
        tree["more"] = 1
    try:
        holdfast.save(path, tree, timeout_seconds=30)
    except errors.HoldfastError as error:
        assert "rank 1" in str(error), error
    else:
        raise AssertionError("nothing was raised")
    assert not Path(path).exists()
