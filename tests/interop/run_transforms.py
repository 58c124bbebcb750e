#!/usr/bin/env python3
"""Compares random restores with transforms in real Orbax and holdfast.orbax.

usage: run_transforms.py [--cases N] [--seed S] [--driver PLAN_TRANSFORMS]

Each request must end the same way in both: with equal trees, or with errors of
the same class and message. Real Orbax saves the checkpoints, in several
layouts. Some of them have an old msgpack file beside or instead of `_METADATA`,
some have neither. With --driver, the C++ planner must say which leaves each
request reads, and how. apply_transformations and the functions on trees in
memory are compared as well. Prints each difference with its seed and a line
with the counts; exit status 1 on any difference.
"""

# The platform and the devices must be chosen before jax is imported.
# ruff: noqa: E402, I001

import argparse
import collections
import json
import pathlib
import re
import shutil
import sys
import tempfile

import orbax_tools as tools
import jax
import numpy as np
from orbax.checkpoint import msgpack_utils
from orbax.checkpoint._src.metadata import pytree_metadata_options

import holdfast.orbax as holdfast_orbax
import holdfast.orbax.options
import plan_driver
import random_transforms as cases

REAL, OURS = tools.ocp, holdfast_orbax
CASES_A_CHECKPOINT = 12
LAYOUTS = ["new", "new", "rich", "values", "values only", "no tree"]
METADATA_OPTIONS = {
    REAL: pytree_metadata_options.PyTreeMetadataOptions,
    OURS: holdfast.orbax.options.PyTreeMetadataOptions}
Pair = collections.namedtuple("Pair", ["first", "second"])


def restore_args(ocp, args):
    kind, dtype = args
    dtype = dtype and jax.numpy.dtype(dtype)
    if kind == "jax":
        device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        return ocp.ArrayRestoreArgs(sharding=device, dtype=dtype)
    return ocp.RestoreArgs(
        restore_type=np.ndarray if kind == "numpy" else None, dtype=dtype)


def describe(key, tree, *args):
    """A multi_value_fn: returns a description of its arguments."""
    leaves = [("/".join(path), type(leaf).__name__,
               np.asarray(leaf).tolist() if hasattr(leaf, "dtype") else
               str(leaf)) for path, leaf in cases.flatten(tree)]
    return f"{key} {args} {leaves}"


def transform(ocp, rule):
    kind = (ocp.RestoreTransform if rule.is_restore else
            ocp.transform_utils.Transform)
    given = {}
    if rule.inputs is not None:
        given["multi_value_fn_input_args"] = {
            pattern: restore_args(ocp, args) for pattern, args in rule.inputs}
    return kind(original_key=rule.original_key, use_fallback=rule.use_fallback,
                value_fn=rule.value_fn and cases.VALUE_FNS[rule.value_fn],
                multi_value_fn=describe if rule.has_multi_value_fn else None,
                **given)


def args_tree(ocp, case):
    if case.restore_args is None:
        return None
    return cases.nest((path, restore_args(ocp, args))
                      for path, args in case.restore_args.items())


def make_handler(ocp, options):
    options = dict(options)
    if options.pop("rich"):
        options["pytree_metadata_options"] = METADATA_OPTIONS[ocp](
            support_rich_types=True)
    return ocp.PyTreeCheckpointHandler(**options)


def restore(ocp, case, path, options, legacy_fn=None):
    """Restores as the case requests. Some requests have both kinds of transform
    functions, which is refused."""
    handler = make_handler(ocp, options)
    transforms = {rule.pattern: transform(ocp, rule) for rule in case.rules}
    if legacy_fn is not None and case.seed % 5:
        transforms = None
    return handler.restore(path, args=ocp.args.PyTreeRestore(
        case.item, args_tree(ocp, case), transforms,
        case.default_to_original, legacy_fn))


def rotate_keys(item, structure, infos):
    """A legacy_transform_fn: gives each top-level key the next key's value."""
    if not isinstance(structure, dict):
        return structure, infos
    keys = sorted(structure)
    turned = dict(zip(keys, keys[1:] + keys[:1]))
    return ({key: structure[turned[key]] for key in keys},
            {key: infos[turned[key]] for key in keys})


