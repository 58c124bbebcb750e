#!/usr/bin/env python3
"""Writes cases.json: which box of an array each device holds and saves.

    python3 make_cases.py [OUT] [--count N] [--seed S]

Made with jax 0.10.2 and orbax-checkpoint 0.12.8 on 16 CPU devices. Each case is
a mesh, a partition spec, a shape, and Orbax's options about replicas. JAX says
what each device holds (or refuses the case), and Orbax's get_replica_slices
says what each device writes.

`devices` has [device id, replica id, origin] in the mesh's order. `writes` has
[device id, origin]; all these boxes have the shape `write_shape`. `sharding` is
the string that Orbax stores for the sharding.
"""
import argparse
import json
import math
import os
import pathlib
import random

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType, Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec  # noqa: E402
from orbax.checkpoint._src.metadata import sharding as sharding_lib  # noqa: E402
from orbax.checkpoint._src.serialization import replica_slices  # noqa: E402

MESHES = [(1,), (2,), (4,), (8,), (3,), (6,), (16,), (2, 2), (4, 2), (2, 4),
          (1, 4), (3, 2), (2, 1, 2), (2, 2, 2), (4, 2, 2), (2, 3, 2)]
DTYPES = {1: "int8", 2: "int16", 4: "float32", 8: "complex64"}
AXIS_TYPES = [AxisType.Auto, AxisType.Explicit]


def draw_mesh(rng):
    shape = rng.choice(MESHES)
    devices = jax.devices()[:math.prod(shape)]
    if rng.random() < 0.4:
        devices = rng.sample(jax.devices(), math.prod(shape))
    # Explicit axes, which some meshes have, do not change what a device holds.
    types = tuple(rng.choice(AXIS_TYPES) if rng.random() < 0.1 else
                  AxisType.Auto for _ in shape)
    return Mesh(np.array(devices).reshape(shape),
                tuple("xyz"[:len(shape)]), axis_types=types)


def draw_spec(rng, mesh, rank):
    axes = list(mesh.axis_names)
    rng.shuffle(axes)
    entries = []
    for _ in range(rng.randint(0, rank)):
        taken = [axes.pop() for _ in range(rng.choice([0, 1, 1, 1, 2]))
                 if axes and rng.random() < 0.8]
        entries.append(None if not taken else
                       taken[0] if len(taken) == 1 else tuple(taken))
    if rng.random() < 0.03:
        entries.append("w")
    if rng.random() < 0.02:
        entries += ["x", "x"]
    return PartitionSpec(*entries)


def draw_shape(rng, mesh, spec, rank):
    shape = []
    for d in range(rank):
        entry = spec[d] if d < len(spec) else None
        axes = entry if isinstance(entry, tuple) else [entry]
        parts = math.prod(mesh.shape.get(axis, 1) for axis in axes if axis)
        shape.append(parts * rng.choice([0] + [1, 2, 3, 4, 6, 8, 12] * 5))
    if rng.random() < 0.1:  # not divisible by the axes that cut it
        shape = [extent + 1 for extent in shape]
    return tuple(shape)


def origin_of(index, shape):
    return [part.indices(extent)[0]
            for part, extent in zip(index, shape, strict=True)]


def results(sharding, shape, dtype, options):
    array = jax.make_array_from_callback(
        shape, sharding, lambda index: np.zeros(shape, dtype)[index])
    replicas = {shard.device.id: shard.replica_id
                for shard in array.addressable_shards}
    slices = replica_slices.get_replica_slices(
        array, 0, options["use_replica_parallel"], options["min_slice_bytes"],
        options["max_replicas"])
    writes = []
    for piece in slices.replica_slices:
        (device,) = piece.unsliced_data.devices()
        writes.append([device.id, origin_of(piece.index, shape)])
    return {
        "shard_shape": list(sharding.shard_shape(shape)),
        "devices": [[device.id, replicas[device.id], origin_of(index, shape)]
                    for device, index
                    in sharding.devices_indices_map(shape).items()],
        "write_shape": list(slices.local_shape),
        "writes": sorted(writes),
    }


def draw_case(rng):
    mesh = draw_mesh(rng)
    rank = rng.choice([0, 1, 1, 2, 2, 2, 3])
    spec = draw_spec(rng, mesh, rank)
    shape = draw_shape(rng, mesh, spec, rank)
    itemsize = rng.choice(list(DTYPES))
    case = {
        "mesh_shape": list(mesh.devices.shape),
        "axis_names": list(mesh.axis_names),
        "device_ids": [device.id for device in mesh.devices.flat],
        "spec": [[] if e is None else [e] if isinstance(e, str) else list(e)
                 for e in spec],
        "shape": list(shape),
        "element_bytes": itemsize,
        "use_replica_parallel": rng.random() < 0.93,
        "min_slice_bytes": rng.choice([None] * 5 + [0, 8, 16, 64]),
        "max_replicas": rng.choice([None] * 6 + [0, 1, 2, 2, 3, 4]),
    }
    try:
        sharding = NamedSharding(mesh, spec)
        sharding.devices_indices_map(shape)
    except Exception as error:  # JAX raises several classes
        # Leaves out the beginning, which depends on how JAX prints a mesh.
        text = str(error)
        at = text.find("implies that")
        return case | {"error": text[at:] if at >= 0 else ""}
    case["sharding"] = sharding_lib.from_jax_sharding(
        sharding).to_serialized_string()
    return case | results(sharding, shape, DTYPES[itemsize], case)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", default=str(
        pathlib.Path(__file__).with_name("cases.json")))
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    lines = [json.dumps(draw_case(rng)) for _ in range(args.count)]
    with open(args.out, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
