"""Views, and saves with also="safetensors", with several processes.

`make` and `face_problems` run in one process, the other functions in every
process of a `process_jobs.Job`.
"""

import importlib
import json
import pathlib

import ml_dtypes
import numpy as np
import safetensors.numpy

READERS = ("orbax", "orbax-v1", "holdfast")
NAMES = ("view", "both")
LAYERS = 3
RECIPE = {"recipe": 1, "rules": [
    {"from": "embed", "to": "params.embed"},
    {"from": "layers.{layer}.up", "to": "params.up",
     "axes": "o i -> layer i o"},
    {"from": "norm", "to": "params.norm"},
]}
# Partition specs of the restored arrays on a mesh of 4 x 2.
SPECS = {"embed": ("x", "y"), "up": (None, "y", "x"), "norm": ("x",)}


def _model():
    rng = np.random.default_rng(7)
    model = {"embed": rng.standard_normal((64, 24), np.float32),
             "norm": rng.integers(-99, 99, 12).astype(np.int8)}
    for layer in range(LAYERS):
        model[f"layers.{layer}.up"] = rng.standard_normal(
            (32, 16)).astype(ml_dtypes.bfloat16)
    return model


def wanted():
    """Returns the tree that the recipe makes from the model."""
    model = _model()
    ups = [model[f"layers.{i}.up"].T for i in range(LAYERS)]
    return {"embed": model["embed"], "up": np.stack(ups), "norm": model["norm"]}


def make(root):
    import holdfast

    folder = pathlib.Path(root)
    (folder / "model").mkdir(parents=True)
    model = _model()
    index = {}
    for i, name in enumerate(sorted(model)):
        file = f"model-{i % 2 + 1:05}-of-00002.safetensors"
        index.setdefault(file, {})[name] = model[name]
    for file, tensors in index.items():
        safetensors.numpy.save_file(tensors, folder / "model" / file)
    (folder / "model/model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {}, "weight_map": {
            name: file for file, tensors in index.items()
            for name in tensors}}))
    recipe = folder / "recipe.json"
    recipe.write_text(json.dumps(RECIPE))
    holdfast.view(folder / "model", folder / "view", recipe=recipe,
                  copy=False)


def _shardings():
    import jax

    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    return {name: jax.sharding.NamedSharding(
        mesh, jax.sharding.PartitionSpec(*spec))
        for name, spec in SPECS.items()}


def save_both(root):
    """Saves this process's shards as both formats."""
    import holdfast
    import jax

    shardings = _shardings()
    tree = {name: jax.make_array_from_callback(
        value.shape, shardings[name], lambda index, value=value: value[index])
        for name, value in wanted().items()}
    holdfast.save(pathlib.Path(root) / "both", {"params": tree},
                  also="safetensors")


def face_problems(root):
    got = {}
    for file in sorted(pathlib.Path(root, "both").glob("*.safetensors")):
        got |= safetensors.numpy.load_file(file)
    return [f"safetensors of both: {name}" for name, value in wanted().items()
            if not np.array_equal(got.get(f"params.{name}"), value)]


def restore(root, name, reader):
    """Restores this process's shards; returns the problems as strings."""
    import jax

    shardings = _shardings()
    abstract = {"params": {
        key: jax.ShapeDtypeStruct(value.shape, value.dtype,
                                  sharding=shardings[key])
        for key, value in wanted().items()}}
    path = pathlib.Path(root) / name
    if reader == "holdfast":
        tree = importlib.import_module("holdfast").load(path, abstract)
    elif reader == "orbax":
        import orbax.checkpoint as ocp
        tree = ocp.PyTreeCheckpointer().restore(path, args=ocp.args.PyTreeRestore(
            restore_args=ocp.checkpoint_utils.construct_restore_args(abstract)))
    else:
        from orbax.checkpoint import v1
        tree = v1.load_pytree(path, abstract, checkpointable_name=None)
    problems = []
    for key, value in wanted().items():
        got = tree["params"][key]
        if not got.sharding.is_equivalent_to(shardings[key], got.ndim):
            problems.append(f"{key}: sharding {got.sharding}")
        problems += [f"{key} at {shard.index}"
                     for shard in got.addressable_shards
                     if not np.array_equal(shard.data, value[shard.index])]
    return problems
