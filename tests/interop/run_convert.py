#!/usr/bin/env python3
"""Real Orbax restores what `holdfast convert` and `reshard` write.

usage: run_convert.py HOLDFAST TARBALL [--case PATTERN]

Checkpoints of TARBALL (tests/golden/corpus) are converted with options that
their names choose; the target, restored by Orbax, must be what Orbax restores
from the source. Then arrays are resharded, and the `_sharding`, array metadata
and chunk shapes must be those that Orbax itself recorded for that mesh. Exit
status 1 when something differs.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "golden" / "corpus"))
# The corpus's meshes have eight devices.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import orbax_tools  # noqa: E402
from check_convert import REFUSED, options_of  # noqa: E402
from corpus_runs import difference, sources, unpacked  # noqa: E402

import jax  # noqa: E402
import orbax.checkpoint as ocp  # noqa: E402


def restore(path):
    """Returns the tree that Orbax restores, with v1's function if v1 wrote the
    checkpoint."""
    if (path / "orbax.checkpoint").exists():
        return orbax_tools.restore_v1(path)
    return orbax_tools.restore_v0(path)

# TensorStore refuses directory names that start with a backslash and a dot.
UNREADABLE = {"keys_unicode_zarr3_ocdbt"}
# Checkpoints that were not saved with Orbax's default options for replicas.
OWN_REPLICAS = {"sharded_no_replica_parallel", "sharded_replica_limits"}


def without_keys(tree):
    """Returns the tree with each typed PRNG key as its data and the name of its
    kind."""
    def plain(leaf):
        if (isinstance(leaf, jax.Array) and
                jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)):
            return {"key": jax.random.key_data(leaf),
                    "impl": str(jax.random.key_impl(leaf))}
        return leaf
    return jax.tree.map(plain, tree, is_leaf=lambda leaf: leaf is None)


def restorable(path):
    """Returns the tree if the path is that of a single tree that Orbax can read
    here, else None."""
    if not ((path / "_METADATA").exists() or
            (path / "state" / "_METADATA").exists()):
        return None
    try:
        with orbax_tools.quiet_stderr():
            return restore(path)
    except Exception:  # noqa: BLE001: what Orbax cannot read proves nothing
        return None


def check_convert(holdfast, source, name, target):
    """Returns a problem, None, or "skipped"."""
    want = restorable(source)
    if want is None or name.split("/")[0] in {*REFUSED, *UNREADABLE}:
        return "skipped"
    options = options_of(name)
    done = subprocess.run(
        [holdfast, "convert", "--quiet", *options, source, target],
        capture_output=True, text=True, check=False)
    where = f"{name} {' '.join(options)}"
    if done.returncode != 0:
        return f"{where}: {done.stderr.strip()}"
    try:
        got = restore(target)
    except Exception as error:  # noqa: BLE001
        return f"{where}: Orbax: {str(error)[:400]}"
    problem = orbax_tools.difference(
        orbax_tools.canonical(without_keys(want)),
        orbax_tools.canonical(without_keys(got)))
    return f"{where}: {problem}" if problem else None


def leaves_as_listed(holdfast, path):
    done = subprocess.run([holdfast, "ls", "--json", path],
                          capture_output=True, text=True, check=True)
    leaves = json.loads(done.stdout)["leaves"]
    return {leaf["name"]: (leaf["chunk_shape"], leaf["chunk_count"])
            for leaf in leaves}


def mesh_of(path):
    """Returns the --mesh option for the mesh that all arrays of the checkpoint
    share, or None."""
    file = path / "_sharding"
    if not file.exists():
        return None
    meshes = set()
    for text in json.loads(file.read_text(encoding="utf-8")).values():
        sharding = json.loads(text)
        if sharding.get("sharding_type") != "NamedSharding":
            return None
        meshes.add(",".join(f"{axis}={extent}" for axis, extent in
                            zip(sharding["axis_names"], sharding["shape"])))
    return meshes.pop() if len(meshes) == 1 else None


def check_reshard(holdfast, source, name, scratch):
    """Reshards to another mesh and back; returns as `check_convert` does."""
    mesh = mesh_of(source)
    if mesh is None or name.split("/")[0] in OWN_REPLICAS:
        return "skipped"
    away, back = scratch / "away", scratch / "back"
    flat = ",".join(f"{axis.split('=')[0]}=1" for axis in mesh.split(","))
    for command in (["reshard", "--mesh", flat, source, away],
                    ["reshard", "--mesh", mesh, "--chunk-bytes", "0", away,
                     back]):
        done = subprocess.run([holdfast, *command, "--quiet"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"{name} {mesh}: {done.stderr.strip()}"
    want, got = (leaves_as_listed(holdfast, path) for path in (source, back))
    if want != got:
        return f"{name} {mesh}: {difference(want, got)}"
    want, got = (json.loads((path / "_sharding").read_text(encoding="utf-8"))
                 for path in (source, back))
    if want != got:
        return f"{name} {mesh}: _sharding: {difference(want, got)}"
    if (source / "array_metadatas").exists():
        want, got = (write_shapes(path) for path in (source, back))
        if want != got:
            return f"{name}: write shapes: {difference(want, got)}"
    return None


def write_shapes(path):
    return {entry["array_metadata"]["param_name"]:
            entry["array_metadata"]["write_shape"]
            for file in (path / "array_metadatas").iterdir()
            for entry in json.loads(
                file.read_text(encoding="utf-8"))["array_metadatas"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("holdfast", type=pathlib.Path)
    parser.add_argument("tarball", type=pathlib.Path)
    parser.add_argument("--case", default="*")
    args = parser.parse_args()
    holdfast = args.holdfast.resolve()
    counts = {"converted": 0, "resharded": 0}
    problems = []
    with tempfile.TemporaryDirectory(dir=orbax_tools.scratch_root()) as name:
        scratch = pathlib.Path(name)
        for number, (source, case) in enumerate(
                sources(unpacked(args.tarball, scratch), args.case)):
            target = scratch / "targets" / str(number)
            problem = check_convert(holdfast, source, case, target)
            counts["converted"] += problem is None
            if problem not in (None, "skipped"):
                problems.append(problem)
            if not fnmatch.fnmatch(case, "sharded_*"):
                continue
            below = scratch / "meshes" / str(number)
            problem = check_reshard(holdfast, source, case, below)
            counts["resharded"] += problem is None
            if problem not in (None, "skipped"):
                problems.append(problem)
    print("\n".join(problems))
    print(f"{counts['converted']} converted, {counts['resharded']} resharded, "
          f"{len(problems)} problems (Orbax {ocp.__version__}, "
          f"jax {jax.__version__})")
    sys.exit(1 if problems or not counts["converted"] else 0)


if __name__ == "__main__":
    main()
