"""The same program with emergency checkpoints, for Orbax and for the drop-in.

usage: emergency_program.py PACKAGE FOLDER

PACKAGE is orbax.checkpoint or holdfast.orbax. Prints what it sees as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from absl import flags

PACKAGE, FOLDER = sys.argv[1], Path(sys.argv[2])
ocp = importlib.import_module(PACKAGE)
emergency = importlib.import_module(
    f"{PACKAGE}.experimental.emergency.checkpoint_manager"
)
mesh_consistency = importlib.import_module(
    f"{PACKAGE}.experimental.emergency.mesh_consistency"
)
P = jax.sharding.PartitionSpec
SEEN: dict[str, Any] = {}


def state(mesh: Any, step: int) -> dict[str, Any]:
    def put(values: Any, *axes: Any) -> Any:
        sharding = jax.sharding.NamedSharding(mesh, P(*axes))
        return jax.device_put(values, sharding)

    rng = np.random.default_rng(step)
    return {
        "rows": put(rng.standard_normal((8, 4), np.float32), "fsdp"),
        "both": put(rng.standard_normal((8, 4), np.float32), "fsdp", "tensor"),
        "layers": [put(np.arange(step + 3)), put(np.float32(step))],
        "half": put(rng.standard_normal(16).astype(jax.numpy.bfloat16)),
    }


def abstract(tree: Any) -> Any:
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding),
        tree,
    )


def described(tree: Any) -> Any:
    return jax.tree.map(
        lambda x: [
            str(x.dtype),
            str(x.sharding.spec),
            list(x.sharding.mesh.shape.items()),
            np.asarray(x).tobytes().hex(),
        ],
        tree,
    )


def kind(call: Any) -> list[str]:
    """Returns the built-in class of the error that a call raises, and the
    message."""
    try:
        call()
    except Exception as error:
        builtin = next(
            c for c in type(error).__mro__ if c.__module__ == "builtins"
        )
        text = str(error).replace(str(FOLDER), "FOLDER")
        return [builtin.__name__, text.partition("NameFormat=")[0]]
    return ["nothing", ""]


def manager(name: str, mesh: Any, tree: Any, make: bool = True) -> Any:
    local = FOLDER / name / "local"
    if make:
        local.mkdir(parents=True, exist_ok=True)
    return emergency.CheckpointManager(
        local,
        FOLDER / name / "persistent",
        mesh,
        abstract(tree),
        options=emergency.CheckpointManagerOptions(
            local=emergency.LocalCheckpointOptions(
                save_interval_steps=5, max_to_keep=2
            ),
            persistent=emergency.PersistentCheckpointOptions(
                save_interval_steps=5, max_to_keep=2
            ),
        ),
    )


def run(name: str, mesh: Any) -> None:
    seen: dict[str, Any] = {}
    tree = state(mesh, 0)
    with manager(name, mesh, tree) as steps:
        seen["first"] = [
            steps.latest_step(),
            list(steps.all_steps()),
            steps.in_primary_slice,
            steps.directory == FOLDER / name / "persistent",
            steps.global_mesh is mesh,
        ]
        seen["no step"] = kind(lambda: steps.restore(None))
        seen["saved"] = [
            steps.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave(state(mesh, step))
                ),
            )
            for step in range(0, 17)
        ]
        steps.wait_until_finished()
        seen["should"] = [steps.should_save(step) for step in (3, 19, 20)]
        seen["latest"] = steps.latest_step()
        seen["best_step"] = kind(steps.best_step)
        seen["delete"] = kind(lambda: steps.delete(5))
        seen["metrics"] = kind(lambda: steps.metrics(5))
        seen["metadata"] = kind(lambda: steps.metadata(5))
        seen["item_metadata"] = kind(lambda: steps.item_metadata(5))
        seen["dataset"] = kind(
            lambda: steps.save(
                20,
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave(tree),
                    dataset=ocp.args.JsonSave({"a": 1}),
                ),
            )
        )
    seen["kept"] = sorted(
        int(path.name)
        for path in (FOLDER / name / "persistent").iterdir()
        if path.name.isdigit()
    )
    # A second run, with other arrays in memory, restores the latest step.
    last = state(mesh, 15)
    with manager(name, mesh, last) as steps:
        seen["again"] = [steps.latest_step(), sorted(steps.all_steps())]
        restored = steps.restore(steps.latest_step())
        seen["items"] = sorted(restored.keys())
        seen["values"] = described(restored.state)
        seen["same"] = jax.tree.all(
            jax.tree.map(
                lambda a, b: bool((a == b).all()), restored.state, last
            )
        )
        seen["an old step"] = kind(lambda: steps.restore(3))
        seen["saved again"] = [
            steps.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave(state(mesh, step))
                ),
                force=step == 16,
            )
            for step in (10, 15, 16, 20)
        ]
        steps.wait_until_finished()
    SEEN[name] = seen


def main() -> None:
    flags.FLAGS(sys.argv[:1])
    devices = np.array(jax.devices())
    axes = ("data", "fsdp", "tensor")
    two = jax.sharding.Mesh(devices.reshape(2, 2, 2), axes)
    run("two slices", two)
    one = jax.sharding.Mesh(devices.reshape(1, 4, 2), axes)
    run("one slice", one)
    SEEN["no local directory"] = kind(
        lambda: manager("none", two, state(two, 0), make=False)
    )
    SEEN["options"] = [
        kind(
            lambda: emergency.LocalCheckpointOptions(
                max_to_keep=1, preservation_policy=object()
            )
        ),
        emergency.LocalCheckpointOptions().max_to_keep,
        emergency.PersistentCheckpointOptions().save_interval_steps,
        emergency.MultiprocessingOptions().coordination_timeout_secs,
    ]
    ids = [[d.id for d in devices]]
    backwards = [ids[0][::-1]]
    mesh = mesh_consistency.consistent_restore_mesh_from_metadata(
        two, backwards, ids, [d.id for d in two.devices.flat]
    )
    SEEN["mesh"] = [d.id for d in mesh.devices.flat]
    print("SEEN " + json.dumps(SEEN))


if __name__ == "__main__":
    main()
