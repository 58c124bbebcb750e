#!/usr/bin/env python3
"""Makes the same bad calls to real Orbax and to holdfast.orbax.

usage: run_python_errors.py [--only NAME,...] [--real]

Each call must end as in Orbax: with an exception of the same class or of a
subclass (or without one), with the destination written or not, and with the
same message if it is Orbax's own. In v1, whose messages are in the causes, the
causes' messages are compared as well. holdfast must leave nothing else behind.
Prints the table; exit status 1 on any difference. --real shows only Orbax's
results.
"""

# The platform and the devices must be chosen before jax is imported.
# ruff: noqa: E402, I001

import argparse
import builtins
import dataclasses
import os
import pathlib
import shutil
import sys
import tempfile

os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") +
                           " --xla_force_host_platform_device_count=8")

import orbax_tools as tools
import jax
import jax.numpy as jnp
import numpy as np

import bad_calls_pytree
import bad_calls_pytree_restore
import bad_calls_transforms
import bad_calls_v1
from bad_calls import ANY_ERROR, GOOD_TREE, standard_tree
from error_texts import text_differs

MODULES = (bad_calls_v1, bad_calls_pytree, bad_calls_pytree_restore,
           bad_calls_transforms)


class Package:
    """One implementation, and the directory that its calls may write to."""

    def __init__(self, ocp, root):
        self.ocp, self.v1 = ocp, ocp.v1
        self.root = root
        self.np, self.jnp, self.jax = np, jnp, jax

    def save_good(self):
        """Saves the good checkpoints that the calls read."""
        self.ocp.PyTreeCheckpointer().save(self.root / "v0", GOOD_TREE())
        with self.ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(self.root / "standard", standard_tree())
        self.v1.save(self.root / "v1", GOOD_TREE())

    def prepare(self, good):
        """Copies the good checkpoints, and prepares a place to write."""
        shutil.copytree(good, self.root, dirs_exist_ok=True)
        os.chdir(self.root)
        (self.root / "empty").mkdir()
        (self.root / "file").write_text("not a checkpoint")
        (self.root / "half.orbax-checkpoint-tmp").mkdir()
        self.dest = self.root / "dest"


@dataclasses.dataclass
class Outcome:
    """How a call ended."""

    error: Exception | None
    committed: bool  # the destination exists
    litter: list  # other files that the call has left
    root: pathlib.Path


def outcome(package, call):
    """Makes the call; returns its error and its effect on the disk."""
    error = None
    before = names_below(package.root)
    try:
        call(package)
    except Exception as raised:  # what is compared
        error = raised
    after = names_below(package.root)
    committed = package.dest.exists()
    litter = [name for name in after - before if not name.startswith("dest/")
              and name != "dest" and "orbax-checkpoint-tmp" in name]
    return Outcome(error, committed, sorted(litter), package.root)


def names_below(root):
    return {str(path.relative_to(root)) for path in root.rglob("*")}


class Runner:
    """Runs calls against one package, each in fresh directories."""

    def __init__(self, ocp, scratch, name):
        self.ocp = ocp
        self.good, self.root = scratch / f"{name}-good", scratch / name
        self.good.mkdir()
        Package(ocp, self.good).save_good()

    def run(self, call):
        # A thread of a failed asynchronous save may still make files.
        while self.root.exists():
            shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        package = Package(self.ocp, self.root)
        package.prepare(self.good)
        return outcome(package, call)


def public_base(error):
    """Returns the class of an exception, or its nearest base class that users
    can name."""
    if error is None:
        return None
    for kind in type(error).__mro__:
        if (getattr(builtins, kind.__name__, None) is kind or
                kind.__name__ in ORBAX_CLASSES):
            return kind.__name__
    return "Exception"


# Calls for which holdfast has another message on purpose.
OTHER_TEXT = (
    "save_relative_path",  # refused before there is a temporary directory
    "lost_jax_parameter_chunk",  # damage names the leaf and the file
    "restore_metadata_lost",  # the checksums show that the file existed
    "v1_save_relative",  # refused as a whole, not by its item
    "v1_load_items_structure",  # names the registry by its class
    # The message lists the known types: those of jax only once jax is used.
    "v1_load_opaque_leaf", "v1_load_opaque_type", "v1_load_complex_leaf",
)
# Calls that Orbax accepts and holdfast refuses on purpose.
STRICTER = (
    "save_collision_with_string",  # one of two leaves would be lost
    "save_metadata_list",  # documented as a dictionary
)
# Classes that Orbax exports or that users catch by name.
ORBAX_CLASSES = ("InvalidLayoutError", "UnregisteredTypeError", "NoEntryError")


def agrees(name, want, got):
    """Whether code that handles `want` also handles `got`."""
    if want is None or got is None:
        return want is got
    if name in ANY_ERROR:
        return True
    base = public_base(want)
    return any(kind.__name__ == base for kind in type(got).__mro__)


def comes_later(error):
    """Whether the error says that holdfast.orbax does not support the call
    yet."""
    return (isinstance(error, NotImplementedError) and
            str(error).endswith("is not part of this release yet"))


def text_of(error):
    if error is None:
        return "no error"
    return f"{type(error).__name__}: {error}".split("\n")[0][:150]


def problems_of(name, want, got):
    """Returns the problems with holdfast's outcome, as strings."""
    if comes_later(got.error) and want.committed == got.committed:
        return []
    if name in STRICTER and got.error is not None and not got.litter:
        return []
    found = []
    if not agrees(name, want.error, got.error):
        found.append(f"other error: {text_of(got.error)}")
    elif want.error is not None and name not in ANY_ERROR:
        differs = text_differs(want.error, got.error, want.root, got.root,
                               with_causes=name.startswith("v1_"))
        if differs and name not in OTHER_TEXT:
            found.append(differs.replace("\n", " "))
    if want.committed != got.committed:
        found.append("other state: " + (
            "written" if got.committed else "not written"))
    if got.litter:
        found.append(f"left behind: {got.litter}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="beginnings of names, comma-separated")
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args()
    if not args.real:
        import holdfast.orbax as ours
    only = tuple(args.only.split(",")) if args.only else ("",)
    calls = {name: call for name, call in all_calls().items()
             if name.startswith(only)}
    with tempfile.TemporaryDirectory(
            prefix="holdfast-errors-", dir=tools.scratch_root(),
            ignore_cleanup_errors=True) as scratch, tools.quiet_stderr():
        real = Runner(tools.ocp, pathlib.Path(scratch), "theirs")
        mine = None if args.real else Runner(ours, pathlib.Path(scratch),
                                             "ours")
        bad = sum(not check(name, call, real, mine)
                  for name, call in calls.items())
        os.chdir("/")
    print(f"{len(calls) - bad} of {len(calls)} bad calls end alike")
    return 1 if bad else 0


def check(name, call, real, mine):
    """Makes one call to both packages; prints and returns the result."""
    want = real.run(call)
    got = mine.run(call) if mine else want
    problems = problems_of(name, want, got) if mine else []
    state = "written" if want.committed else "-"
    later = " (later)" if comes_later(got.error) else ""
    print(f"{'BAD' if problems else 'ok '} {name:38} {state:8}"
          f"{text_of(want.error)}{later}", flush=True)
    for problem in problems:
        print(f"    holdfast: {problem[:600]}", flush=True)
    return not problems


def all_calls():
    return {name: call for module in MODULES
            for name, call in module.CALLS.items()}


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Threads that Orbax leaves after failed saves would block a normal exit.
    os._exit(status)
