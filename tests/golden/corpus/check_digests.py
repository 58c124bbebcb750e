#!/usr/bin/env python3
"""Compares `holdfast digest` with what Orbax says its checkpoints contain.

usage: check_digests.py HOLDFAST TARBALL [--case PATTERN] [--jobs N]

TARBALL unpacks to open/CASE/{ckpt,expected.json}; README.md describes it.
Compares every leaf of every item and prints a line for each mismatch. Exit
status 1 when there is one. Needs only Python's standard library.
"""

import argparse
import concurrent.futures
import fnmatch
import hashlib
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile

UNREADABLE = {"pytree_unreadable", "pytree_without_metadata", "empty_dir"}
EMPTY_KINDS = {"None": "none", "Dict": "empty_dict", "List": "empty_list",
               "Tuple": "empty_tuple", "NamedTuple": "none"}


class Checker:
    """Checks one case; `lines` are its mismatches."""

    def __init__(self, binary, case_dir, timeout_seconds=120):
        self.binary = binary
        self.case_dir = case_dir
        self.timeout_seconds = timeout_seconds
        self.expected = json.loads(
            (case_dir / "expected.json").read_text(encoding="utf-8"))
        self.lines = []
        self.leaf_count = 0
        self.equal_count = 0

    def fail(self, where, what):
        self.lines.append(f"{self.case_dir.name}: {where}: {what}")

    def run(self, *args):
        """Runs the command; returns (exit status, parsed JSON, stderr)."""
        done = subprocess.run(
            [self.binary, *args], capture_output=True, cwd=self.case_dir,
            timeout=self.timeout_seconds, check=False)
        try:
            parsed = json.loads(done.stdout) if done.stdout.strip() else None
        except ValueError as error:
            parsed = None
            self.fail(" ".join(args), f"output is not JSON: {error}")
        return done.returncode, parsed, done.stderr.decode("utf-8", "replace")

    def check(self):
        for item in self.expected["items"]:
            try:
                self.check_item(item)
            except subprocess.TimeoutExpired:
                self.fail(item["path"], "timed out")
        if self.expected["layout"] == "manager" and "steps" in self.expected:
            self.check_steps()
        return self

    def check_item(self, item):
        path = item["path"]
        if item["type"] in UNREADABLE:
            self.check_unreadable(item)
            return
        wanted = expected_leaves(item, self.case_dir)
        self.leaf_count += len(wanted)
        status, parsed, stderr = self.run("digest", "--json", path)
        if status != 0 or parsed is None:
            self.fail(path, f"digest: exit {status}: {stderr.strip()}")
            return
        if item["type"] == "json" and len(parsed["leaves"]) == 1:
            # A JSON item is a single value, without a parameter name.
            wanted[0]["name"] = parsed["leaves"][0]["name"]
        self.compare_leaves(path, wanted, parsed["leaves"])
        status, parsed, stderr = self.run("verify", "--json", path)
        if status != 0:
            self.fail(path, f"verify: exit {status}: {stderr.strip()} "
                            f"{json.dumps(parsed)[:400]}")

    def check_unreadable(self, item):
        status, _, stderr = self.run("digest", "--json", item["path"])
        if status == 0:
            self.fail(item["path"], f"{item['type']} was read without error")
        elif status < 0 or status > 3:
            self.fail(item["path"], f"digest: exit {status} (want 1..3)")
        elif not stderr.strip():
            self.fail(item["path"], "digest failed without a message")

    def compare_leaves(self, path, wanted, got):
        wanted_names = [leaf["name"] for leaf in wanted]
        got_names = [leaf["name"] for leaf in got]
        if wanted_names != got_names:
            missing = sorted(set(wanted_names) - set(got_names))
            extra = sorted(set(got_names) - set(wanted_names))
            what = (f"missing {missing[:8]}, extra {extra[:8]}"
                    if missing or extra else "another order")
            self.fail(path, f"leaves: {what}")
        by_name = {leaf["name"]: leaf for leaf in got}
        for leaf in wanted:
            if leaf["name"] not in by_name:
                continue
            problem = compare_leaf(leaf, by_name[leaf["name"]])
            if problem:
                self.fail(f"{path} {leaf['name']!r}", problem)
            else:
                self.equal_count += 1

    def check_steps(self):
        root = self.expected["root"]
        status, parsed, stderr = self.run("steps", "--json", root)
        if status != 0 or parsed is None:
            self.fail(root, f"steps: exit {status}: {stderr.strip()}")
            return
        rows = parsed["steps"] if isinstance(parsed, dict) else parsed
        committed = {row["name"]: row for row in rows if row["committed"]}
        wanted = {step["name"]: step for step in self.expected["steps"]}
        if set(committed) != set(wanted):
            self.fail(root, f"steps: got {sorted(committed)}, "
                            f"want {sorted(wanted)}")
        for name, step in wanted.items():
            if name in committed and committed[name]["step"] != step["step"]:
                self.fail(f"{root}/{name}", f"step {committed[name]['step']},"
                                            f" want {step['step']}")
        listed = {row["name"]: row for row in rows}
        for name in self.expected.get("temporary_dirs", []):
            if listed.get(name, {}).get("committed"):
                self.fail(root, f"temporary {name} is listed as committed")


