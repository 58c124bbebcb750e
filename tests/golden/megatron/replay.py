#!/usr/bin/env python3
"""Replays a corpus of Megatron Core checkpoints through a Python package.

    replay.py [--corpus DIR|open.tar.xz] [--package holdfast.megatron]
              [--arrays torch|numpy] [--ranks threads|processes] [--only TEXT]

Every load case must give the recorded digests, objects, keys or error (class,
part of the message, code). Every unit case must give the recorded value or
error. Every recorded save must write the same files, byte for byte. The package
has the layout of megatron.core.dist_checkpointing. The corpus needs no other
description: its entries are the constructors' arguments, and its data follow
from a formula (below).

`--ranks threads` needs `save_ranks` and `load_ranks` in the package. `--ranks
processes` uses torch.distributed (gloo).
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import logging
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from corpus_values import (  # noqa: E402
    Arrays,
    bits_of,
    decoded,
    describe,
    encoded,
    global_data,
    is_tensor,
    normal_nans,
    same_without_torch,
    sha256,
    shard_data,
    torch,
)

# ---- state dicts


class Package:
    """The modules of a package that has the layout of Megatron Core."""

    def __init__(self, name: str, arrays: Arrays) -> None:
        def module(path: str) -> Any:
            return importlib.import_module(f"{name}{path}")

        self.name = name
        self.python = sys.executable
        if name.startswith("megatron.core"):
            sys.path.insert(0, str(HERE.parents[1] / "interop"))
            importlib.import_module("megatron_core")
        self.top = module("")
        self.mapping = module(".mapping")
        self.serialization = module(".serialization")
        self.validation = module(".validation")
        self.exchange = module(".exchange_utils")
        self.zarr = module(".strategies.zarr")
        self.base = module(".strategies.base")
        self.parallel = module(".strategies.fully_parallel")
        self.two_stage = module(".strategies.two_stage")
        self.arrays = arrays

    def tensor(self, entry: dict[str, Any], data: Any) -> Any:
        flat = entry["flattened_range"]
        replica = entry["replica_id"]
        return self.mapping.ShardedTensor(
            entry["key"],
            data,
            self.arrays.dtype(entry["dtype"]),
            tuple(entry["local_shape"]),
            tuple(entry["global_shape"]),
            tuple(entry["global_offset"]),
            tuple(entry["axis_fragmentations"]),
            tuple(replica) if isinstance(replica, list) else replica,
            entry["prepend_axis_num"],
            entry["allow_shape_mismatch"],
            None if flat is None else slice(*flat),
        )

    def data_of(self, entry: dict[str, Any], tables: Any) -> Any:
        if tables is not None:
            bits = shard_data(entry, tables[entry["key"]])
            return self.arrays.make(bits, entry["dtype"])
        flat = entry["flattened_range"]
        shape = entry["local_shape"] if flat is None else [flat[1] - flat[0]]
        return self.arrays.empty_of(shape, entry["dtype"])

    def leaf(self, entry: dict[str, Any], tables: Any) -> Any:
        kind = entry["kind"]
        if kind == "tensor":
            return self.tensor(entry, self.data_of(entry, tables))
        if kind == "object":
            replica = entry["replica_id"]
            return self.mapping.ShardedObject(
                entry["key"],
                decoded(entry.get("data"), self.arrays),
                tuple(entry["global_shape"]),
                tuple(entry["global_offset"]),
                tuple(replica) if isinstance(replica, list) else replica,
            )
        if kind == "nonpersistent":
            return self.mapping.LocalNonpersistentObject(
                decoded(entry["value"], self.arrays)
            )
        return self.factory(entry, tables)

    def factory(self, entry: dict[str, Any], tables: Any) -> Any:
        parts = [self.leaf(part, tables) for part in entry["parts"]]
        axis = entry["axis"]

        def build(*_: Any) -> Any:
            return {f"part{i}": part for i, part in enumerate(parts)}

        def merge(loaded: Any) -> Any:
            values = [loaded[f"part{i}"] for i in range(len(parts))]
            if self.arrays.is_torch:
                return torch.cat(values, axis)
            return np.concatenate(values, axis)

        return self.mapping.ShardedTensorFactory(
            entry.get("key", parts[0].key),
            self.arrays.empty_of([1], "float32"),
            build,
            merge,
        )

    def state(self, entries: list[Any], tables: Any = None) -> dict[str, Any]:
        root: dict[str, Any] = {}
        for entry in entries:
            place = root
            for step in entry["path"][:-1]:
                place = place.setdefault(step, {})
            place[entry["path"][-1]] = self.leaf(entry, tables)
        return root

    def load_strategy(self, name: str) -> Any:
        if name == "zarr":
            return self.zarr.ZarrLoadShardedStrategy()
        if name == "two_stage":
            return self.two_stage.TwoStageDataParallelLoadShardedStrategy(
                world_group()
            )
        if name == "fully_parallel":
            return self.parallel.FullyParallelLoadStrategyWrapper(
                self.base.get_default_strategy(
                    self.base.StrategyAction.LOAD_SHARDED, "zarr", 1
                )
            )
        return None

    def save_strategy(self, name: Any) -> Any:
        if isinstance(name, list):
            return tuple(name)
        if name == "fully_parallel":
            return self.parallel.FullyParallelSaveStrategyWrapper(
                self.zarr.ZarrSaveShardedStrategy("zarr", 1)
            )
        return ("zarr", 1)


def world_group() -> Any:
    """Returns the group of all processes, or None if there is only one."""
    if torch is not None and torch.distributed.is_initialized():
        return torch.distributed.group.WORLD
    return None


# ---- errors and warnings


def error_of(error: BaseException, ckpt: Path) -> dict[str, Any]:
    return {
        "status": "error",
        "class": type(error).__name__,
        "message": str(error).replace(str(ckpt), "{CKPT}"),
        "code": getattr(error, "code", None),
    }


def error_differs(want: dict[str, Any], got: Any, checks_code: bool) -> str:
    """Returns how the error differs from the recorded one, or ""."""
    if not isinstance(got, dict) or got.get("status") != "error":
        return f"no error: {str(got)[:300]}"
    # "CheckpointException(CheckpointingException)" is torch's exception around
    # Megatron's.
    names = want["class"].replace(")", "").split("(")
    if got["class"] not in names:
        return f"class {got['class']}: {got['message']}"
    if want.get("contains") and want["contains"] not in got["message"]:
        return f"message {got['message']}"
    if checks_code and got["code"] not in (want["code"], None):
        return f"code {got['code']}"
    if (
        checks_code
        and got["code"] is None
        and want["class"]
        not in (
            "JSONDecodeError",
            "TypeError",
        )
    ):
        return f"no code: {got['message']}"
    return ""


class Warnings(logging.Handler):
    """Collects the messages that are logged as warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


