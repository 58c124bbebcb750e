"""Saves arrays that are sharded over one mesh and restores them on another.

usage: other_mesh.py PATH

Eight CPU devices simulate eight accelerators. Each device of the second mesh
reads only its own part.
"""

import os
import pathlib
import sys

os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") +
                           " --xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import holdfast.orbax as ocp


def mesh_of(*shape):
    return Mesh(np.array(jax.devices()).reshape(shape), ("data", "model"))


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    weights = jnp.arange(64 * 32, dtype=jnp.float32).reshape(64, 32)
    trained_on = NamedSharding(mesh_of(4, 2), P("data", "model"))
    ocp.PyTreeCheckpointer().save(
        path, {"w": jax.device_put(weights, trained_on)})

    served_on = NamedSharding(mesh_of(2, 4), P("model", None))
    target = {"w": jax.ShapeDtypeStruct(weights.shape, weights.dtype,
                                        sharding=served_on)}
    restored = ocp.PyTreeCheckpointer().restore(
        path, item=target,
        restore_args=ocp.checkpoint_utils.construct_restore_args(target))
    assert restored["w"].sharding == served_on
    np.testing.assert_array_equal(restored["w"], weights)
    for shard in restored["w"].addressable_shards[:2]:
        print(shard.device, shard.index)
    print("restored on another mesh")


if __name__ == "__main__":
    main()
