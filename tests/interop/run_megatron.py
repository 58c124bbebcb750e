#!/usr/bin/env python3
"""holdfast.megatron, Megatron Core and zarr-python read each other's files.

usage: run_megatron.py --peer-python PYTHON [--cases N] [--seed N]

PYTHON has the packages of requirements-megatron.txt. One side saves random
sharded state dicts (all dtypes, grids, prepended axes, flattened ranges,
replicas, objects) with some ranks, and the other loads them on other grids.
Every value must be that of the formula, and both sides must write the same
bytes. Exit status 1 when something differs.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import types
import warnings
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden" / "megatron"))
import replay  # noqa: E402

DTYPES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64"
    " complex64 complex128"
).split()
Entry = dict[str, Any]

# The peer runs this program, which reads each array with zarr-python and prints
# its sha256.
ZARR_PROGRAM = """
import hashlib, json, sys
import ml_dtypes, numpy as np, zarr
print(json.dumps({key: hashlib.sha256(np.ascontiguousarray(
    zarr.open(f"{sys.argv[1]}/{key}", "r")[...]).tobytes()).hexdigest()
    for key in json.loads(sys.argv[2])}))
"""


class Case:
    """A tree of global tensors, and two ways to cut it into shards."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tensors: dict[str, Any] = {}
        self.save_ranks = self.ranks()
        self.load_ranks = self.ranks()
        for index in range(self.rng.randint(3, 7)):
            self.add(f"layer {index}.(weight, {index})", index + 100 * seed)
        for rank, entries in enumerate(self.save_ranks):
            entries.append(self.object_of(rank, len(self.save_ranks)))
        count = len(self.save_ranks)
        for rank, entries in enumerate(self.load_ranks):
            if count == len(self.load_ranks):
                entries.append(self.object_of(rank, count))

    def ranks(self) -> list[list[Entry]]:
        return [[] for _ in range(self.rng.choice([1, 2, 4]))]

    def object_of(self, rank: int, count: int) -> Entry:
        return {
            "kind": "object",
            "path": ["objects", "rng"],
            "key": "rng_state",
            "global_shape": [1, count],
            "global_offset": [0, rank],
            "replica_id": 0,
            "data": {"rank": rank, "seeds": [1.5, None, {"$tuple": [rank]}]},
        }

    def add(self, key: str, seed: int) -> None:
        prepended = self.rng.choice([0, 0, 1, 2])
        shape = [
            self.rng.choice([1, 2, 4, 6, 8, 12])
            for _ in range(prepended + self.rng.randint(1, 3))
        ]
        self.tensors[key] = {
            "dtype": self.rng.choice(DTYPES),
            "global_shape": shape,
            "seed": seed,
        }
        is_flat = self.rng.random() < 0.3
        for ranks in (self.save_ranks, self.load_ranks):
            self.cut(key, prepended, is_flat, ranks)

    def cut(
        self,
        key: str,
        prepended: int,
        is_flat: bool,
        ranks: list[list[Entry]],
    ) -> None:
        """Cuts a tensor by a random grid, and spreads the shards over ranks."""
        shape = self.tensors[key]["global_shape"]
        grid = [
            n if axis < prepended else self.rng.choice(divisors(n))
            for axis, n in enumerate(shape)
        ]
        local = [n // g for n, g in zip(shape[prepended:], grid[prepended:])]
        for index in range(math.prod(grid)):
            place = unravel(index, grid)
            offset = [
                p * (1 if axis < prepended else local[axis - prepended])
                for axis, p in enumerate(place)
            ]
            entry = {
                "kind": "tensor",
                "path": ["model", f"{key} {index}"],
                "key": key,
                "dtype": self.tensors[key]["dtype"],
                "local_shape": local,
                "global_shape": shape,
                "global_offset": offset,
                "axis_fragmentations": grid,
                "replica_id": [0, 0, 0],
                "prepend_axis_num": prepended,
                "allow_shape_mismatch": self.rng.random() < 0.2,
                "flattened_range": None,
            }
            self.place(entry, is_flat, ranks, index)

    def place(
        self, entry: Entry, is_flat: bool, ranks: list[Any], index: int
    ) -> None:
        owner = (index + self.rng.randint(0, 1)) % len(ranks)
        if is_flat:
            count = math.prod(entry["local_shape"])
            ends = sorted(
                {0, count, *(self.rng.randint(0, count) for _ in range(2))}
            )
            for i, (begin, end) in enumerate(zip(ends, ends[1:])):
                part = {**entry, "flattened_range": [begin, end]}
                part["path"] = ["optimizer", f"{entry['path'][1]} {i}"]
                ranks[(owner + i) % len(ranks)].append(part)
            return
        ranks[owner].append(entry)
        if self.rng.random() < 0.3 and len(ranks) > 1:
            copy = {**entry, "replica_id": [0, 0, 1]}
            ranks[(owner + 1) % len(ranks)].append(copy)

    def expected(self) -> dict[str, Any]:
        return {
            "tensors": self.tensors,
            "save": {
                "world": len(self.save_ranks),
                "ranks": self.save_ranks,
                "strategy": "zarr",
                "common": {
                    "iteration": 100,
                    "args": {"$namespace": {"lr": 0.1, "betas": [0.9, 0.95]}},
                },
                "content_metadata": {"kind": "random"},
            },
        }

    def load_case(self) -> dict[str, Any]:
        return {
            "ranks": self.load_ranks,
            "world": len(self.load_ranks),
            "strategy": self.rng.choice(["default", "zarr"]),
            "strict": None,
            "validate_access_integrity": True,
        }

    def wanted(self, entries: list[Entry]) -> list[Any]:
        """Returns the results that a rank must get."""
        rows = []
        for entry in entries:
            row: dict[str, Any] = {"path": entry["path"]}
            if entry["kind"] == "object":
                row["value"] = entry["data"]
            else:
                whole = replay.global_data(self.tensors[entry["key"]])
                bits = replay.shard_data(entry, whole)
                row["dtype"] = entry["dtype"]
                row["shape"] = list(bits.shape)
                row["sha256"] = replay.sha256(bits.tobytes())
            rows.append(row)
        return rows


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def unravel(index: int, shape: list[int]) -> list[int]:
    place = []
    for n in reversed(shape):
        index, rest = divmod(index, n)
        place.append(rest)
    return place[::-1]


class Test:
    def __init__(self, peer_python: str) -> None:
        self.peer = types.SimpleNamespace(
            name="megatron.core.dist_checkpointing",
            arrays=types.SimpleNamespace(is_torch=True),
            python=peer_python,
        )
        self.ours = replay.Package("holdfast.megatron", replay.Arrays("torch"))
        self.differences = 0

    def same(self, what: str, want: Any, got: Any) -> None:
        if want != got:
            self.differences += 1
            print(f"DIFFERS {what}\n  want {want}\n  got  {got}")

    def run(self, seed: int, scratch: pathlib.Path) -> None:
        case = Case(seed)
        ours, theirs = scratch / f"ours{seed}", scratch / f"theirs{seed}"
        ours.mkdir()
        theirs.mkdir()
        expected = case.expected()
        self.ours.top.save_ranks(
            [
                replay.save_state(self.ours, expected, rank)
                for rank in range(expected["save"]["world"])
            ],
            ours,
            **replay.save_options(self.ours, expected),
        )
        work = {"expected": expected, "ckpt": str(theirs)}
        for got in self.peers(work, expected["save"]["world"]):
            self.same(f"{seed}: they save", {"status": "ok"}, got)
        self.same(f"{seed}: files", *map(contents, (theirs, ours)))
        self.loads(seed, case, ours, theirs)
        self.zarr(seed, case, ours)

    def peers(self, work: dict[str, Any], world: int) -> list[Any]:
        return replay.in_processes(self.peer, work, world)

    def loads(
        self, seed: int, case: Case, ours: pathlib.Path, theirs: pathlib.Path
    ) -> None:
        request = case.load_case()
        work = {"case": request, "ckpt": str(ours), "normal": []}
        by_them = self.peers(work, request["world"])
        results = self.ours.top.load_ranks(
            [self.ours.state(entries) for entries in request["ranks"]],
            theirs,
            lambda _: self.ours.load_strategy(request["strategy"]),
            return_exceptions=True,
        )
        for rank, result in enumerate(results):
            by_us = replay.outcome(request, rank, result, theirs, set())
            want = case.wanted(request["ranks"][rank])
            for who, got in (("they", by_them[rank]), ("we", by_us)):
                what = f"{seed}: {who} load, rank {rank}"
                self.same(what, want, got.get("results", got))
        for path in (ours, theirs):
            common = replay.encoded(
                self.ours.serialization.load_common_state_dict(str(path))
            )
            want = dict(case.expected()["save"]["common"])
            want["content_metadata"] = {"kind": "random"}
            self.same(f"{seed}: common state", want, common)

    def zarr(self, seed: int, case: Case, ckpt: pathlib.Path) -> None:
        keys = json.dumps(sorted(case.tensors))
        done = subprocess.run(
            [self.peer.python, "-c", ZARR_PROGRAM, str(ckpt), keys],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode != 0:
            self.same(f"{seed}: zarr-python", "reads it", done.stderr[-2000:])
            return
        want = {
            key: replay.sha256(replay.global_data(tensor).tobytes())
            for key, tensor in case.tensors.items()
        }
        self.same(f"{seed}: zarr-python", want, json.loads(done.stdout))


def contents(directory: pathlib.Path) -> dict[str, Any]:
    """Returns {file: bytes}; "torch" for torch's files, whose bytes may differ.
    Leaves out locks, which holdfast does not make."""
    return {
        name: "torch"
        if name.endswith(".pt")
        else (directory / name).read_bytes()
        for name in replay.files_of(directory)
        if ".sync/" not in name
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--cases", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.peer_python).exists():
        print(f"skipped: there is no {arguments.peer_python}")
        return 0
    test = Test(arguments.peer_python)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(arguments.seed, arguments.seed + arguments.cases):
            test.run(seed, pathlib.Path(scratch))
    print(f"{arguments.cases} cases, {test.differences} differences")
    return 1 if test.differences else 0


if __name__ == "__main__":
    sys.exit(main())