def expected_leaves(item, case_dir):
    """Returns the rows that `digest` should print for `item`."""
    if item["type"] == "json":
        text = (case_dir / item["path"] / item["file"]).read_bytes()
        return [{"name": "", "kinds": {"json"},
                 "sha256": hashlib.sha256(text).hexdigest()}]
    return [expected_leaf(leaf) for leaf in item["leaves"]]


def expected_leaf(leaf):
    row = {"name": leaf["param"],
           "key": [part["key"] for part in leaf["path"]]}
    kind = leaf["leaf"]
    if kind in ("array", "prng_key"):
        row.update(kinds={"array"}, dtype=leaf["dtype"], shape=leaf["shape"],
                   sha256=leaf["sha256"])
    elif kind == "scalar":
        # A 0-d numpy array is stored exactly like a scalar.
        kinds = {"scalar"}
        if leaf["value_type"] != "scalar":
            kinds.add("array")
        row.update(kinds=kinds, dtype=leaf["dtype"], shape=leaf["shape"],
                   sha256=hashlib.sha256(
                       bytes.fromhex(leaf["bytes_hex"])).hexdigest(),
                   value=leaf["value"])
    elif kind == "string":
        row.update(kinds={"string"}, value=leaf["value"],
                   sha256=hashlib.sha256(
                       leaf["value"].encode("utf-8")).hexdigest())
    elif kind == "bytes":
        row.update(kinds={"bytes"}, sha256=hashlib.sha256(
            bytes.fromhex(leaf["value_hex"])).hexdigest())
    elif kind == "empty":
        row.update(kinds={EMPTY_KINDS[leaf["value_type"]]})
    elif kind == "placeholder":
        row.update(kinds={"placeholder"})
    else:
        raise ValueError(f"unknown leaf {kind!r}")
    return row


def compare_leaf(want, got):
    """Returns the difference between the two rows, or None."""
    if got["kind"] not in want["kinds"]:
        return f"kind {got['kind']!r}, want {sorted(want['kinds'])}"
    for field in ("key", "dtype", "shape", "sha256"):
        if field in want and got.get(field) != want[field]:
            return f"{field} {got.get(field)!r}, want {want[field]!r}"
    if "value" in want and "value" in got:
        if not same_value(want["value"], got["value"], want.get("dtype")):
            return f"value {got['value']!r}, want {want['value']!r}"
    return None


def same_value(want, got, dtype):
    """Whether two values are equal, within the precision of a float dtype."""
    if isinstance(want, list):
        return (isinstance(got, list) and len(got) == len(want) and
                all(same_value(w, g, dtype) for w, g in zip(want, got)))
    if isinstance(want, str) and dtype is not None:
        return str(want).lower() == str(got).lower()
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    if isinstance(want, (int, float)) and isinstance(got, (int, float)):
        if want == got:
            return True
        if dtype in ("float32", "complex64"):
            return struct.pack("<f", want) == struct.pack("<f", got)
        narrow = dtype in ("float16", "bfloat16") or "float8" in str(dtype)
        return narrow and math.isclose(want, got, rel_tol=2e-3)
    return want == got


def check_case(binary, case_dir):
    return Checker(binary, case_dir).check()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("holdfast", help="the command to test")
    parser.add_argument("tarball", help="open.tar.xz, or its unpacked folder")
    parser.add_argument("--case", default="*", help="only these cases (glob)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    binary = str(pathlib.Path(args.holdfast).resolve())
    with tempfile.TemporaryDirectory(prefix="holdfast-corpus-") as scratch:
        root = pathlib.Path(args.tarball)
        if root.is_file():
            with tarfile.open(root) as archive:
                archive.extractall(scratch)
            root = pathlib.Path(scratch)
        if (root / "open").is_dir():
            root = root / "open"
        cases = sorted(path.parent for path in root.glob("*/expected.json")
                       if fnmatch.fnmatch(path.parent.name, args.case))
        if not cases:
            parser.error(f"no case matches {args.case!r}")
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            checkers = list(pool.map(
                lambda case: check_case(binary, case), cases))
    return report(checkers)


def report(checkers):
    for checker in checkers:
        for line in checker.lines:
            print(f"MISMATCH {line}")
    equal = sum(checker.equal_count for checker in checkers)
    total = sum(checker.leaf_count for checker in checkers)
    good_cases = sum(not checker.lines for checker in checkers)
    print(f"{equal} of {total} leaves equal in {good_cases} of "
          f"{len(checkers)} cases")
    return 0 if equal == total and good_cases == len(checkers) else 1


if __name__ == "__main__":
    sys.exit(main())
