"""Stops and resumes a training loop that uses MaxText's emergency checkpoints.

run_clients.py runs these tests with Orbax and with holdfast, in a checkout of
MaxText. They import only the MaxText module that makes the manager, saves and
restores; stubs replace the MaxText modules that it imports (logging, a
directory).
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import pathlib
import shutil
import socket
import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl import flags
from etils import epath
from orbax.checkpoint._src.multihost import multihost

PROGRAM = pathlib.Path("src/maxtext/common/emergency_checkpointing.py")
P = jax.sharding.PartitionSpec


class Config:
    checkpoint_storage_target_data_file_size_bytes = 2 << 30
    enable_multi_tier_checkpointing = False


def made_directory(path: str) -> epath.Path:
    made = epath.Path(path)
    made.mkdir(parents=True, exist_ok=True)
    return made


def module(name: str, **members: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


@pytest.fixture(scope="module")
def program() -> types.ModuleType:
    module("maxtext")
    train_state_nnx = module("maxtext.common.train_state_nnx")
    module("maxtext.common", train_state_nnx=train_state_nnx)
    gcs_utils = module(
        "maxtext.utils.gcs_utils", mkdir_and_check_permissions=made_directory
    )
    names = module(
        "maxtext.utils.globals", DEFAULT_OCDBT_TARGET_DATA_FILE_SIZE=2 << 30
    )
    log = module("maxtext.utils.max_logging", log=print)
    module("maxtext.utils", gcs_utils=gcs_utils, globals=names, max_logging=log)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["maxtext"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    jax.distributed.initialize(f"127.0.0.1:{port}", 1, 0)
    multihost.initialize_runtime_to_distributed_ids()
    multihost.initialize_distributed_to_device_ids()
    made = module("maxtext_emergency")
    exec(compile(PROGRAM.read_text(), PROGRAM, "exec"), made.__dict__)
    return made


@pytest.fixture(scope="module")
def mesh() -> jax.sharding.Mesh:
    devices = np.array(jax.devices()).reshape(2, 4)
    return jax.sharding.Mesh(devices, ("data", "fsdp"))


def first_state(mesh: jax.sharding.Mesh) -> dict[str, Any]:
    def put(values: Any, *axes: str | None) -> jax.Array:
        sharding = jax.sharding.NamedSharding(mesh, P(*axes))
        return jax.device_put(values, sharding)

    random = np.random.default_rng(0)
    return {
        "w1": put(random.standard_normal((64, 32), np.float32), "fsdp"),
        "w2": put(random.standard_normal((32, 8), np.float32), None, "fsdp"),
        "step": put(np.int32(0)),
    }


def batch(step: int) -> Any:
    return np.random.default_rng(step).standard_normal((16, 64), np.float32)


@jax.jit
def trained(state: dict[str, Any], x: Any) -> dict[str, Any]:
    def loss(weights: dict[str, Any]) -> Any:
        return jnp.mean(jnp.tanh(x @ weights["w1"]) @ weights["w2"])

    weights = {name: state[name] for name in ("w1", "w2")}
    slopes = jax.grad(loss)(weights)
    after = jax.tree.map(lambda w, s: w - 0.1 * s, weights, slopes)
    return {**after, "step": state["step"] + 1}


def train(
    program: types.ModuleType, manager: Any, state: Any, count: int
) -> Any:
    shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
    for step in range(int(state["step"]), int(state["step"]) + count):
        state = jax.device_put(trained(state, batch(step)), shardings)
        program.save(manager, step, state, Config(), False)
    manager.wait_until_finished()
    return state


def abstract(state: Any) -> Any:
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=leaf.sharding
        ),
        state,
    )


def bits(state: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state)]


@pytest.mark.parametrize("is_replicator", [False, True])
def test_a_run_goes_on(
    program: types.ModuleType,
    mesh: jax.sharding.Mesh,
    tmp_path: pathlib.Path,
    is_replicator: bool,
) -> None:
    first = first_state(mesh)
    local, persistent = tmp_path / "local", tmp_path / "persistent"

    def manager() -> Any:
        local.mkdir(exist_ok=True)
        if is_replicator:
            return program.create_replicator_checkpoint_manager(
                str(local), 2, mesh
            )
        return program.create_emergency_checkpoint_manager(
            str(local), str(persistent), mesh, abstract(first), 2, 4
        )

    with manager() as steps:
        train(program, steps, first, 7)
    if not is_replicator:
        shutil.rmtree(local)
    with manager() as steps:
        newest = steps.latest_step()
        assert newest == (6 if is_replicator else 4)
        state = program.restore(steps, newest, abstract(first))
        assert int(state["step"]) == newest + 1
        for a, b in zip(
            jax.tree.leaves(state), jax.tree.leaves(first), strict=True
        ):
            assert a.sharding == b.sharding
        state = train(program, steps, state, 9 - newest)
    uninterrupted = first
    for step in range(10):
        uninterrupted = trained(uninterrupted, batch(step))
    assert bits(state) == bits(uninterrupted)
