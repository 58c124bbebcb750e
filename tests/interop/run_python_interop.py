#!/usr/bin/env python3
"""Exchanges random trees between holdfast.orbax and real Orbax.

usage: run_python_interop.py [--trees N] [--seed S] [--keep DIR]

Both packages save each seeded tree, with the same calls and options. Each must
restore the other's checkpoint as it restores its own, with and without a target
(other shardings, other kinds). metadata() must agree, and the files that both
write must be equal byte for byte, as must OCDBT keys and array metadata. Prints
each difference with its seed and a line with the counts; exit status 1 on any
difference.
"""

# The platform and the devices must be chosen before jax is imported.
# ruff: noqa: E402, I001

import os
import sys
import time

os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") +
                           " --xla_force_host_platform_device_count=8")

import orbax_tools as tools
import jax
import numpy as np

import holdfast.orbax as holdfast_orbax
import python_trees
import seeded_runs

REAL, OURS = tools.ocp, holdfast_orbax
CUSTOM_METADATA = {"é": [1, None, 2.5], "run": {"name": "x"}}
# Not a pytree, because its keys cannot be sorted: both packages store it as
# JSON.
DOCUMENT = {1: "x", "b": [None, True]}


def save(ocp, case, path):
    """Saves the case's tree with its interface and options."""
    if case.is_v1:
        context = ocp.v1.Context()
        saving = context.array.saving
        saving.use_ocdbt = case.use_ocdbt
        saving.use_zarr3 = case.use_zarr3
        saving.use_compression = case.use_compression
        saving.scoped_storage_options_creator = scoped_options(ocp, case)
        with context:
            if case.api == "v1":
                ocp.v1.save(path, case.tree, custom_metadata=CUSTOM_METADATA)
            else:
                ocp.v1.save_checkpointables(
                    path, {"state": case.tree, "document": DOCUMENT})
        return
    save_args = jax.tree_util.tree_map_with_path(
        lambda key, _: save_args_of(ocp, case.storage.get(key)), case.tree)
    if case.api == "standard":
        with ocp.StandardCheckpointer(use_ocdbt=case.use_ocdbt) as checkpointer:
            checkpointer.save(path, case.tree, save_args=save_args)
        return
    handler = ocp.PyTreeCheckpointHandler(
        use_ocdbt=case.use_ocdbt, use_zarr3=case.use_zarr3,
        use_compression=case.use_compression)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(
            case.tree, save_args=save_args))


def save_args_of(ocp, given):
    dtype, chunk, axes = given or (None, None, ())
    return ocp.SaveArgs(dtype=None if dtype is None else jax.numpy.dtype(dtype),
                        chunk_byte_size=chunk, shard_axes=axes)


def scoped_options(ocp, case):
    options = ocp.v1.options.ArrayOptions.Saving.StorageOptions

    def create(path, _):
        given = case.storage.get(tuple(path))
        if given is None:
            return None
        return options(dtype=given[0], chunk_byte_size=given[1],
                       shard_axes=given[2])

    return create


def restore(ocp, case, path, target=None):
    """Restores with the case's interface, with or without a target."""
    if case.api == "v1":
        return ocp.v1.load(path, target)
    if case.api == "items":
        return ocp.v1.load_checkpointables(
            path, {"state": target, "document": None})
    if case.api == "standard":
        with ocp.StandardCheckpointer() as checkpointer:
            return checkpointer.restore(path, target)
    args = {}
    if target is not None:
        args = {"item": target, "restore_args":
                ocp.checkpoint_utils.construct_restore_args(target)}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        return checkpointer.restore(path, args=ocp.args.PyTreeRestore(**args))


def metadata(ocp, case, path):
    """Returns the metadata tree with each leaf as a string."""
    if case.api == "v1":
        found = ocp.v1.metadata(path)
        tree = found.metadata
        assert found.custom_metadata == CUSTOM_METADATA
    elif case.api == "items":
        tree = ocp.v1.checkpointables_metadata(path).metadata["state"]
    else:
        checkpointer = (ocp.StandardCheckpointer() if case.api == "standard"
                        else ocp.PyTreeCheckpointer())
        with checkpointer:
            tree = checkpointer.metadata(path).item_metadata.tree
    return describe(tree)


