#!/usr/bin/env python3
"""The same bad calls to real Orbax and to holdfast.orbax.

usage: test_python_errors.py [--only NAME,...] [--real]

Each call must end as Orbax's does: with an exception of the same class or of
a subclass (or with none), and with the destination written or not. Prints the
table; exit status 1 on any difference. --real shows Orbax's side alone.
"""

# The platform and the devices are chosen before jax is imported.
# ruff: noqa: E402, I001

import argparse
import builtins
import os
import pathlib
import sys
import tempfile

os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") +
                           " --xla_force_host_platform_device_count=8")

import orbax_tools as tools
import jax
import jax.numpy as jnp
import numpy as np

import bad_calls_v1
from bad_calls import ANY_ERROR, GOOD_TREE, standard_tree


class Package:
    """One implementation, and where its calls may write."""

    def __init__(self, ocp, root):
        self.ocp, self.v1 = ocp, ocp.v1
        self.root = root
        self.np, self.jnp, self.jax = np, jnp, jax

    def prepare(self):
        """Good checkpoints that the calls read, and a place to write."""
        self.ocp.PyTreeCheckpointer().save(self.root / "v0", GOOD_TREE())
        with self.ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(self.root / "standard", standard_tree())
        self.v1.save(self.root / "v1", GOOD_TREE())
        os.chdir(self.root)
        (self.root / "empty").mkdir()
        (self.root / "file").write_text("not a checkpoint")
        (self.root / "half.orbax-checkpoint-tmp").mkdir()
        self.dest = self.root / "dest"


def outcome(package, call):
    """(exception or None, whether the destination exists afterwards)."""
    try:
        call(package)
    except Exception as error:  # what is compared
        return error, package.dest.exists()
    return None, package.dest.exists()


def run(make_package, call):
    """Runs one call in fresh directories."""
    with tempfile.TemporaryDirectory(
            prefix="holdfast-errors-", dir=tools.scratch_root(),
            ignore_cleanup_errors=True) as scratch:
        package = make_package(pathlib.Path(scratch))
        package.prepare()
        return outcome(package, call)


def public_base(error):
    """The class of an exception, or its nearest base that users can name."""
    if error is None:
        return None
    for kind in type(error).__mro__:
        if (getattr(builtins, kind.__name__, None) is kind or
                kind.__name__ in ORBAX_CLASSES):
            return kind.__name__
    return "Exception"


# Classes that Orbax exports or that users catch by name.
ORBAX_CLASSES = ("InvalidLayoutError", "UnregisteredTypeError", "NoEntryError")


def agrees(name, want, got):
    """True when code that handles `want` also handles `got`."""
    if want is None or got is None:
        return want is got
    if name in ANY_ERROR:
        return True
    base = public_base(want)
    return any(kind.__name__ == base for kind in type(got).__mro__)


def comes_later(error):
    """True for what holdfast.orbax says it does not have yet."""
    return (isinstance(error, NotImplementedError) and
            str(error).endswith("is not part of this release yet"))


def text_of(error):
    if error is None:
        return "no error"
    return f"{type(error).__name__}: {error}".split("\n")[0][:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names, comma-separated")
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args()
    if not args.real:
        import holdfast.orbax as ours
    only = args.only.split(",") if args.only else None
    calls = {name: call for name, call in bad_calls_v1.CALLS.items()
             if not only or name in only}
    bad = 0
    for name, call in calls.items():
        with tools.quiet_stderr():
            want, committed = run(lambda root: Package(tools.ocp, root), call)
            got = want
            same_state = True
            if not args.real:
                got, ours_committed = run(lambda root: Package(ours, root),
                                          call)
                same_state = committed == ours_committed
        good = ((agrees(name, want, got) or comes_later(got)) and
                same_state)
        bad += not good
        state = "written" if committed else "-"
        print(f"{'ok ' if good else 'BAD'} {name:34} {state:8}"
              f"{text_of(want)}", flush=True)
        if not good or text_of(want).split(":")[0] != text_of(got).split(
                ":")[0]:
            print(f"    holdfast:{'' if same_state else ' (other state)':26}"
                  f" {text_of(got)}", flush=True)
    print(f"{len(calls) - bad} of {len(calls)} bad calls end alike")
    return 1 if bad else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Orbax's threads of failed saves would keep the interpreter from ending.
    os._exit(status)
