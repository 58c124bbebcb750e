#!/usr/bin/env python3
"""Other formats' tools read what `holdfast convert` writes, and the reverse.

usage: run_foreign.py HOLDFAST [--trees N] [--seed S] [--keep DIR]
                       [--megatron PYTHON]
  HOLDFAST   the command line tool
  --megatron a Python that has Megatron Core (0.15.3 or before) and torch

Random trees with arrays of all dtypes are saved, and converted to every format.
safetensors (its numpy and torch readers), numpy.load,
torch.distributed.checkpoint, Megatron's torch_dist loader and stock Orbax must
read the same bits, and `holdfast digest` must print the same for all formats.
After a conversion back, Orbax must restore what was saved. Then these tools
write, and `holdfast digest` and `convert` must read the same values. Tools that
are not installed are named and left out. Prints each difference with its seed;
exit status 1 on any.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import foreign_trees as trees  # noqa: E402
import orbax_tools  # noqa: E402

import holdfast  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_SAFETENSORS = importlib.util.find_spec("safetensors") is not None

# The dtypes that each tool has. Arrays of other dtypes must have the same bits.
SAFETENSORS_NUMPY = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "float16", "float32", "float64", "complex64"}
TORCH = set(trees.NATIVE) | {
    "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz"}
SAFETENSORS_TORCH = TORCH - {"complex128"}
# The numpy dtypes through which torch tensors are made, for dtypes that numpy
# does not have.
CARRIERS = {"bfloat16": "int16", "float8_e4m3fn": "uint8",
            "float8_e4m3fnuz": "uint8", "float8_e5m2": "uint8",
            "float8_e5m2fnuz": "uint8"}


class Difference(Exception):
    """A check has failed."""


def check(problem):
    if problem:
        raise Difference(problem)


def to_numpy(tensor):
    import torch
    name = str(tensor.dtype).removeprefix("torch.")
    tensor = tensor.detach().contiguous()
    if name in CARRIERS:
        carried = tensor.view(getattr(torch, CARRIERS[name])).numpy()
        return carried.view(trees.dtype_of(name))
    return tensor.numpy()


def to_torch(array):
    import torch
    array = array.copy(order="C")
    if array.dtype.name in CARRIERS:
        carried = torch.from_numpy(array.view(CARRIERS[array.dtype.name]))
        return carried.view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


class Holdfast:
    """The command line tool."""

    def __init__(self, path):
        self._path = path

    def run(self, *arguments):
        done = subprocess.run([self._path, *map(str, arguments)],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Difference(
                f"holdfast {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def convert(self, source, target, to, *options):
        self.run("convert", "--quiet", source, target, "--to", to, *options)

    def digests(self, path):
        """Returns {name: sha256}."""
        leaves = json.loads(self.run("digest", "--json", path))["leaves"]
        return {leaf["name"]: leaf["sha256"] for leaf in leaves}


def read_safetensors_numpy(path):
    from safetensors import safe_open
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in files_of(path, ".safetensors"):
            with safe_open(file, "np") as opened:
                for name in opened.keys():
                    found[name] = opened.get_tensor(name)
    return found


def read_safetensors_torch(path):
    from safetensors.torch import load_file
    found = {}
    for file in files_of(path, ".safetensors"):
        found.update(
            {name: to_numpy(t) for name, t in load_file(file).items()})
    return found


def files_of(path, suffix):
    return sorted(path.glob(f"*{suffix}")) if path.is_dir() else [path]


def read_npz(path):
    with np.load(path) as opened:
        return {name: opened[name] for name in opened.files}


def read_dcp(path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    reader = dcp.FileSystemReader(path)
    described = reader.read_metadata().state_dict_metadata
    import torch
    tree = {name: torch.zeros(each.size, dtype=each.properties.dtype)
            for name, each in described.items()
            if isinstance(each, TensorStorageMetadata)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(tree, storage_reader=reader, no_dist=True,
                 planner=dcp.DefaultLoadPlanner(flatten_state_dict=False,
                                                flatten_sharded_tensors=False))
    return {name: to_numpy(tensor) for name, tensor in tree.items()}


class Megatron:
    """Runs megatron_dist.py in the Python that has Megatron Core."""

    def __init__(self, python, folder):
        self._python = python
        self._file = folder / "megatron.pt"

    def run(self, *arguments):
        done = subprocess.run(
            [self._python,
             pathlib.Path(__file__).resolve().parent / "megatron_dist.py",
             *map(str, arguments)],
            capture_output=True, text=True, check=False,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
        if done.returncode != 0:
            raise Difference(f"Megatron: {done.stderr[-2000:]}")

    def read(self, path):
        import torch
        self.run("read", path, self._file)
        loaded = torch.load(self._file, weights_only=False)
        return {n: to_numpy(t) for n, t in loaded["tensors"].items()}

    def write(self, tensors, common, path):
        import torch
        torch.save({"tensors": tensors, "common": common}, self._file)
        path.mkdir()
        self.run("write", self._file, path)


def readers(to, folder, megatron):
    """Returns (name, read, the tool's dtypes) for each tool that reads a
    format."""
    found = []
    if to == "safetensors" and HAS_SAFETENSORS:
        found.append(("safetensors.numpy", read_safetensors_numpy,
                      SAFETENSORS_NUMPY))
        if HAS_TORCH:
            found.append(("safetensors.torch", read_safetensors_torch,
                          SAFETENSORS_TORCH))
    if to == "npz":
        found.append(("numpy.load", read_npz, set(trees.NATIVE)))
    if to in ("dcp", "torch-dist") and HAS_TORCH:
        found.append(("torch.distributed.checkpoint", read_dcp, TORCH))
    if to == "torch-dist" and megatron and HAS_TORCH:
        found.append(("Megatron", Megatron(megatron, folder).read, TORCH))
    return found


def numpy_reads(error):
    """Whether the error is not about a dtype: safetensors' numpy reader refuses
    dtypes that numpy does not have."""
    return not isinstance(error, (TypeError, AttributeError, KeyError))


TARGETS = [
    ("safetensors", "t.safetensors", []),
    ("safetensors", "shards", ["--data-file-bytes", "2000"]),
    ("npz", "t.npz", []),
    ("dcp", "dcp", []),
    ("torch-dist", "torch_dist", []),
    ("megatron-zarr", "megatron_zarr", []),
    ("orbax-v1", "v1", []),
]


def check_written(holdfast_tool, seed, folder, megatron):
    """Checks a tree that holdfast saves, in every format and back."""
    tree = trees.random_tree(seed)
    source = folder / "source"
    holdfast.save(source, tree)
    want = holdfast_tool.digests(source)
    arrays = trees.named_arrays(tree)
    restored = orbax_tools.restore_v0(source)
    for to, name, options in TARGETS:
        target = folder / name
        holdfast_tool.convert(source, target, to, *options)
        got = holdfast_tool.digests(target)
        if got != want:
            differing = sorted(set(want.items()) ^ set(got.items()))
            raise Difference(f"{to}: other digests: {differing[:4]}")
        check(trees.same_trees(tree, holdfast.load(target), "") and
              f"{to}: holdfast.load: "
              f"{trees.same_trees(tree, holdfast.load(target), '')}")
        for tool, read, dtypes in readers(to, folder, megatron):
            try:
                theirs = read(target)
            except Exception as error:
                if tool == "safetensors.numpy" and not numpy_reads(error):
                    continue
                raise Difference(f"{tool}: {error!r:.500}") from error
            check(trees.difference(arrays, theirs, dtypes, tool))
        back = folder / f"{name}-back"
        holdfast_tool.convert(target, back, "orbax")
        check(trees.same_trees(restored, orbax_tools.restore_v0(back),
                               f"{to} and back"))
        shutil.rmtree(back)


def flat_tree(seed, dtypes):
    rng = np.random.default_rng(seed)
    return {f"layer.{i}.{word}": trees.random_array(rng, dtypes)
            for i in range(3) for word in ("w", "b c")}


def check_read(holdfast_tool, path, want, what):
    """Checks the digests and values of what another tool has written, and what
    Orbax restores after a conversion."""
    digests = holdfast_tool.digests(path)
    for name, array in want.items():
        if name not in digests:
            raise Difference(f"{what}: no {name}; there is {list(digests)}")
    opened = holdfast.open(path)
    for name, array in want.items():
        got = opened[name][...]
        check(trees.same_trees(array, got, f"{what}: {name}"))
    back = path.parent / f"{path.name}-orbax"
    holdfast_tool.convert(path, back, "orbax")
    if holdfast_tool.digests(back) != digests:
        raise Difference(f"{what}: other digests after conversion")
    restored = trees.named_arrays(orbax_tools.restore_v0(back))
    check(trees.difference(want, restored,
                           {a.dtype.name for a in want.values()},
                           f"{what}, restored by Orbax"))
    shutil.rmtree(back)


def write_npz(folder, seed, holdfast_tool):
    arrays = flat_tree(seed, trees.NATIVE)
    arrays["fortran"] = np.asfortranarray(
        np.arange(12, dtype=np.int32).reshape(3, 4))
    arrays["big endian"] = np.arange(5, dtype=">i4")
    want = {**arrays, "big endian": arrays["big endian"].astype("<i4")}
    for save in (np.savez, np.savez_compressed):
        path = folder / f"{save.__name__}.npz"
        save(path, **arrays)
        check_read(holdfast_tool, path, want, save.__name__)


def write_safetensors(folder, seed, holdfast_tool):
    from safetensors.numpy import save_file
    arrays = flat_tree(seed, sorted(SAFETENSORS_NUMPY))
    path = folder / "numpy.safetensors"
    save_file(arrays, path, metadata={"made": "by safetensors"})
    check_read(holdfast_tool, path, arrays, "safetensors.numpy")
    shards = folder / "huggingface"
    shards.mkdir()
    weight_map = {}
    for i, (name, array) in enumerate(arrays.items()):
        file = f"model-{i + 1:05}-of-{len(arrays):05}.safetensors"
        save_file({name: array}, shards / file)
        weight_map[name] = file
    (shards / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map}))
    check_read(holdfast_tool, shards, arrays, "shards of safetensors")


def write_torch(folder, seed, holdfast_tool):
    import safetensors.torch
    import torch.distributed.checkpoint as dcp
    arrays = flat_tree(seed, sorted(SAFETENSORS_TORCH))
    tensors = {name: to_torch(array) for name, array in arrays.items()}
    path = folder / "torch.safetensors"
    safetensors.torch.save_file(tensors, path)
    check_read(holdfast_tool, path, arrays, "safetensors.torch")
    arrays = flat_tree(seed, sorted(TORCH))
    tensors = {name: to_torch(array) for name, array in arrays.items()}
    path = folder / "torch_dcp"
    nested = {"model": tensors, "step": 3, "groups": [{"lr": 0.5}],
              "object": (1, {2}), "view": to_torch(np.eye(4))[:, 1:3]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(nested, checkpoint_id=path, no_dist=True)
    want = {f"model.{name}": array for name, array in arrays.items()}
    check_read(holdfast_tool, path,
               {**want, "view": np.eye(4)[:, 1:3].copy()},
               "torch.distributed.checkpoint")
    loaded = holdfast.load(path)
    if loaded["step"] != 3 or loaded["groups"] != [{"lr": 0.5}]:
        raise Difference(f"dcp: other values: {loaded['step']!r}"
                         f" {loaded['groups']!r}")


def write_megatron(folder, seed, holdfast_tool, python):
    dtypes = ["float32", "bfloat16", "float16", "int64", "uint8", "bool"]
    arrays = {name: array
              for name, array in flat_tree(seed, dtypes).items() if array.ndim}
    path = folder / "megatron"
    Megatron(python, folder).write(
        {name: to_torch(array) for name, array in arrays.items()},
        {"iteration": 7, "args": {"lr": 0.5}}, path)
    check_read(holdfast_tool, path, arrays, "Megatron")


def check_seed(holdfast_tool, seed, folder, megatron):
    check_written(holdfast_tool, seed, folder, megatron)
    write_npz(folder, seed, holdfast_tool)
    if HAS_SAFETENSORS:
        write_safetensors(folder, seed, holdfast_tool)
        if HAS_TORCH:
            write_torch(folder, seed, holdfast_tool)
    if HAS_TORCH and megatron:
        write_megatron(folder, seed, holdfast_tool, megatron)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("holdfast", type=pathlib.Path)
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--megatron", default="")
    args = parser.parse_args()
    holdfast_tool = Holdfast(args.holdfast.resolve())
    left_out = [name for name, is_there in (
        ("safetensors", HAS_SAFETENSORS), ("torch", HAS_TORCH),
        ("Megatron", args.megatron)) if not is_there]
    failures = 0
    for seed in range(args.seed, args.seed + args.trees):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="foreign"))
        if args.keep:
            folder = args.keep / str(seed)
            folder.mkdir(parents=True)
        try:
            check_seed(holdfast_tool, seed, folder, args.megatron)
        except Exception as problem:  # whatever a tool raises
            failures += 1
            name = "" if isinstance(problem, Difference) else repr(problem)
            print(f"seed {seed}: {name or problem}")
        if not args.keep:
            shutil.rmtree(folder)
    without = f", without {', '.join(left_out)}" if left_out else ""
    print(f"{args.trees} trees in every format{without}: {failures} differ")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
