#!/usr/bin/env python3
"""Checks that stock tools read views, as both formats, bit for bit.

usage: run_views.py [--models N] [--seed S]

Makes views of N random models (dtypes, shapes, shards, layers; in safetensors,
torch.save, npz and torch's distributed checkpoints), in both layouts and zarr
formats. A third of them use a random recipe that stacks, transposes and splits.

1. Stock Orbax (v0, v1) and TensorStore restore every leaf; zarr-python reads
   the arrays in the database whose element type it supports.
2. The view's directory is also a model, which safetensors (numpy, torch) reads.
3. The source's bytes and times are unchanged, and arrays that the view can
   refer to were not copied.
4. The same tools read saves and conversions with also="safetensors", as both
   formats, and views of the safetensors files of these.
"""

import argparse
import hashlib
import json
import pathlib
import random
import sys
import tempfile
import time

import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import v1 as ocp_v1
import safetensors.numpy
import tensorstore as ts
import zarr
from zarr.core.buffer import default_buffer_prototype

import holdfast

try:  # without torch there are no sources in its formats
    import safetensors.torch
    import torch
    import torch.distributed.checkpoint as dcp
except ImportError:
    torch = None

DTYPES = [np.dtype(name) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32",
    "float64")] + [np.dtype(ml_dtypes.bfloat16)]
ZARR_PYTHON_KNOWS = {dtype.name for dtype in DTYPES} - {"bfloat16"}
LAYERS = 3


def random_array(draw, shape, dtype):
    values = draw.normal(0, 20, shape)
    values = np.asarray(values)
    return np.asarray(values > 0 if dtype == np.bool_ else values, dtype)


