#!/usr/bin/env python3
"""Exchanges random trees between holdfast and real Orbax and TensorStore.

usage: run_interop.py SAVE_TREES [--count N] [--seed S] [--keep DIR]

For each seeded tree: (a) Orbax v0 and v1 restore what holdfast saved exactly
as they restore what Orbax saved; (b) TensorStore opens each parameter and
reads the same bytes; (c) Orbax's metadata() agrees; (d) the files that both
write are equal byte for byte, and so are OCDBT keys and metadata values;
(e) holdfast loads what Orbax wrote, and what it wrote itself.
"""

import sys
import time

import orbax_tools as tools
import random_trees
import seeded_runs
import tree_lines


class Failure(Exception):
    """A check has failed."""


class CaseTest(seeded_runs.FileChecks):
    """The checks of one case. A check that fails raises Failure."""

    def __init__(self, case, driver, scratch):
        self.case, self.driver, self.scratch = case, driver, scratch
        self.ours = scratch / f"ours-{case.seed}"
        self.theirs = scratch / f"theirs-{case.seed}"

    def run(self):
        """Saves with both packages; returns the failed checks as strings."""
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
            self.fail(f"{what}: {found}")

    def fail(self, text):
        raise Failure(text)

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
        """Checks that files are equal to Orbax's, in the layout that Orbax
        chooses."""
        case, ours = self.case, self.ours
        options = dict(case.options(), chunk=0)
        if case.compression in ("fast", "planes"):
            options["compression"] = "zstd"
        if options != case.options():
            ours = self.scratch / f"plain-{case.seed}"
            self.driver.save(case.tree, ours, self.scratch, **options)
        is_compressed = case.compression != "none"
        self.check_same_files(self.theirs, ours, is_compressed)
        if case.ocdbt:
            pair = [tools.item_dir(path, case.api)
                    for path in (self.theirs, ours)]
            self.check_same_databases(*pair, is_compressed)

    def check_load(self):
        want = tools.canonical(tools.as_restored(self.case.tree))
        for what, path in (("Orbax's", self.theirs), ("its own", self.ours)):
            got = tools.canonical(self.driver.load(path, self.scratch))
            self.same(f"holdfast loads {what}", want, got)


def describe_metadata(tree):
    """Returns type, shape, dtype and sharding of each leaf of a metadata
    tree."""
    if isinstance(tree, dict):
        return {key: describe_metadata(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)) and tree:
        return [describe_metadata(value) for value in tree]
    return repr((type(tree).__name__, getattr(tree, "shape", None),
                 getattr(tree, "dtype", None),
                 getattr(tree, "sharding", None)))


def main():
    parser = seeded_runs.parser_of(__doc__, "count", 240)
    parser.add_argument("save_trees", help="the built driver")
    args = parser.parse_args()
    start = time.monotonic()
    driver = tree_lines.Driver(args.save_trees)
    good, _ = seeded_runs.run(
        args, random_trees.make_case,
        lambda case, root: CaseTest(case, driver, root))
    driver.close()
    print(f"{good} of {args.count} trees in "
          f"{time.monotonic() - start:.0f} s")
    return 0 if good == args.count else 1


if __name__ == "__main__":
    sys.exit(main())
