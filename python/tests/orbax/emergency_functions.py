"""Functions that jax processes call in test_emergency.py (process_jobs.Job)."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

import holdfast.orbax as ocp
from holdfast.orbax.experimental.emergency import (
    checkpoint_manager as emergency,
)

P = jax.sharding.PartitionSpec
SPECS = {"rows": P("fsdp"), "both": P("fsdp", "tensor"), "whole": P()}


def mesh_of() -> Any:
    """Returns a mesh of two slices: processes 0 and 2, and processes 1 and
    3."""
    devices = np.array(jax.devices()).reshape(4, 2)[[0, 2, 1, 3]]
    devices = devices.reshape(2, 2, 2)
    return jax.sharding.Mesh(devices, ("data", "fsdp", "tensor"))


def values(name: str, step: int) -> Any:
    rng = np.random.default_rng(step * 100 + len(name))
    return rng.standard_normal((64, 32), np.float32)


def state(mesh: Any, step: int) -> dict[str, Any]:
    return {
        name: jax.make_array_from_callback(
            (64, 32),
            jax.sharding.NamedSharding(mesh, spec),
            lambda index, name=name: values(name, step)[index],
        )
        for name, spec in SPECS.items()
    }


def check(tree: dict[str, Any], step: int) -> None:
    assert tree.keys() == SPECS.keys()
    for name, array in tree.items():
        assert array.sharding.spec == SPECS[name]
        for shard in array.addressable_shards:
            wanted = values(name, step)[shard.index]
            assert np.asarray(shard.data).tobytes() == wanted.tobytes()


def manager(folder: str) -> Any:
    mesh = mesh_of()
    own = Path(folder) / f"host{jax.process_index()}"
    own.mkdir(parents=True, exist_ok=True)
    abstract = {
        name: jax.ShapeDtypeStruct(
            (64, 32),
            np.float32,
            sharding=jax.sharding.NamedSharding(mesh, spec),
        )
        for name, spec in SPECS.items()
    }
    return emergency.CheckpointManager(
        own,
        Path(folder) / "persistent",
        mesh,
        abstract,
        options=emergency.CheckpointManagerOptions(
            local=emergency.LocalCheckpointOptions(save_interval_steps=2),
            persistent=emergency.PersistentCheckpointOptions(
                save_interval_steps=4
            ),
        ),
    )


def save(folder: str) -> list[Any]:
    """Runs steps 0 to 6, and saves those that are due."""
    with manager(folder) as steps:
        saved = [
            steps.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave(state(mesh_of(), step))
                ),
            )
            for step in range(7)
        ]
        steps.wait_until_finished()
        return [saved, list(steps.all_steps()), steps.in_primary_slice]


def restore(folder: str, wanted: int) -> list[Any]:
    with manager(folder) as steps:
        known = list(steps.all_steps(read=True))
        check(steps.restore(None).state, wanted)
        tiers = steps._steps._tiers.restored
        return [known, tiers.source, tiers.rebuilt_ranks]


def stock_restores(folder: str, step: int) -> None:
    """Restores a step of the shared tier with Orbax's own manager."""
    theirs = importlib.import_module("orbax.checkpoint")
    mesh = mesh_of()
    abstract = {
        name: jax.ShapeDtypeStruct(
            (64, 32),
            np.float32,
            sharding=jax.sharding.NamedSharding(mesh, spec),
        )
        for name, spec in SPECS.items()
    }
    with theirs.CheckpointManager(Path(folder) / "persistent") as steps:
        found = steps.restore(step, args=theirs.args.StandardRestore(abstract))
    check(found, step)