def make_model(rng, seed):
    """Returns {dotted name: array}: an embedding, layers, odd shapes."""
    draw = np.random.default_rng(seed)
    dtype = rng.choice(DTYPES)
    width = rng.choice([4, 6, 8])
    model = {"model.embed": random_array(draw, (rng.randint(1, 40), width),
                                         dtype)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        model[prefix + "attn.weight"] = random_array(
            draw, (3 * width, width), dtype)
        model[prefix + "mlp.weight"] = random_array(
            draw, (2 * width, width), dtype)
        model[prefix + "norm"] = random_array(draw, (width,), dtype)
    for i in range(rng.randint(0, 4)):
        shape = tuple(rng.randint(1, 9) for _ in range(rng.randint(0, 4)))
        model[f"extra_{i}"] = random_array(draw, shape, rng.choice(DTYPES))
    if rng.random() < 0.3:
        model["large"] = random_array(draw, (rng.choice([768, 1009]), 4096),
                                      np.dtype("float32"))
    return model


RECIPE = {
    "recipe": 1,
    "rest": "keep",
    "sizes": {"two": 2},
    "rules": [
        {"from": "model.layers.{layer}.attn.weight",
         "to": "params.layers.{part}.kernel",
         "names": {"part": ["q", "k", "v"]},
         "axes": "(part o) i -> i layer o"},
        {"from": "model.layers.{layer}.mlp.weight", "to": "params.layers.mlp",
         "axes": "(two o) i -> layer two i o"},
        {"from": "model.layers.{layer}.norm", "to": "params.layers.norm",
         "axes": "e -> layer e"},
        {"from": "model.embed", "to": ["params.embed", "params.head"]},
    ],
}


def through_recipe(model):
    want = {name: array for name, array in model.items()
            if not name.startswith("model.")}
    attn = np.stack([model[f"model.layers.{i}.attn.weight"]
                     for i in range(LAYERS)])
    parts = attn.reshape(LAYERS, 3, -1, attn.shape[-1])
    for i, part in enumerate("qkv"):
        want[f"params.layers.{part}.kernel"] = parts[:, i].transpose(2, 0, 1)
    mlp = np.stack([model[f"model.layers.{i}.mlp.weight"]
                    for i in range(LAYERS)])
    want["params.layers.mlp"] = mlp.reshape(
        LAYERS, 2, -1, mlp.shape[-1]).transpose(0, 1, 3, 2)
    want["params.layers.norm"] = np.stack(
        [model[f"model.layers.{i}.norm"] for i in range(LAYERS)])
    want["params.embed"] = want["params.head"] = model["model.embed"]
    return want


def as_torch(array):
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(
            torch.bfloat16)
    return torch.from_numpy(array.copy())


def write_source(rng, model, folder):
    """Writes the model in a random format; returns (kind, path)."""
    kinds = ["safetensors", "shards", "shards", "npz"]
    kind = rng.choice(kinds + (["torch", "dcp"] if torch else []))
    if kind == "safetensors":
        path = folder / "model.safetensors"
        safetensors.numpy.save_file(model, path)
    elif kind == "shards":
        path = folder / "model"
        path.mkdir()
        names = sorted(model)
        rng.shuffle(names)
        count = rng.randint(2, 4)
        files = [f"model-{i + 1:05}-of-{count:05}.safetensors"
                 for i in range(count)]
        index = {name: files[i % count] for i, name in enumerate(names)}
        for file in files:
            safetensors.numpy.save_file(
                {n: model[n] for n in names if index[n] == file}, path / file)
        (path / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": index}))
        (path / "config.json").write_text('{"model_type": "none"}')
    elif kind == "torch":
        path = folder / "model.pt"
        torch.save({n: as_torch(a) for n, a in model.items()}, path)
    elif kind == "npz":
        path = folder / "model.npz"
        np.savez(path, **{n: a for n, a in model.items()
                          if a.dtype != ml_dtypes.bfloat16})
    else:
        path = folder / "dcp"
        dcp.save({n: as_torch(a) for n, a in model.items()},
                 storage_writer=dcp.FileSystemWriter(path))
    return kind, path


def state_of(path):
    files = [path] if path.is_file() else sorted(
        f for f in path.rglob("*") if f.is_file())
    return [(str(f), f.stat().st_mtime_ns,
             hashlib.sha256(f.read_bytes()).hexdigest()) for f in files]


def flat(tree, prefix=""):
    leaves = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            leaves |= flat(value, name + ".")
        else:
            leaves[name] = np.asarray(value)
    return leaves


def same(got, want, what):
    if sorted(got) != sorted(want):
        raise AssertionError(f"{what}: names {sorted(got)} != {sorted(want)}")
    for name, array in want.items():
        other = got[name]
        if (other.dtype != array.dtype or other.shape != array.shape
                or other.tobytes() != np.ascontiguousarray(array).tobytes()):
            raise AssertionError(f"{what}: {name} differs")


class DatabaseStore(zarr.storage.MemoryStore):
    """The keys and values of an OCDBT database, read by TensorStore."""

    def __init__(self, path):
        kv = ts.KvStore.open({"driver": "ocdbt",
                              "base": f"file://{path}/"}).result()
        buffer = default_buffer_prototype().buffer
        super().__init__({
            key.decode(): buffer.from_bytes(kv.read(key).result().value)
            for key in kv.list().result()}, read_only=True)


def check_readers(view, item, want, zarr_format):
    database = view / item if item else view
    kv = {"driver": "ocdbt", "base": f"file://{database}/"}
    store = DatabaseStore(database)
    for name, array in want.items():
        opened = ts.open({
            "driver": "zarr3" if zarr_format == 3 else "zarr",
            "kvstore": {**kv, "path": name + "/"}}).result()
        same({name: np.asarray(opened.read().result())}, {name: array},
             "TensorStore")
        if array.dtype.name in ZARR_PYTHON_KNOWS:
            same({name: np.asarray(
                zarr.open_array(store, path=name, mode="r")[...])},
                {name: array}, "zarr-python")
    if item:
        same(flat(ocp_v1.load_pytree(view)), want, "Orbax v1")
    else:
        same(flat(ocp.PyTreeCheckpointer().restore(view)), want, "Orbax v0")
        same(flat(ocp_v1.load_pytree(view, checkpointable_name=None)),
             want, "Orbax v1 of v0")


def check_model_face(view, item, path, model):
    folder = view / item if item else view
    files = ([path.name] if path.is_file()
             else sorted(f.name for f in path.glob("*.safetensors")))
    got, tensors = {}, {}
    for file in files:
        got |= safetensors.numpy.load_file(folder / file)
        if torch:
            tensors |= safetensors.torch.load_file(folder / file)
    same(got, model, "safetensors")
    for name, tensor in tensors.items():
        want = as_torch(model[name])
        bits = [t.reshape(-1).view(torch.uint8) for t in (tensor, want)]
        if tensor.dtype != want.dtype or not torch.equal(*bits):
            raise AssertionError(f"safetensors.torch: {name} differs")
    if path.is_dir() and not (folder / "config.json").is_file():
        raise AssertionError("config.json is missing in the view")


def check_also(rng, path, model, folder):
    """Checks a save or conversion whose files are in both formats."""
    both = folder / "both"
    item = rng.choice(["", "state"])
    zarr_format = rng.choice([2, 3])
    options = {"also": "safetensors", "zarr_format": zarr_format,
               "chunk_bytes": rng.choice([0, 3000, 8 << 20]),
               "format": "orbax-v1" if item else "orbax"}
    most = rng.choice([None, 5000])
    if rng.random() < 0.5:
        holdfast.save(both, model, data_file_bytes=most, **options)
    else:
        holdfast.convert(path, both, data_file_bytes=most, nest=False,
                         ocdbt=True, **options)
    check_readers(both, item, model, zarr_format)
    face = both / item if item else both
    got, tensors = {}, {}
    for file in sorted(face.glob("*.safetensors")):
        got |= safetensors.numpy.load_file(file)
        if torch:
            tensors |= safetensors.torch.load_file(file)
    same(got, model, "safetensors of both")
    for name, tensor in tensors.items():
        bits = [t.reshape(-1).view(torch.uint8)
                for t in (tensor, as_torch(model[name]))]
        if not torch.equal(*bits):
            raise AssertionError(f"safetensors.torch of both: {name} differs")
    same(flat(holdfast.load(both)), model, "holdfast of both")
    same(flat(holdfast.load(face / (
        "model.safetensors" if len(list(face.glob("*.safetensors"))) == 1
        else "model.safetensors.index.json"))), model, "holdfast of the model")
    if not holdfast.verify(both).ok:
        raise AssertionError("verify finds damage in both")
    holdfast.view(both, folder / "face", format="safetensors",
                  link=rng.choice(["symlink", "hard", "copy"]))
    got = {}
    for file in sorted((folder / "face").glob("*.safetensors")):
        got |= safetensors.numpy.load_file(file)
    same(got, model, "view as safetensors")
    same(flat(holdfast.load(folder / "face")), model, "holdfast of that")
    stored = sum(f.stat().st_size for f in both.rglob("*.safetensors"))
    rest = sum(f.stat().st_size for f in both.rglob("*") if f.is_file())
    if rest - stored > 40_000 + 60 * len(model) + stored // 4:
        raise AssertionError(f"{rest - stored} bytes beside the tensors")


def check_one(seed, folder):
    rng = random.Random(seed)
    model = make_model(rng, seed)
    kind, path = write_source(rng, model, folder)
    if kind == "npz":
        model = {n: a for n, a in model.items()
                 if a.dtype != ml_dtypes.bfloat16}
    has_layers = "model.embed" in model
    recipe = has_layers and rng.random() < 0.4
    want = through_recipe(model) if recipe else model
    zarr_format = rng.choice([2, 3]) if not recipe else 3
    item = rng.choice(["", "state"])
    options = {"zarr_format": zarr_format,
               "format": "orbax-v1" if item else "orbax",
               "link": rng.choice(["symlink", "hard", "copy"]),
               "checksums": rng.random() < 0.3}
    if recipe:
        (folder / "recipe.json").write_text(json.dumps(RECIPE))
        options["recipe"] = folder / "recipe.json"
    before = state_of(path)
    view = folder / "view"
    result = holdfast.view(path, view, copy=False, nest=False, **options)
    if state_of(path) != before:
        raise AssertionError("the source has changed")
    if result.copied or result.referred_leaf_count != len(want):
        raise AssertionError(f"copied: {result}")
    check_readers(view, item, want, zarr_format)
    if kind in ("safetensors", "shards"):
        check_model_face(view, item, path, model)
    same(flat(holdfast.load(view)), want, "holdfast")
    if not holdfast.verify(view).ok:
        raise AssertionError("verify finds damage")
    check_also(rng, path, model, folder)
    return kind + (" recipe" if recipe else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    begun, failed, kinds = time.monotonic(), 0, {}
    for seed in range(args.seed, args.seed + args.models):
        with tempfile.TemporaryDirectory() as folder:
            try:
                kind = check_one(seed, pathlib.Path(folder))
                kinds[kind] = kinds.get(kind, 0) + 1
            except Exception as error:  # noqa: BLE001
                failed += 1
                print(f"seed {seed}: {type(error).__name__}: {error}")
    print(f"{args.models - failed} of {args.models} models, "
          f"{time.monotonic() - begun:.0f} s: {dict(sorted(kinds.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
