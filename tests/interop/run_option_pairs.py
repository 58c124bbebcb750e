#!/usr/bin/env python3
"""Compares holdfast.orbax and Orbax on random save options and restores.

usage: run_option_pairs.py [--pairs N] [--seed S] [--keep DIR]

For each seeded pair, both packages save the tree. Files (with OCDBT keys and
array metadata) and metadata() must be equal, or the errors must have the same
class. Then each package restores both checkpoints as the pair asks. Values,
types, dtypes, shardings and containers must be equal, or the errors must have
the same class, and the same message if it is Orbax's own. Prints each
difference with its seed and the command that repeats it; exit status 1 on any.
"""

# The platform and the devices must be chosen before jax is imported.
# ruff: noqa: E402, I001

import os
import sys
import time

import run_python_interop as interop
import numpy as np

import option_pairs
import orbax_tools as tools
import python_trees
import seeded_runs
from error_texts import text_differs

REAL, OURS = interop.REAL, interop.OURS


def attempt(call, *args):
    """Makes a call; returns (canonical result, None) or (None, error)."""
    try:
        return comparable(python_trees.canonical(call(*args))), None
    except Exception as error:  # compared as an outcome
        return None, error


def comparable(value):
    """Returns a canonical tree with a package's own objects as strings."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(comparable(item) for item in value)
    return repr(value) if "orbax" in type(value).__module__ else value


def difference(want, got, *paths):
    """Returns the first difference between two outcomes, or None.

    Args:
        want: Orbax's outcome, from `attempt`.
        got: holdfast's outcome.
        paths: file names that may differ in messages.
    """
    (value, error), (got_value, got_error) = want, got
    if error is None and got_error is None:
        return tools.difference(value, got_value)
    classes = [kind.__name__ for kind in type(got_error).__mro__]
    if error is None or type(error).__name__ not in classes:
        return (f"{described(got_error, got_value)}, want "
                f"{described(error, value)}")
    return text_differs(error, got_error, *paths, any_shape=True)


def described(error, value):
    return tools.summary(value if error is None else error)


class PairTest(interop.CaseTest):
    """The checks of one pair; collects what differs."""

    def run(self):
        pair, paths = self.case, (self.theirs, self.ours)
        want = attempt(option_pairs.save, REAL, pair, self.theirs)
        got = attempt(option_pairs.save, OURS, pair, self.ours)
        if want[1] or got[1]:
            self.errors += 1
            self.note("save", difference(want, got, *paths))
            self.note("destination", interop.differs(
                self.theirs.exists(), self.ours.exists()))
            return self.problems
        self.check_files()
        self.check_metadata()
        for path in paths:
            option_pairs.inflict(pair.wound, path)
        self.check_restores()
        return self.problems

    def note(self, what, found):
        if found:
            self.problems.append(f"{what}: {found}")

    def check_metadata(self):
        def described_metadata(ocp, path):
            found = option_pairs.metadata(ocp, self.case, path).item_metadata
            if found is None:
                return None
            return (interop.describe(found.tree), repr(found.custom_metadata),
                    found.use_zarr3, containers(found.tree))

        want = attempt(described_metadata, REAL, self.theirs)
        for ocp, path, name in ((OURS, self.theirs, "holdfast of Orbax's"),
                                (REAL, self.ours, "Orbax of holdfast's")):
            here = interop.relocated(want[0], self.theirs, path), want[1]
            got = attempt(described_metadata, ocp, path)
            self.note(f"metadata: {name}",
                      difference(here, got, self.theirs, self.ours))

    def check_restores(self):
        paths = (self.theirs, self.ours)
        want = attempt(self.case.ask, REAL, self.theirs)
        self.errors += want[1] is not None
        for ocp, path, name in (
                (OURS, self.theirs, "holdfast of Orbax's"),
                (REAL, self.ours, "Orbax of holdfast's"),
                (OURS, self.ours, "holdfast of its own")):
            got = attempt(self.case.ask, ocp, path)
            found = difference(want, got, *paths)
            # If several things are wrong, each package names the one that it
            # finds first.
            if self.case.wound and found and found.startswith("text "):
                continue
            self.note(f"restore: {name}", found)


def containers(tree):
    """Returns the tree with the name of each container's type."""
    if isinstance(tree, dict):
        return {key: containers(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [type(tree).__name__, [containers(value) for value in tree]]
    return None


def main():
    args = seeded_runs.parser_of(__doc__, "pairs", 300).parse_args()
    start = time.monotonic()
    np.seterr(all="ignore")
    good, refused = seeded_runs.run(args, option_pairs.make_pair, PairTest)
    print(f"{good} of {args.count} pairs alike ({refused} that Orbax refuses, "
          f"refused alike) in {time.monotonic() - start:.0f} s")
    return 0 if good == args.count else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Threads that Orbax leaves after failed reads would block a normal exit.
    os._exit(status)