def describe(node):
    if isinstance(node, dict):
        return {key: describe(value) for key, value in node.items()}
    if isinstance(node, (list, tuple)) and node:
        return [describe(value) for value in node]
    if not hasattr(node, "shape"):
        return repr(node) if not hasattr(node, "directory") else (
            type(node).__name__, node.name, str(node.directory))
    sharding = getattr(node, "sharding_metadata", node.sharding
                       if not hasattr(node, "storage_metadata") else None)
    storage = getattr(node, "storage_metadata", None) or getattr(
        node, "storage", None)
    return (type(node).__name__, getattr(node, "name", None), node.shape,
            str(node.dtype), sharding and sharding.to_serialized_string(),
            repr(storage), repr(getattr(storage, "zarr_metadata", None)))


def attempt(call, *args):
    """Makes a call; returns the canonical result, or the error."""
    try:
        return python_trees.canonical(call(*args))
    except Exception as error:  # compared as an outcome
        return error


def differs(want, got):
    """Returns the first difference between two outcomes, or None."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        wanted = type(want).__name__
        kinds = [kind.__name__ for kind in type(got).__mro__]
        if isinstance(want, Exception) and wanted in kinds:
            return None
        return f"{tools.summary(got)}, want {tools.summary(want)}"
    return tools.difference(want, got)


class CaseTest(seeded_runs.FileChecks):
    """The checks of one case; collects what differs."""

    def __init__(self, case, scratch):
        self.case = case
        self.ours = scratch / f"ours-{case.seed}" / "ckpt"
        self.theirs = scratch / f"theirs-{case.seed}" / "ckpt"
        self.problems = []

    def run(self):
        save(REAL, self.case, self.theirs)
        save(OURS, self.case, self.ours)
        self.check_restores()
        self.check_metadata()
        self.check_files()
        return self.problems

    def same(self, what, want, got):
        found = differs(want, got)
        if found:
            self.fail(f"{what}: {found}")

    def fail(self, text):
        self.problems.append(text)

    def check_restores(self):
        case = self.case
        for what, target in (("restore", None), ("target", case.target)):
            want = attempt(restore, REAL, case, self.theirs, target)
            self.errors += isinstance(want, Exception)
            for ocp, path, name in (
                    (OURS, self.theirs, "holdfast of Orbax's"),
                    (REAL, self.ours, "Orbax of holdfast's"),
                    (OURS, self.ours, "holdfast of its own")):
                got = attempt(restore, ocp, case, path, target)
                self.same(f"{what}: {name}", want, got)

    def check_metadata(self):
        want = attempt(metadata, REAL, self.case, self.theirs)
        if want == "None":
            # Orbax's v1 returns no metadata for trees with booleans.
            return
        for ocp, path, name in ((OURS, self.theirs, "holdfast of Orbax's"),
                                (REAL, self.ours, "Orbax of holdfast's")):
            got = attempt(metadata, ocp, self.case, path)
            want_here = relocated(want, self.theirs, path)
            self.same(f"metadata: {name}", want_here, got)

    def check_files(self):
        case, item = self.case, "state" if self.case.is_v1 else ""
        self.check_same_files(self.theirs, self.ours, case.use_compression)
        self.check_same_databases(self.theirs / item, self.ours / item,
                                  case.use_compression)


def relocated(value, old, new):
    """Returns canonical metadata with the path `old` replaced by `new`."""
    if isinstance(value, dict):
        return {key: relocated(item, old, new) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(relocated(item, old, new) for item in value)
    if isinstance(value, str):
        return value.replace(str(old), str(new))
    return value


def main():
    args = seeded_runs.parser_of(__doc__, "trees", 300).parse_args()
    start = time.monotonic()
    np.seterr(all="ignore")
    good, refused = seeded_runs.run(args, python_trees.make_case, CaseTest)
    print(f"{good} of {args.count} trees alike ({refused} restores that Orbax "
          f"refuses, refused alike) in {time.monotonic() - start:.0f} s")
    return 0 if good == args.count else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Threads that Orbax leaves after failed reads would block a normal exit.
    os._exit(status)