# ---- the replay


class Replay:
    def __init__(self, package: Package, ranks: str, only: str) -> None:
        self.package = package
        self.ranks = ranks
        self.only = only
        self.checks_code = not package.name.startswith("megatron.core")
        self.counts: collections.Counter[str] = collections.Counter()
        self.differences: list[str] = []

    def same(self, kind: str, tag: str, want: Any, got: Any) -> None:
        self.counts[kind] += 1
        if not same_without_torch(want, got):
            self.differ(tag, json.dumps(want)[:1500], json.dumps(got)[:1500])

    def same_error(self, kind: str, tag: str, want: Any, got: Any) -> None:
        self.counts[kind] += 1
        why = error_differs(want, got, self.checks_code)
        if why:
            self.differ(tag, f"{want['class']}: {want['message'][:300]}", why)

    def differ(self, tag: str, want: str, got: str) -> None:
        self.differences.append(tag)
        print(f"DIFFERS {tag}\n  want {want}\n  got  {got}", flush=True)

    def wants(self, tag: str) -> bool:
        return self.only in tag

    # -- units

    def units(self, cases: list[Any]) -> None:
        for case in cases:
            tag = f"unit {case['fn']} {case['id']}"
            if not self.wants(tag):
                continue
            with tempfile.TemporaryDirectory() as scratch:
                ckpt = Path(scratch, "ckpt")
                try:
                    got = self.unit(case, ckpt)
                except Exception as error:
                    got = error_of(error, ckpt)
                want = case["expect"]
                if want["status"] == "error":
                    self.same_error("units", tag, want, got)
                elif case["fn"] != "save":
                    self.same("units", tag, want["value"], got)
                else:
                    self.same("units", tag, None, got)
                if case["fn"] == "save":
                    self.same_files(tag, want["files_left"], ckpt)

    def same_files(self, tag: str, want: list[str], ckpt: Path) -> None:
        """Checks the names of the files; lock directories may be missing."""
        got = files_of(ckpt) if ckpt.is_dir() else []
        kept = [name for name in want if ".sync/" not in name]
        self.same(
            "unit files", tag, kept, [n for n in got if ".sync/" not in n]
        )

    def unit(self, case: dict[str, Any], ckpt: Path) -> Any:
        fn = getattr(self, f"unit_{case['fn']}")
        return fn(case, ckpt) if case["fn"] == "save" else fn(case)

    def unit_from_rank_offsets(self, case: dict[str, Any]) -> Any:
        return derived(self.ranked(case))

    def ranked(self, case: dict[str, Any]) -> Any:
        shape = case["local_shape"]
        data = np.arange(math.prod(shape)).astype("<f4").reshape(shape)
        return self.package.mapping.ShardedTensor.from_rank_offsets(
            case.get("key", "k"),
            self.package.arrays.make(data, "float32"),
            *map(tuple, case["rank_offsets"]),
            prepend_axis_num=case["prepend_axis_num"],
        )

    def ranked_flat(self, case: dict[str, Any]) -> Any:
        begin, end = case["flattened_range"]
        data = np.arange(begin, begin + case.get("numel", end - begin))
        return self.package.mapping.ShardedTensor.from_rank_offsets_flat(
            case.get("key", "k"),
            self.package.arrays.make(data.astype("<f4"), "float32"),
            tuple(case["non_flat_local_shape"]),
            *map(tuple, case["rank_offsets"]),
            flattened_range=slice(begin, end),
            prepend_axis_num=case.get("prepend_axis_num", 0),
        )

    def unit_from_rank_offsets_flat(self, case: dict[str, Any]) -> Any:
        return derived(self.ranked_flat(case))

    def unit_sharded_tensor(self, case: dict[str, Any]) -> Any:
        return derived(self.package.tensor(case, None))

    def unit_max_allowed_chunks(self, case: dict[str, Any]) -> Any:
        return list(self.package.tensor(case, None).max_allowed_chunks())

    def unit_is_main_replica(self, case: dict[str, Any]) -> Any:
        replica = case["replica_id"]
        if isinstance(replica, list):
            replica = tuple(replica)
        return self.package.mapping.is_main_replica(replica)

    def unit_unique_key(self, case: dict[str, Any]) -> Any:
        return self.package.mapping.ShardedObject(
            case["key"],
            None,
            tuple(case["global_shape"]),
            tuple(case["global_offset"]),
        ).unique_key

    def unit_empty_from_unique_key(self, case: dict[str, Any]) -> Any:
        made = self.package.mapping.ShardedObject.empty_from_unique_key(
            case["unique_key"]
        )
        return {
            "key": made.key,
            "global_shape": list(made.global_shape),
            "global_offset": list(made.global_offset),
        }

    def unit_narrow(self, case: dict[str, Any]) -> Any:
        return narrowed(self.ranked(case), case)

    def unit_narrow_flat(self, case: dict[str, Any]) -> Any:
        return narrowed(self.ranked_flat(case), case)

    def unit_distribute_shards_to_ranks(self, case: dict[str, Any]) -> Any:
        shards = case["shards"]
        return self.package.exchange.distribute_shards_to_ranks(
            {key: ranks for key, ranks, _ in shards},
            {key: size for key, _, size in shards},
            case["num_ranks"],
            set(case["cross"]),
        )

    def unit_validate_sharding_integrity(self, case: dict[str, Any]) -> Any:
        ranks = [
            [self.package.leaf(entry, None).without_data() for entry in entries]
            for entries in case["ranks"]
        ]
        self.package.validation.validate_sharding_integrity(ranks)
        return "valid"

    def unit_save(self, case: dict[str, Any], ckpt: Path) -> Any:
        if case.get("pre") != "no_dir":
            ckpt.mkdir()

        def save(**kwargs: Any) -> None:
            self.package.top.save(
                self.package.state(case["entries"]), str(ckpt), **kwargs
            )

        if case.get("pre") == "save_first":
            save(sharded_strategy=("zarr", 1))
        options: dict[str, Any] = {
            "sharded_strategy": self.package.save_strategy(
                case.get("strategy", ["zarr", 1])
            ),
            "validate_access_integrity": case.get("validate", True),
            "async_sharded_save": case.get("async", False),
        }
        if case.get("common_strategy"):
            options["common_strategy"] = tuple(case["common_strategy"])
        save(**options)

    # -- checkpoints

    def checkpoint(self, folder: Path, scratch: Path) -> None:
        expected = json.loads((folder / "expected.json").read_text())
        if expected["backend"] == "zarr" and self.wants(f"save {folder.name}"):
            self.save(folder, expected, scratch)
        normal = {
            key
            for key, tensor in expected["tensors"].items()
            if tensor.get("nan_normalized")
        }
        cases = json.loads((folder / "loads.json").read_text())["cases"]
        for case in cases:
            tag = f"load {folder.name} {case['id']}"
            if not self.wants(tag):
                continue
            ckpt = folder / "ckpt"
            if case.get("mutate"):
                ckpt = mutated(ckpt, case["mutate"], scratch)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if case["api"] == "load":
                    self.load(tag, case, ckpt, normal)
                else:
                    self.metadata(tag, case, ckpt, normal)

    def save(
        self, folder: Path, expected: dict[str, Any], scratch: Path
    ) -> None:
        recorded = expected["save"]
        ckpt = scratch / "saved"
        shutil.rmtree(ckpt, ignore_errors=True)
        ckpt.mkdir()
        if self.ranks == "processes":
            work = {"expected": expected, "ckpt": str(ckpt)}
            for got in in_processes(self.package, work, recorded["world"]):
                self.same("saves by rank", str(folder), {"status": "ok"}, got)
        else:
            self.package.top.save_ranks(
                [
                    save_state(self.package, expected, rank)
                    for rank in range(recorded["world"])
                ],
                ckpt,
                lambda _: self.package.save_strategy(recorded["strategy"]),
                **save_options(self.package, expected),
            )
        self.same_saved(folder, expected, ckpt)

    def same_saved(
        self, folder: Path, expected: dict[str, Any], ckpt: Path
    ) -> None:
        foreign = set(expected.get("foreign_arrays", ()))
        want = {}
        for file in expected["files"]:
            if file.get("lock") or file["path"].split("/")[0] in foreign:
                continue
            # Before 0.8, objects had other names.
            if "sha256" in file:
                want[file["path"]] = file["sha256"]
        got = {
            name: sha256((ckpt / name).read_bytes())
            for name in files_of(ckpt)
            if not name.endswith(".pt")
        }
        if any(t.get("nan_normalized") for t in expected["tensors"].values()):
            want, got = self.without_nans(folder, ckpt, expected, want, got)
        tag = f"save {folder.name}"
        self.counts["saves"] += 1
        self.counts["saved files"] += len(want)
        for name in sorted(set(want) | set(got)):
            if want.get(name) != got.get(name):
                self.differ(
                    f"{tag} {name}", want.get(name, "-"), got.get(name, "-")
                )
        opaque = {
            f["path"] for f in expected["files"] if f["path"].endswith(".pt")
        }
        objects = {name for name in files_of(ckpt) if name.endswith(".pt")}
        if "legacy" not in folder.name:
            self.same("saved files", tag, sorted(opaque), sorted(objects))

    def without_nans(
        self,
        folder: Path,
        ckpt: Path,
        expected: dict[str, Any],
        want: dict[str, str],
        got: dict[str, str],
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Returns `want` and `got`, {file: sha256}. In tensors where Megatron
        loses the payloads of bfloat16 NaNs, both are of NaNs made alike."""
        normal = {
            key
            for key, tensor in expected["tensors"].items()
            if tensor.get("nan_normalized")
        }
        for name in want:
            if name.rsplit("/", 1)[0] in normal and "/." not in name:
                for table, base in ((want, folder / "ckpt"), (got, ckpt)):
                    bits = np.frombuffer((base / name).read_bytes(), "<u2")
                    table[name] = sha256(normal_nans(bits).tobytes())
        return want, got

    def load(
        self, tag: str, case: dict[str, Any], ckpt: Path, normal: set[str]
    ) -> None:
        self.counts["load cases"] += 1
        if self.ranks == "processes":
            work = {"case": case, "ckpt": str(ckpt), "normal": sorted(normal)}
            found = in_processes(self.package, work, case["world"])
        else:
            states = [self.package.state(e) for e in case["ranks"]]
            results = self.package.top.load_ranks(
                states,
                ckpt,
                lambda _: self.package.load_strategy(case["strategy"]),
                return_exceptions=True,
                **load_options(case),
            )
            found = [
                outcome(case, rank, result, ckpt, normal)
                for rank, result in enumerate(results)
            ]
        for rank, got in enumerate(found):
            self.loaded(f"{tag} rank {rank}", case, rank, got)

    def loaded(
        self, tag: str, case: dict[str, Any], rank: int, got: dict[str, Any]
    ) -> None:
        want = case["expect"][rank]
        if want["status"] == "error":
            self.same_error("loads by rank", tag, want, got)
        elif got["status"] == "error":
            # In Megatron Core, a rank that fails does not stop the others.
            has_failed = any(e["status"] == "error" for e in case["expect"])
            self.counts["loads by rank"] += 1
            if not has_failed or got["code"] != "RANK_FAILED":
                self.differ(tag, "ok", str(got))
        else:
            expected = {k: want[k] for k in got if k in want}
            if "top_level_keys" in expected:
                expected["top_level_keys"].sort()
            seen = {k: got[k] for k in expected}
            self.same("loads by rank", tag, expected, seen)

    def metadata(
        self, tag: str, case: dict[str, Any], ckpt: Path, normal: set[str]
    ) -> None:
        want = case["expect"][0]
        self.counts["load cases"] += 1
        try:
            result = getattr(self.package.serialization, case["api"])(str(ckpt))
        except Exception as error:
            result = error_of(error, ckpt)
        if want["status"] == "error":
            self.same_error("loads by rank", tag, want, result)
            return
        if isinstance(result, dict) and result.get("status") == "error":
            self.differ(tag, "ok", str(result))
        elif "entries" in want:
            got = {key: entry_of(part) for key, part in result.items()}
            self.same("loads by rank", tag, want["entries"], got)
        elif "tensors" in want:
            got = {
                key: describe(value, key in normal)
                for key, value in result.items()
                if key in want["tensors"] and is_tensor(value)
            }
            self.same("loads by rank", tag, want["tensors"], got)
            if "top_level_keys" in want:
                keys = sorted(map(str, result))
                self.same(
                    "loads by rank", tag, sorted(want["top_level_keys"]), keys
                )
        else:
            self.same("loads by rank", tag, want["value"], encoded(result))


def load_options(case: dict[str, Any]) -> dict[str, Any]:
    options = {"validate_access_integrity": case["validate_access_integrity"]}
    if case["strict"] is not None:
        options["strict"] = case["strict"]
    return options


def outcome(
    case: dict[str, Any], rank: int, result: Any, ckpt: Path, normal: Any
) -> dict[str, Any]:
    """Returns the result of a rank's load as the corpus's typed JSON."""
    if isinstance(result, BaseException):
        return error_of(result, ckpt)
    got: dict[str, Any] = {"status": "ok"}
    if isinstance(result, tuple):
        result, missing, unexpected = result
        got["missing_keys"] = sorted(missing)
        got["unexpected_keys"] = sorted(unexpected)
    got["results"] = [
        row_of(entry, result, normal) for entry in case["ranks"][rank]
    ]
    got["top_level_keys"] = sorted(map(str, result))
    return got


# ---- ranks that are torch.distributed processes


def in_processes(
    package: Any, work: dict[str, Any], world: int
) -> list[dict[str, Any]]:
    """Does `work` on each of `world` ranks; returns the results by rank.

    The processes get only the package's name and its kind of arrays, and run
    in the same Python.
    """
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        kind = "torch" if package.arrays.is_torch else "numpy"
        (scratch / "work.json").write_text(
            json.dumps({**work, "package": package.name, "arrays": kind})
        )
        workers = [
            subprocess.Popen(
                [package.python, __file__, "--worker", directory]
                + ["--rank", str(rank), "--world", str(world)]
            )
            for rank in range(world)
        ]
        try:
            for worker in workers:
                worker.wait(timeout=300)
        finally:
            for worker in workers:
                worker.kill()
        results = []
        for rank in range(world):
            path = scratch / f"rank{rank}.json"
            if not path.exists():
                results.append({"status": "error", "message": "it died"})
                continue
            results.append(json.loads(path.read_text()))
        return results


def worker(scratch: Path, rank: int, world: int) -> None:
    """Does the work that the directory `scratch` describes, as one rank."""
    work = json.loads((scratch / "work.json").read_text())
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{scratch}/rendezvous",
        rank=rank,
        world_size=world,
    )
    package = Package(work["package"], Arrays(work["arrays"]))
    ckpt = Path(work["ckpt"])
    if "case" in work:
        got = loaded_here(package, work, rank, ckpt)
    else:
        got = saved_here(package, work, rank, ckpt)
    (scratch / f"rank{rank}.tmp").write_text(json.dumps(got))
    os.rename(scratch / f"rank{rank}.tmp", scratch / f"rank{rank}.json")
    sys.stdout.flush()
    # Skips the exit handlers of torch.distributed: other ranks may have failed.
    os._exit(0)


def loaded_here(
    package: Package, work: dict[str, Any], rank: int, ckpt: Path
) -> dict[str, Any]:
    case = work["case"]
    result: Any
    try:
        result = package.top.load(
            package.state(case["ranks"][rank]),
            str(ckpt),
            package.load_strategy(case["strategy"]),
            **load_options(case),
        )
    except Exception as error:
        result = error
    return outcome(case, rank, result, ckpt, set(work["normal"]))


def saved_here(
    package: Package, work: dict[str, Any], rank: int, ckpt: Path
) -> dict[str, Any]:
    try:
        package.top.save(
            save_state(package, work["expected"], rank),
            str(ckpt),
            package.save_strategy(work["expected"]["save"]["strategy"]),
            **save_options(package, work["expected"]),
        )
    except Exception as error:
        return error_of(error, ckpt)
    return {"status": "ok"}


def save_state(
    package: Package, expected: dict[str, Any], rank: int
) -> dict[str, Any]:
    """Returns the arguments that the rank passed to the recorded save."""
    tables = {k: global_data(t) for k, t in expected["tensors"].items()}
    recorded = expected["save"]
    common = {
        key: decoded(value, package.arrays)
        for key, value in recorded["common"].items()
    }
    return merged(package.state(recorded["ranks"][rank], tables), common)


def save_options(package: Package, expected: dict[str, Any]) -> dict[str, Any]:
    content = expected["save"]["content_metadata"]
    if content is None:
        return {}
    return {"content_metadata": decoded(content, package.arrays)}


def derived(tensor: Any) -> dict[str, Any]:
    flat = tensor.flattened_range
    made: dict[str, Any] = {
        "local_shape": list(tensor.local_shape),
        "global_shape": list(tensor.global_shape),
        "global_offset": list(tensor.global_offset),
        "axis_fragmentations": list(tensor.axis_fragmentations),
        "prepend_axis_num": tensor.prepend_axis_num,
        "flattened_range": None if flat is None else [flat.start, flat.stop],
        "global_slice": [
            [s.start, s.stop] if isinstance(s, slice) else s
            for s in tensor.global_slice()
        ],
    }
    try:
        made["local_chunk_offset_in_global"] = list(
            tensor.local_chunk_offset_in_global()
        )
    except ZeroDivisionError:
        made["local_chunk_offset_in_global"] = {"error": "ZeroDivisionError"}
    made["max_allowed_chunks"] = list(tensor.max_allowed_chunks())
    if flat is not None:
        made["local_coordinates"] = [
            c.tolist() for c in tensor.local_coordinates()
        ]
        made["global_coordinates"] = [
            c.tolist() if hasattr(c, "tolist") else c
            for c in tensor.global_coordinates()
        ]
    return made


def narrowed(tensor: Any, case: dict[str, Any]) -> list[dict[str, Any]]:
    parts = tensor.narrow(case["dim"], case["start"], case["length"])
    rows = []
    for part in parts:
        flat = part.flattened_range
        _, bits = bits_of(part.data)
        rows.append(
            {
                "local_shape": list(part.local_shape),
                "global_shape": list(part.global_shape),
                "global_offset": list(part.global_offset),
                "axis_fragmentations": list(part.axis_fragmentations),
                "prepend_axis_num": part.prepend_axis_num,
                "flattened_range": None
                if flat is None
                else [int(flat.start), int(flat.stop)],
                "data": bits.reshape(-1).astype(int).tolist(),
            }
        )
    return rows


def row_of(entry: dict[str, Any], state: Any, normal: set[str]) -> Any:
    row: dict[str, Any] = {"path": entry["path"]}
    for step in entry["path"]:
        if not isinstance(state, dict) or step not in state:
            return {**row, "absent": True}
        state = state[step]
    if entry["kind"] in ("object", "nonpersistent"):
        return {**row, "value": encoded(state)}
    key = entry.get("key", "")
    return {**row, **describe(state, key in normal)}


def entry_of(part: Any) -> dict[str, Any]:
    if not hasattr(part, "local_shape"):
        return {
            "kind": "object",
            "key": part.key,
            "global_shape": list(part.global_shape),
            "global_offset": list(part.global_offset),
        }
    dtype = part.dtype
    if isinstance(dtype, np.dtype):
        dtype = dtype.name
    return {
        "kind": "tensor",
        "key": part.key,
        "dtype": str(dtype).removeprefix("torch."),
        "global_shape": list(part.global_shape),
        "local_shape": list(part.local_shape),
        "global_offset": list(part.global_offset),
        "axis_fragmentations": list(part.axis_fragmentations),
    }


def merged(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    for key, value in b.items():
        if isinstance(a.get(key), dict) and isinstance(value, dict):
            merged(a[key], value)
        else:
            a[key] = value
    return a


def files_of(directory: Path) -> list[str]:
    return sorted(
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file()
    )


def mutated(ckpt: Path, edits: list[Any], scratch: Path) -> Path:
    copy = scratch / "mutated"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ckpt, copy)
    for edit in edits:
        path = copy / edit["path"]
        if edit["op"] == "delete":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif edit["op"] == "write":
            path.write_text(edit["text"])
        elif edit["op"] == "truncate":
            os.truncate(path, edit["size"])
        else:
            path.write_bytes(path.read_bytes() + bytes.fromhex(edit["hex"]))
    return copy


def unpacked(corpus: Path, scratch: Path) -> Path:
    """Returns the directory of the cases, unpacked if necessary."""
    if corpus.is_dir():
        inner = corpus / "open"
        return inner if inner.is_dir() else corpus
    with tarfile.open(corpus) as archive:
        archive.extractall(scratch)  # no filter: Python 3.11.2 has none
    return next(path for path in scratch.iterdir() if path.is_dir())


def cases_of(corpus: Path) -> Iterator[Path]:
    yield from sorted(p for p in corpus.iterdir() if p.is_dir())


def run(replay: Replay, corpus: Path, scratch: Path) -> None:
    for folder in cases_of(corpus):
        if folder.name == "units":
            document = json.loads((folder / "expected.json").read_text())
            replay.units(document["cases"])
        elif (folder / "loads.json").exists():
            replay.checkpoint(folder, scratch)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=HERE / "open.tar.xz")
    parser.add_argument("--package", default="holdfast.megatron")
    parser.add_argument("--arrays", choices=("torch", "numpy"))
    parser.add_argument(
        "--ranks", choices=("threads", "processes"), default="threads"
    )
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--world", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="part of a case's name")
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.rank, arguments.world)
    kind = arguments.arrays or ("numpy" if torch is None else "torch")
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        corpus = unpacked(arguments.corpus, scratch)
        package = Package(arguments.package, Arrays(kind))
        replay = Replay(package, arguments.ranks, arguments.only)
        run(replay, corpus, scratch)
    print(dict(replay.counts), "differences:", len(replay.differences))
    return 1 if replay.differences else 0


if __name__ == "__main__":
    sys.exit(main())
