"""Shared code of the runs of seeded cases, which holdfast and Orbax save."""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import traceback

import orbax_tools as tools
from orbax_files import OWN_MARKER_LINE

# Data files and index nodes of a database, whose names are random.
DATABASE_FILES = ("d", "ocdbt.process_0")
DIGESTS = "_HOLDFAST_DIGESTS"
METADATA_FILES = (".zarray", "zarr.json", "_METADATA", "_sharding",
                  "_strings.json", "_CHECKPOINT_METADATA", "orbax.checkpoint",
                  "commit_success.txt", "manifest.ocdbt")


class FileChecks:
    """Checks that both packages have written the same files.

    A derived class defines `same(what, want, got)`, which notes or raises what
    differs, and `fail(text)`. It may count `errors`.
    """

    errors = 0

    def check_same_files(self, theirs, ours, is_compressed):
        want, got = list_files(theirs), list_files(ours)
        missing, extra = sorted(want.keys() - got), sorted(got.keys() - want)
        if missing or extra:
            self.fail(f"files: missing {missing}, extra {extra}")
        for name in sorted(want.keys() & got.keys()):
            self._check_file(name, want[name], got[name], is_compressed)

    def _check_file(self, name, theirs, ours, is_compressed):
        base = name.rsplit("/", 1)[-1]
        want, got = theirs.read_bytes(), ours.read_bytes()
        if base == "manifest.ocdbt":
            return
        if base == "_CHECKPOINT_METADATA":
            want, got = (self._blank_timestamps(text) for text in (want, got))
        if base == "commit_success.txt":
            want = want.replace(bytes(theirs.parent), bytes(ours.parent))
            got = got.removesuffix(OWN_MARKER_LINE)
        if is_compressed and is_chunk_file(name):
            return
        self.same(name, want, got)

    def _blank_timestamps(self, text):
        parsed = json.loads(text)
        for key in ("init_timestamp_nsecs", "commit_timestamp_nsecs"):
            if not isinstance(parsed.get(key), int):
                self.fail(f"_CHECKPOINT_METADATA: {key} is "
                          f"{parsed.get(key)!r}")
            parsed[key] = 0
        return json.dumps(parsed).encode()

    def check_same_databases(self, theirs, ours, is_compressed):
        """Compares keys, and values that do not depend on a compressor."""
        if not (theirs / "manifest.ocdbt").exists():
            return
        databases = [tools.open_database(path) for path in (theirs, ours)]
        keys = [database.list().result() for database in databases]
        self.same("OCDBT keys", keys[0], keys[1])
        for key in keys[0]:
            is_metadata = key.endswith((b".zarray", b"zarr.json"))
            if is_metadata or not is_compressed:
                want, got = (database.read(key).result().value
                             for database in databases)
                self.same(f"OCDBT value of {key!r}", want, got)


def list_files(root):
    """Returns the files that both packages should write, by relative name."""
    files = {}
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if (path.is_file() and path.name != DIGESTS and
                not any(part in DATABASE_FILES for part in parts[:-1])):
            files["/".join(parts)] = path
    return files


def is_chunk_file(name):
    """Whether the file's bytes depend on a compressor."""
    base = name.rsplit("/", 1)[-1]
    return (base not in METADATA_FILES and
            "array_metadatas/" not in name)


def parser_of(about, counted, default):
    """Returns the parser of a run's options: the number of cases, the first
    seed, and where to keep failed checkpoints."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument(f"--{counted}", type=int, default=default, dest="count")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--keep", help="keep failed checkpoints here")
    parser.set_defaults(counted=counted)
    return parser


def run(args, make_case, make_test):
    """Runs all cases; prints each problem and the command that repeats it.

    Args:
        args: the arguments that `parser_of` parsed.
        make_case: a function that makes a case from a seed.
        make_test: a function that makes a test from a case and a folder. The
            test's `run()` returns the problems.

    Returns:
        The number of cases without problems, and the number of errors.
    """
    good = errors = 0
    with tempfile.TemporaryDirectory(
            prefix="holdfast-interop-", dir=tools.scratch_root(),
            ignore_cleanup_errors=True) as scratch, tools.quiet_stderr():
        root = pathlib.Path(args.keep or scratch).resolve()
        root.mkdir(parents=True, exist_ok=True)
        for seed in range(args.seed, args.seed + args.count):
            case = make_case(seed)
            test = make_test(case, root)
            problems = problems_of(test)
            for problem in problems:
                print(f"FAILED {case}: {problem[:700]}", flush=True)
            if problems:
                print(f"  again: {sys.executable} {' '.join(sys.argv)} "
                      f"--{args.counted} 1 --seed {seed}", flush=True)
            good += not problems
            errors += test.errors
            if not (problems and args.keep):
                for path in root.glob(f"*-{seed}"):
                    shutil.rmtree(path, ignore_errors=True)
    return good, errors


def problems_of(test):
    try:
        return test.run()
    except Exception as error:  # noqa: BLE001: the next case still runs
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__}: {error} ({where})"]
