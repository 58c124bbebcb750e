#!/usr/bin/env python3
"""Random trees between holdfast and real Orbax and TensorStore, both ways.

usage: run_interop.py SAVE_TREES [--count N] [--seed S] [--keep DIR]

For each seeded tree: (a) Orbax v0 and v1 restore what holdfast saved exactly
as they restore what Orbax saved; (b) TensorStore opens each parameter and
reads the same bytes; (c) Orbax's metadata() agrees; (d) the files that both
write are equal byte for byte, and so are OCDBT keys and metadata values;
(e) holdfast loads what Orbax wrote, and what it wrote itself.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time

import orbax_tools as tools
import random_trees
import tree_lines
from orbax_files import OWN_MARKER_LINE

# Data files and indices of a database: their names are random.
DATABASE_FILES = ("d", "ocdbt.process_0")
DIGESTS = "_HOLDFAST_DIGESTS"
METADATA_FILES = (".zarray", "zarr.json", "_METADATA", "_sharding",
                  "_strings.json", "_CHECKPOINT_METADATA", "orbax.checkpoint",
                  "commit_success.txt", "manifest.ocdbt")


class Failure(Exception):
    """One check did not hold."""


class CaseTest:
    """The checks of one case; each raises Failure when it does not hold."""

    def __init__(self, case, driver, scratch):
        self.case, self.driver, self.scratch = case, driver, scratch
        self.ours = scratch / f"ours-{case.seed}"
        self.theirs = scratch / f"theirs-{case.seed}"

    def run(self):
        """Saves with both; the failed checks, as text."""
        case = self.case
        tools.save(case.tree, self.theirs, api=case.api, zarr=case.zarr,
                   ocdbt=case.ocdbt, compressed=case.compression != "none")
        self.driver.save(case.tree, self.ours, self.scratch, **case.options())
        problems = []
        for check in (self.check_restore, self.check_tensorstore,
                      self.check_metadata, self.check_files, self.check_load):
            try:
                check()
            except Failure as failure:
                problems.append(str(failure))
            except Exception as error:  # noqa: BLE001: Orbax raises anything
                problems.append(f"{check.__name__}: {type(error).__name__}: "
                                f"{error}")
        return problems

    def same(self, what, want, got):
        found = tools.difference(want, got)
        if found:
            raise Failure(f"{what}: {found}")

    def check_restore(self):
        for what, reader, of_item in (("v0 restore", tools.restore_v0, True),
                                      ("v1 load", tools.restore_v1, False)):
            paths = [tools.item_dir(path, self.case.api) if of_item else path
                     for path in (self.theirs, self.ours)]
            want, got = (tools.canonical(reader(path)) for path in paths)
            self.same(what, want, got)

    def check_tensorstore(self):
        directory = tools.item_dir(self.ours, self.case.api)
        futures = []
        for path, leaf in tools.flatten(self.case.tree):
            want = tools.canonical(leaf)
            if isinstance(want, tuple) and want[0] in ("array", "scalar"):
                name = ".".join(path)
                futures.append((name, want, tools.open_parameter(
                    directory, name, zarr=self.case.zarr,
                    ocdbt=self.case.ocdbt)))
        for name, want, future in futures:
            got = tools.canonical(future.result().read().result())
            if want[0] == "scalar":
                want = ("array", "numpy", want[1], (), want[2])
            self.same(f"TensorStore {name!r}", ("array", "numpy", *want[2:]),
                      got)

    def check_metadata(self):
        readers = [(tools.metadata_v0, True)]
        if self.case.api == "orbax-v1":
            readers.append((tools.metadata_v1, False))
        for reader, of_item in readers:
            want, got = (
                describe_metadata(reader(
                    tools.item_dir(path, self.case.api) if of_item else path))
                for path in (self.theirs, self.ours))
            self.same("metadata()", want, got)

    def check_files(self):
        """Bytes equal to Orbax's, for the layout that Orbax would choose."""
        case, ours = self.case, self.ours
        options = dict(case.options(), chunk=0)
        if case.compression in ("fast", "planes"):
            options["compression"] = "zstd"
        if options != case.options():
            ours = self.scratch / f"plain-{case.seed}"
            self.driver.save(case.tree, ours, self.scratch, **options)
        want, got = list_files(self.theirs), list_files(ours)
        missing, extra = sorted(want.keys() - got), sorted(got.keys() - want)
        if missing or extra:
            raise Failure(f"files: missing {missing}, extra {extra}")
        for name in sorted(want):
            self.check_file(name, want[name], got[name])
        if case.ocdbt:
            self.check_database(ours)

    def check_file(self, name, theirs, ours):
        base = name.rsplit("/", 1)[-1]
        want, got = theirs.read_bytes(), ours.read_bytes()
        if base == "manifest.ocdbt":
            return
        if base == "_CHECKPOINT_METADATA":
            want, got = blank_timestamps(want), blank_timestamps(got)
        if base == "commit_success.txt":
            root = ours.parent
            want = want.replace(str(theirs.parent).encode(),
                                str(root).encode())
            got = got.removesuffix(OWN_MARKER_LINE)
        if self.case.compression != "none" and is_chunk_file(name):
            return
        if want != got:
            raise Failure(f"{name}: {tools.summary(got)}, "
                          f"want {tools.summary(want)}")

    def check_database(self, ours):
        pair = [tools.item_dir(path, self.case.api)
                for path in (self.theirs, ours)]
        if not (pair[0] / "manifest.ocdbt").exists():
            return
        databases = [tools.open_database(path) for path in pair]
        keys = [database.list().result() for database in databases]
        self.same("OCDBT keys", keys[0], keys[1])
        for key in keys[0]:
            is_metadata = key.endswith((b".zarray", b"zarr.json"))
            if not is_metadata and self.case.compression != "none":
                continue
            want, got = (database.read(key).result().value
                         for database in databases)
            self.same(f"OCDBT value of {key!r}", want, got)

    def check_load(self):
        want = tools.canonical(tools.as_restored(self.case.tree))
        for what, path in (("Orbax's", self.theirs), ("its own", self.ours)):
            got = tools.canonical(self.driver.load(path, self.scratch))
            self.same(f"holdfast loads {what}", want, got)