def drop_a_key(item, structure, infos):
    """A legacy_transform_fn: leaves out the first top-level key."""
    if not isinstance(structure, dict) or len(structure) < 2:
        return structure, infos
    first = min(structure)
    return tuple({key: value for key, value in tree.items() if key != first}
                 for tree in (structure, infos))


def canonical(value):
    """Returns plain values that compare by content."""
    if isinstance(value, dict):
        return {key: canonical(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [canonical(child) for child in value])
    if isinstance(value, (np.ndarray, jax.Array, np.generic)):
        array = np.asarray(value)
        is_jax = isinstance(value, jax.Array)
        return ("jax" if is_jax else "numpy", array.dtype.name, array.shape,
                array.tobytes())
    return (type(value).__name__, str(value))


# Messages quote holdfast's own class names. TensorStore's messages are not
# compared.
OWN_NAMES = re.compile(r"holdfast\.orbax\.[\w.]*\.|orbax\.checkpoint\.[\w.]*\.|"
                       r" at 0x[0-9a-f]+")
STORAGE_ERROR = re.compile(r"(NOT_FOUND|FAILED_PRECONDITION|DATA_LOSS): ")
# If several files are missing, Orbax names the one that a thread found first.
MISSING_FILE = re.compile(r"(not found at path: |File not found: ).*")


def outcome(call):
    try:
        return canonical(call())
    except Exception as error:  # what is compared
        text = OWN_NAMES.sub("", str(error))
        text = MISSING_FILE.sub(r"\1", text)
        if STORAGE_ERROR.match(text):
            text = text.split(":")[0]
        if isinstance(error, re.error):
            return ("error", "re.error", text)
        return ("error", type(error).__name__, text)


class Checkpoint:
    """A random tree that real Orbax has saved in one of the layouts."""

    def __init__(self, seed, root):
        self.random = np.random.default_rng(seed)
        self.tree = {}
        while all(map(cases.is_empty, dict(cases.flatten(self.tree)).values())):
            self.tree = cases.tree(self.random)
        self.path = root / str(seed)
        self.layout = LAYOUTS[self.random.integers(len(LAYOUTS))]
        self.saved = {"use_ocdbt": bool(self.random.integers(2)),
                      "use_zarr3": bool(self.random.integers(2)),
                      "rich": self.layout == "rich"}
        handler = make_handler(REAL, self.saved)
        REAL.Checkpointer(handler).save(self.path, args=REAL.args.PyTreeSave(
            self.tree))
        if self.layout.startswith("values"):
            self.move_values()
        if self.layout in ("values only", "no tree"):
            (self.path / "_METADATA").unlink()

    def move_values(self):
        """Moves some numbers into a msgpack file, as old versions did."""
        file = self.path / "_METADATA"
        metadata = json.loads(file.read_text())
        entries = metadata["tree_metadata"]
        values = {}
        for path, leaf in cases.flatten(self.tree):
            entry = entries[str(path)]["value_metadata"]
            is_text = isinstance(leaf, str)
            if cases.is_empty(leaf):
                values[path] = leaf
            elif not is_text and self.random.random() < 0.5:
                entry["skip_deserialize"] = True
                values[path] = leaf
            else:
                values[path] = "PLACEHOLDER://" + ".".join(path)
        file.write_text(json.dumps(metadata))
        aggregate = REAL.tree.serialize_tree(
            rebuild(self.tree, values), keep_empty_nodes=True)
        (self.path / "checkpoint").write_bytes(
            msgpack_utils.msgpack_serialize(aggregate))

    def options(self):
        """Draws options for the handler, which mostly fit the checkpoint."""
        options = dict(self.saved)
        if self.random.random() < 0.1:
            name = str(self.random.permutation(list(options))[0])
            options[name] = not options[name]
        return options


def rebuild(tree, values, path=()):
    if isinstance(tree, dict) and tree:
        return {key: rebuild(child, values, (*path, key))
                for key, child in tree.items()}
    if isinstance(tree, (list, tuple)) and tree:
        return [rebuild(child, values, (*path, str(i)))
                for i, child in enumerate(tree)]
    return values[path]


def memory_call(ocp, case, stored, kind):
    """Calls a function on trees in memory."""
    utils, target = ocp.transform_utils, Pair(case.item, (case.item, None))
    rules = [rule for rule in case.rules if not rule.has_multi_value_fn or
             not rule.is_restore]
    transforms = {rule.pattern: transform(ocp, rule) for rule in rules}
    return [
        lambda: utils.apply_transformations(
            stored, transforms, case.item, case.default_to_original),
        lambda: utils.apply_transformations(
            Pair(stored, (stored, 3)), {"first": transforms}, target,
            case.default_to_original),
        lambda: utils.merge_trees(stored, case.item),
        lambda: utils.merge_trees(stored, case.item, target=case.item),
        lambda: utils.intersect_trees(stored, case.item),
        lambda: utils.intersect_trees(stored, case.item, target=case.item),
        lambda: ocp.tree.merge_trees(stored, case.item, overwrite=True),
        lambda: ocp.tree.merge_trees(stored, case.item),
        lambda: ocp.tree.tree_difference(stored, case.item),
        lambda: ocp.tree.tree_trim(case.item, stored),
        lambda: ocp.tree.tree_trim(case.item, stored, strict=False),
        lambda: ocp.tree.deserialize_tree(stored, target.first),
        lambda: ocp.tree.serialize_tree(target, keep_empty_nodes=True),
        lambda: ocp.tree.get_param_names(target),
        lambda: ocp.tree.to_flat_dict(target, sep="/"),
        lambda: ocp.tree.from_flat_dict(ocp.tree.to_flat_dict(
            case.item, keep_empty_nodes=True)),
    ][kind]


MEMORY_CALLS = 16


def compare(name, case, calls):
    """Whether both packages answer alike; prints the answers if not."""
    want, got = (outcome(call) for call in calls)
    if want == got:
        return True
    print(f"DIFFERENT {name} {case}\n  want {str(want)[:1500]}\n"
          f"  got  {str(got)[:1500]}\n")
    return False


def run_case(checkpoint, case, counts):
    """Runs a case; returns the number of differences."""
    options = checkpoint.options()
    name = f"restore {checkpoint.layout} {checkpoint.saved} {options}"
    bad = not compare(name, case, [
        lambda ocp=ocp: restore(ocp, case, checkpoint.path, options)
        for ocp in (REAL, OURS)])
    counts["restores"] += 1
    legacy_fn = [rotate_keys, drop_a_key, None, None][case.seed % 4]
    if legacy_fn is not None:
        counts["legacy"] += 1
        bad += not compare("legacy " + name, case, [
            lambda ocp=ocp: restore(ocp, case, checkpoint.path, options,
                                    legacy_fn) for ocp in (REAL, OURS)])
    kind = case.seed % MEMORY_CALLS
    counts["in memory"] += 1
    bad += not compare(f"call {kind}", case, [
        memory_call(ocp, case, checkpoint.tree, kind) for ocp in (REAL, OURS)])
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=360)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--driver", help="the C++ planner's program")
    args = parser.parse_args()
    planner = plan_driver.Planner(args.driver) if args.driver else None
    counts, bad = collections.Counter(), 0
    with tempfile.TemporaryDirectory(
            prefix="holdfast-transforms-", dir=tools.scratch_root(),
            ignore_cleanup_errors=True) as scratch, tools.quiet_stderr():
        root, checkpoint = pathlib.Path(scratch), None
        for seed in range(args.seed, args.seed + args.cases):
            if checkpoint is None or seed % CASES_A_CHECKPOINT == 0:
                if checkpoint is not None:
                    shutil.rmtree(checkpoint.path)
                checkpoint = Checkpoint(seed, root)
            case = cases.Generator(checkpoint.tree, seed).case()
            bad += run_case(checkpoint, case, counts)
            if planner is not None:
                counts["plans"] += 1
                bad += not planner.agrees(checkpoint.tree, case)
    print(", ".join(f"{count} {name}" for name, count in counts.items()) +
          f": {bad} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