def describe_metadata(tree):
    """Type, shape, dtype and sharding of each leaf of a metadata tree."""
    if isinstance(tree, dict):
        return {key: describe_metadata(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)) and tree:
        return [describe_metadata(value) for value in tree]
    return repr((type(tree).__name__, getattr(tree, "shape", None),
                 getattr(tree, "dtype", None),
                 getattr(tree, "sharding", None)))


def list_files(root):
    """Relative names of the files that both writers should write."""
    files = {}
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if (path.is_file() and path.name != DIGESTS and
                not any(part in DATABASE_FILES for part in parts[:-1])):
            files["/".join(parts)] = path
    return files


def is_chunk_file(name):
    """False for files whose bytes do not depend on a compressor."""
    base = name.rsplit("/", 1)[-1]
    return (base not in METADATA_FILES and
            "array_metadatas/" not in name)


def blank_timestamps(text):
    parsed = json.loads(text)
    for key in ("init_timestamp_nsecs", "commit_timestamp_nsecs"):
        if not isinstance(parsed.get(key), int):
            raise Failure(f"_CHECKPOINT_METADATA: {key} is "
                          f"{parsed.get(key)!r}")
        parsed[key] = 0
    return json.dumps(parsed).encode()


def run_cases(seeds, driver, scratch, keep):
    """Prints each failure; returns how many cases held."""
    good = 0
    for seed in seeds:
        case = random_trees.make_case(seed)
        try:
            problems = CaseTest(case, driver, scratch).run()
        except Exception as error:  # noqa: BLE001: the next case still runs
            problems = [f"{type(error).__name__}: {error}"]
        for problem in problems:
            print(f"FAILED {case}: {problem[:600]}", flush=True)
        good += not problems
        if not (problems and keep):
            for path in scratch.glob(f"*-{seed}"):
                shutil.rmtree(path)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("save_trees", help="the built driver")
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--keep", help="keep failed checkpoints here")
    args = parser.parse_args()
    start = time.monotonic()
    driver = tree_lines.Driver(args.save_trees)
    with tempfile.TemporaryDirectory(
            prefix="holdfast-interop-", dir=tools.scratch_root()) as scratch:
        root = pathlib.Path(args.keep or scratch).resolve()
        root.mkdir(parents=True, exist_ok=True)
        seeds = range(args.seed, args.seed + args.count)
        with tools.quiet_stderr():
            good = run_cases(seeds, driver, root, args.keep)
    driver.close()
    print(f"{good} of {args.count} trees in "
          f"{time.monotonic() - start:.0f} s")
    return 0 if good == args.count else 1


if __name__ == "__main__":
    sys.exit(main())
