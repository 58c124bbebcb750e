#!/usr/bin/env python3
"""Measures saves from and loads into the memory of a GPU, next to the peers.

usage: accelerator.py --out JSON [--facts JSON] [--disk DIR] [--seconds N]
                      [--bytes N] [--pretend]
       accelerator.py --render JSON

Usually run by scripts/accelerator, which installs the packages first. Every
measurement has a process of its own, which has imported its libraries and begun
to use the device before the clock starts. Each round begins with a different
one. JSON is rewritten after each measurement, because such a machine may be had
for minutes only. Measurements for which there is no time or no room are left
out, and JSON says so. Exit status 1 when a measurement failed.

--render writes results/accelerator.md and .json from such a file.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "accelerator"))

from children import Child, ChildFailed, serve, write_json
from files import files_in, remove, stored_bytes, sync

BYTES = 8 * 10**9
LARGE_BYTES = 30 * 10**9
PRETEND_BYTES = 3 * 10**6
# Processes that are started together; the measurements follow one by one.
BATCH = 6
START_SECONDS_MAX = 120.0
ANSWER_SECONDS_MAX = 90.0
# A batch is not started with less time than this.
BATCH_SECONDS_MIN = 20.0
# On a disk, one save shall take about so long.
DISK_SAVE_SECONDS = 5.0
SAMPLE_SECONDS = 0.02
MIB = 1 << 20


# ----- The children.


def shapes(byte_count):
    """Returns {name: shape} of a transformer whose bf16 weights take about
    `byte_count` bytes; the widths are those of models of 8B parameters."""
    width, vocabulary = (4096, 128256) if byte_count >= 10**9 else (256, 1024)
    tree = {"embed": (vocabulary, width), "head": (vocabulary, width)}
    layer = {"q": (width, width), "k": (width // 4, width),
             "v": (width // 4, width), "o": (width, width),
             "gate": (width * 7 // 2, width), "up": (width * 7 // 2, width),
             "down": (width, width * 7 // 2),
             "norm_1": (width,), "norm_2": (width,)}

    def bytes_of(these):
        return sum(2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
                   for shape in these.values())

    layer_count = round((byte_count - bytes_of(tree)) / bytes_of(layer))
    for i in range(max(1, layer_count)):
        tree.update({f"layer_{i:02d}_{name}": shape
                     for name, shape in layer.items()})
    return tree


def torch_tree(byte_count, device):
    import torch

    draw = torch.Generator(device).manual_seed(1)
    return {name: torch.empty(shape, dtype=torch.bfloat16, device=device)
            .normal_(0, 0.02, generator=draw)
            for name, shape in shapes(byte_count).items()}


def jax_tree(byte_count, device):
    import jax

    tree = {}
    for i, (name, shape) in enumerate(shapes(byte_count).items()):
        key = jax.random.key(i)
        tree[name] = jax.random.normal(key, shape, "bfloat16") * 0.02
    return jax.block_until_ready(tree)


def holdfast_saves(**options):
    def save(tree, path):
        import holdfast

        result = holdfast.save(path, tree, **options)
        return result.result if options.get("background") else None

    return save


def safetensors_saves(tree, path):
    import safetensors.torch

    host = {name: tensor.cpu() for name, tensor in tree.items()}
    safetensors.torch.save_file(host, path)
    sync(path)


def torch_saves(tree, path):
    import torch

    torch.save(tree, path)
    sync(path)


def dcp_saves(tree, path):
    import torch.distributed.checkpoint as dcp

    writer = dcp.FileSystemWriter(path, thread_count=8, sync_files=True)
    answer = dcp.async_save(dict(tree), storage_writer=writer)
    return getattr(answer, "upload_completion", answer).result


def orbax_saves(tree, path):
    import orbax.checkpoint as ocp

    checkpointer = ocp.StandardCheckpointer()
    checkpointer.save(path, tree)

    def finish():
        checkpointer.wait_until_finished()
        sync(path)

    return finish


def holdfast_loads(**options):
    def load(path, byte_count, device):
        import holdfast

        return holdfast.load(path, arrays="torch", device=device, **options)

    return load


def holdfast_fills(path, byte_count, device):
    import holdfast

    return holdfast.load(path, empty_tree(byte_count, device))


def empty_tree(byte_count, device):
    import torch

    return {name: torch.empty(shape, dtype=torch.bfloat16, device=device)
            for name, shape in shapes(byte_count).items()}


def safetensors_loads(path, byte_count, device):
    import safetensors.torch

    return safetensors.torch.load_file(path, device=device)


def fastsafetensors_loads(path, byte_count, device):
    import fastsafetensors

    with fastsafetensors.fastsafe_open(
            [str(path)], nogds=True, device=device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def instanttensor_loads(path, byte_count, device):
    import instanttensor

    with instanttensor.safe_open(str(path), framework="pt",
                                 device=device) as file:
        return dict(file.tensors())


def torch_loads(**options):
    def load(path, byte_count, device):
        import torch

        return torch.load(path, map_location=device, **options)

    return load


def dcp_loads(path, byte_count, device):
    import torch.distributed.checkpoint as dcp

    tree = empty_tree(byte_count, device)
    dcp.load(tree, checkpoint_id=path)
    return tree


def holdfast_loads_jax(path, byte_count, device):
    import holdfast

    return holdfast.load(path, arrays="jax")


def orbax_loads(path, byte_count, device):
    import jax
    import orbax.checkpoint as ocp

    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    target = {name: jax.ShapeDtypeStruct(shape, "bfloat16", sharding=sharding)
              for name, shape in shapes(byte_count).items()}
    return ocp.StandardCheckpointer().restore(path, target)


# {name: (arrays, packages to import, function)}. If the function returns
# something, a call of that waits until the save is complete.
SAVES = {
    "holdfast raw": ("torch", ["holdfast"], holdfast_saves(compression=None)),
    "holdfast planes": ("torch", ["holdfast"], holdfast_saves()),
    "holdfast raw, background, device": (
        "torch", ["holdfast"], holdfast_saves(
            compression=None, background=True, snapshot="device")),
    "holdfast raw, background, host": (
        "torch", ["holdfast"], holdfast_saves(
            compression=None, background=True, snapshot="host")),
    "holdfast planes, background, device": (
        "torch", ["holdfast"], holdfast_saves(
            background=True, snapshot="device")),
    "torch DCP async_save": (
        "torch", ["torch.distributed.checkpoint"], dcp_saves),
    "safetensors after .cpu()": (
        "torch", ["safetensors.torch"], safetensors_saves),
    "torch.save": ("torch", [], torch_saves),
    "holdfast raw, background, jax": (
        "jax", ["holdfast"], holdfast_saves(
            compression=None, background=True)),
    "Orbax async, jax": ("jax", ["orbax.checkpoint"], orbax_saves),
}
# {name: (arrays, packages to import, who has saved the files, what is checked,
# function)}
LOADS = {
    "holdfast raw": (
        "torch", ["holdfast"], "holdfast raw", "checksums", holdfast_loads()),
    "holdfast raw, into given tensors": (
        "torch", ["holdfast"], "holdfast raw", "checksums", holdfast_fills),
    "holdfast raw, verify=False": (
        "torch", ["holdfast"], "holdfast raw", "", holdfast_loads(
            verify=False)),
    "holdfast planes": (
        "torch", ["holdfast"], "holdfast planes", "checksums",
        holdfast_loads()),
    "holdfast, of safetensors": (
        "torch", ["holdfast"], "safetensors after .cpu()", "",
        holdfast_loads()),
    "safetensors": (
        "torch", ["safetensors.torch"], "safetensors after .cpu()", "",
        safetensors_loads),
    "fastsafetensors": (
        "torch", ["fastsafetensors"], "safetensors after .cpu()", "",
        fastsafetensors_loads),
    "InstantTensor": (
        "torch", ["instanttensor"], "safetensors after .cpu()", "",
        instanttensor_loads),
    "torch DCP": (
        "torch", ["torch.distributed.checkpoint"], "torch DCP async_save", "",
        dcp_loads),
    "torch.load": ("torch", [], "torch.save", "", torch_loads()),
    "torch.load, mmap": (
        "torch", [], "torch.save", "", torch_loads(mmap=True)),
    "holdfast raw, jax": (
        "jax", ["holdfast"], "holdfast raw, background, jax", "checksums",
        holdfast_loads_jax),
    "Orbax, jax": (
        "jax", ["orbax.checkpoint"], "Orbax async, jax", "", orbax_loads),
}
# With 30 GB, and on a disk, only those that say most.
FEW_SAVES = ("holdfast raw", "holdfast raw, background, device",
             "holdfast planes", "torch DCP async_save",
             "safetensors after .cpu()", "torch.save")
FEW_LOADS = ("holdfast raw", "holdfast planes", "safetensors",
             "fastsafetensors", "InstantTensor", "torch DCP", "torch.load")
LARGE_SAVES = ("holdfast raw", "safetensors after .cpu()")
LARGE_LOADS = ("holdfast raw", "safetensors", "fastsafetensors",
               "InstantTensor")


class Missing(Exception):
    """A package is not installed, or cannot be used here."""


class Peaks:
    """Samples this process's memory, and the device's, until it is closed."""

    def __init__(self, device):
        self._device = device
        self._ended = threading.Event()
        self._rss_before, self._used_before = self._now()
        self._rss = self._used = 0
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _now(self):
        import torch

        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        free, total = torch.cuda.mem_get_info(self._device)
        return pages * os.sysconf("SC_PAGE_SIZE"), total - free

    def _sample(self):
        while True:
            rss, used = self._now()
            self._rss = max(self._rss, rss - self._rss_before)
            self._used = max(self._used, used - self._used_before)
            if self._ended.wait(SAMPLE_SECONDS):
                return

    def close(self):
        self._ended.set()
        self._thread.join()
        return {"host_peak_mib": round(self._rss / MIB),
                "device_peak_mib": round(self._used / MIB)}


def timed_save(request, device):
    arrays, _, save = SAVES[request["who"]]
    path = pathlib.Path(request["path"])
    make = torch_tree if arrays == "torch" else jax_tree
    tree = make(request["bytes"], device)
    part, kept_bytes = {}, 0
    for name, array in tree.items():  # buffers and threads are made
        if kept_bytes + array.nbytes <= request["bytes"] // 8 or not part:
            part[name] = array
            kept_bytes += array.nbytes
    warm = path.with_name(path.name + "-warm")
    finish = save(part, warm)
    if finish is not None:
        finish()
    remove(warm)
    settle(arrays)
    peaks = Peaks(device)
    start = time.perf_counter()
    finish = save(tree, path)
    settle(arrays)
    blocked = time.perf_counter() - start
    if finish is not None:
        finish()
    total = time.perf_counter() - start
    return {"blocked_seconds": blocked, "seconds": total,
            "bytes": sum(array.nbytes for array in tree.values()),
            "stored_bytes": stored_bytes(path), **peaks.close()}


def settle(arrays):
    """Waits until the program's own stream has done its work."""
    import torch

    if arrays == "torch":
        torch.cuda.current_stream().synchronize()


def timed_load(request, device):
    import torch

    arrays, _, _, checked, load = LOADS[request["who"]]
    path = pathlib.Path(request["path"])
    if request["cache"] == "cold":
        forget(path)
    peaks = Peaks(device)
    start = time.perf_counter()
    tree = load(path, request["bytes"], device)
    if arrays == "jax":
        import jax

        jax.block_until_ready(tree)
    else:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    measured = {"seconds": seconds, "checked": checked, **peaks.close(),
                "bytes": sum(array.nbytes for array in tree.values())}
    compare(tree, request["bytes"], arrays, device)
    return measured


def compare(tree, byte_count, arrays, device):
    """Raises ValueError if what was loaded is not what was saved."""
    import torch

    make = torch_tree if arrays == "torch" else jax_tree
    want = make(byte_count, device)
    if tree.keys() != want.keys():
        raise ValueError(f"got the names {sorted(tree)[:5]}...")
    for name in want:
        if arrays == "jax":
            equal = bool((tree[name] == want[name]).all())
        else:
            equal = (tree[name].device == want[name].device and torch.equal(
                tree[name].view(torch.int16), want[name].view(torch.int16)))
        if not equal:
            raise ValueError(f"{name} is not what was saved")


def forget(path):
    """Removes files from the page cache; they must have been synced."""
    for name in files_in(path):
        handle = os.open(name, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def limits(request, device):
    """Measures the machine: what any save and load must share, in GB/s."""
    import torch

    count = request["bytes"]
    host = torch.ones(count, dtype=torch.uint8)
    pinned = torch.ones(count, dtype=torch.uint8).pin_memory()
    mine = torch.ones(count, dtype=torch.uint8, device=device)
    other = torch.ones_like(mine)

    def rate(function):
        seconds = []
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            function()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        return round(count / statistics.median(seconds) / 1e9, 2)

    into = torch.ones_like(host)
    rates = {
        "pinned host to device":
            rate(lambda: mine.copy_(pinned, non_blocking=True)),
        "device to pinned host":
            rate(lambda: pinned.copy_(mine, non_blocking=True)),
        "ordinary host to device": rate(lambda: mine.copy_(host)),
        "device to ordinary host": rate(lambda: host.copy_(mine)),
        "device to device": rate(lambda: other.copy_(mine)),
        "host memcpy, all threads": rate(lambda: into.copy_(host)),
        "host memcpy, one thread":
            rate(lambda: memoryview(into.numpy()).__setitem__(
                slice(None), memoryview(host.numpy()))),
    }
    for name, folder in request["folders"].items():
        rates.update(file_rates(name, pathlib.Path(folder), host.numpy()))
    return {"rates": rates, "device_bytes": torch.cuda.mem_get_info(device)[1]}


def file_rates(name, folder, data):
    """Measures one thread that writes and syncs a file, and reads it back."""
    path = folder / "limit"
    start = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        written = 0
        while written < data.nbytes:
            written += file.write(memoryview(data)[written:])
        os.fsync(file.fileno())
    rates = {f"write and sync, {name}": time.perf_counter() - start}
    for cache in ("warm", "cold"):
        if cache == "cold":
            forget(path)
        start = time.perf_counter()
        with open(path, "rb", buffering=0) as file:
            while file.readinto(data):
                pass
        rates[f"read, {name}, {cache}"] = time.perf_counter() - start
    path.unlink()
    return {what: round(data.nbytes / seconds / 1e9, 2)
            for what, seconds in rates.items()}


TASKS = {"save": timed_save, "load": timed_load, "limits": limits}


def child(who, task, pretend):
    """Imports what a measurement needs, begins to use the device, and answers
    one request."""
    import importlib

    import torch

    if pretend:
        from pretend import install

        install()
    device = "cpu" if pretend else "cuda:0"
    missing = ""
    try:
        if pretend and who == "InstantTensor":
            raise Missing("InstantTensor needs a GPU")
        table = {"save": SAVES, "load": LOADS}.get(task, {})
        arrays, packages = table.get(who, ("torch", []))[:2]
        for package in [*packages, *(["jax"] if arrays == "jax" else [])]:
            importlib.import_module(package)
        if arrays == "jax":
            import jax

            jax.block_until_ready(jax.numpy.ones(8))
    except (ImportError, Missing) as error:
        missing = f"{type(error).__name__}: {error}"
    (torch.ones(8, device=device) + 1).sum().item()

    def answer(request):
        if missing:
            return {"skipped": missing}
        return {"skipped": "", **TASKS[task](request, device)}

    serve(answer)


# ----- The parent.


class Bench:
    """One run. Writes its results after each measurement."""

    def __init__(self, args):
        self._args = args
        self._end = time.monotonic() + args.seconds
        self._results = []
        self._facts = (json.loads(args.facts.read_text())
                       if args.facts else {})
        self._failed = False

    def run(self):
        disk = tempfile.mkdtemp(prefix="holdfast-bench-", dir=self._args.disk)
        memory = tempfile.mkdtemp(
            prefix="holdfast-bench-",
            dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self._folders = {"tmpfs": pathlib.Path(memory),
                         "disk": pathlib.Path(disk)}
        try:
            self._measure()
        finally:
            for folder in self._folders.values():
                shutil.rmtree(folder, ignore_errors=True)
        self._write(ended=True)
        return 1 if self._failed else 0

    def _measure(self):
        if self._args.pretend:
            self._limits(MIB)
            self._round("tmpfs", PRETEND_BYTES, SAVES, LOADS, ("warm",))
            self._round("disk", PRETEND_BYTES, LARGE_SAVES, LARGE_LOADS,
                        ("cold",))
            return
        found = self._limits(1 << 30)
        # The tree, its snapshot, and the tree to compare with.
        room = found.get("device_bytes", 0) // 3 // 10**9 * 10**9
        byte_count = min(self._args.bytes, max(10**9, room))
        self._round("tmpfs", byte_count, SAVES, LOADS, ("warm",))
        speed = found.get("rates", {}).get("write and sync, disk", 0.5)
        disk_bytes = max(1, int(speed * DISK_SAVE_SECONDS)) * 10**9
        self._round("disk", min(byte_count, disk_bytes), FEW_SAVES, FEW_LOADS,
                    ("cold", "warm"))
        self._round("tmpfs", byte_count, SAVES, LOADS, ("warm",), 1)
        # Loads are compared with a second tree on the device.
        if found.get("device_bytes", 0) > 2.4 * LARGE_BYTES:
            self._round("tmpfs", LARGE_BYTES, LARGE_SAVES, LARGE_LOADS,
                        ("warm",))
        self._round("tmpfs", byte_count, SAVES, LOADS, ("warm",), 2)

    def _limits(self, byte_count):
        folders = {name: str(folder)
                   for name, folder in self._folders.items()}
        request = {"task": "limits", "who": "the machine",
                   "bytes": byte_count, "folders": folders}
        self._batch([request])
        return self._results[-1]

    def _round(self, place, byte_count, saves, loads, caches, number=0):
        """Saves by all, then loads by all."""
        folder = self._folders[place]
        if shutil.disk_usage(folder).free < 2.2 * byte_count:
            self._add({"task": "save", "who": "all", "place": place,
                       "bytes": byte_count, "ok": True, "round": number,
                       "skipped": f"{place} has no room for two saves"})
            return
        common = {"place": place, "bytes": byte_count, "round": number}
        kept = {LOADS[name][2] for name in loads}
        self._paths = {}
        requests = [{"task": "save", "who": who,
                     "path": str(folder / f"{i}.saved"), **common}
                    for i, who in enumerate(saves)]
        self._batch(turned(requests, number), kept)
        requests = [
            {"task": "load", "who": who, "cache": cache, **common,
             "path": self._paths[LOADS[who][2]]}
            for cache in caches for who in loads
            if LOADS[who][2] in self._paths]
        self._batch(turned(requests, number))
        for path in self._paths.values():
            remove(pathlib.Path(path))

    def _batch(self, requests, kept=()):
        """Measures one by one, in processes that are started some at a
        time."""
        for start in range(0, len(requests), BATCH):
            some = requests[start:start + BATCH]
            if self._left() < (0 if self._args.pretend else BATCH_SECONDS_MIN):
                for request in some:
                    self._add({**request, "ok": True, "skipped": "no time"})
                continue
            children = [self._start(request) for request in some]
            for request, process in zip(some, children, strict=True):
                self._one(request, process)
                process.close()
                if request["task"] == "save":
                    self._keep(request, kept)

    def _start(self, request):
        command = [sys.executable, __file__, "--child", request["task"],
                   "--who", request["who"]]
        env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        if self._args.pretend:
            command.append("--pretend")
            env["JAX_PLATFORMS"] = "cpu"
        return Child(command, env)

    def _one(self, request, process):
        try:
            process.answer(self._limit(START_SECONDS_MAX))
            answer = process.ask(request, self._limit(ANSWER_SECONDS_MAX))
            record = {**request, "ok": True, **answer}
        except ChildFailed as error:
            record = {**request, "ok": False, "skipped": "",
                      "message": str(error)}
            # Stopped by the end of the time, not by a fault of its own.
            if self._left() <= 1:
                record.update(ok=True, skipped="no time")
        self._add(record)

    def _keep(self, request, kept):
        """Keeps a save for the loads, if there is room beside it for another;
        removes it otherwise."""
        path = pathlib.Path(request["path"])
        last = self._results[-1]
        room = shutil.disk_usage(path.parent).free > 1.2 * request["bytes"]
        if last["ok"] and not last["skipped"] and room and (
                request["who"] in kept):
            self._paths[request["who"]] = str(path)
        elif path.exists():
            remove(path)

    def _left(self):
        return self._end - time.monotonic()

    def _limit(self, seconds):
        return min(seconds, max(1.0, self._left()))

    def _add(self, record):
        record.pop("path", None)
        record.pop("folders", None)
        self._results.append(record)
        self._failed = self._failed or not record["ok"]
        self._write(ended=False)
        print(line(record), flush=True)

    def _write(self, *, ended):
        write_json(self._args.out, {
            "pretend": self._args.pretend, "facts": self._facts,
            "results": self._results, "ended": ended})


def turned(items, number):
    """Returns the items in another order for each round."""
    turn = number * 5 % max(1, len(items))
    return items[turn:] + items[:turn]


def subject(record):
    return " ".join(str(record[key]) for key in
                    ("task", "place", "cache", "who") if key in record)


def line(record):
    what = subject(record)
    if record["skipped"]:
        return f"skip {what}: {record['skipped']}"
    if not record["ok"]:
        last = record["message"].strip().splitlines()[-1]
        return f"FAIL {what}: {last}"
    if record["task"] == "limits":
        return f"ok   {what}: {record['rates']}"
    speed = record["bytes"] / record["seconds"] / 1e9
    blocked = record.get("blocked_seconds")
    text = "" if blocked is None else f", blocked {blocked:.3f} s"
    return (f"ok   {what}: {record['seconds']:.3f} s, {speed:.2f} GB/s{text},"
            f" host {record['host_peak_mib']} MiB,"
            f" device {record['device_peak_mib']} MiB")


# ----- The page.


def medians(results, task):
    """Returns {(place, cache, bytes): {who: median record}}."""
    groups = {}
    for record in results:
        if record["task"] == task and record["ok"] and not record["skipped"]:
            key = (record["place"], record.get("cache", ""), record["bytes"])
            groups.setdefault(key, {}).setdefault(
                record["who"], []).append(record)
    numbers = ("seconds", "blocked_seconds", "stored_bytes", "host_peak_mib",
               "device_peak_mib")
    return {key: {who: {**records[0], "rounds": len(records), **{
        number: statistics.median(record[number] for record in records)
        for number in numbers if number in records[0]}}
        for who, records in group.items()} for key, group in groups.items()}


def table(heads, rows):
    return ["| " + " | ".join(heads) + " |",
            "|---|" + "--:|" * (len(heads) - 1),
            *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def save_rows(group):
    return [(who, f"{r['blocked_seconds']:.3f}", f"{r['seconds']:.2f}",
             f"{r['bytes'] / r['seconds'] / 1e9:.2f}",
             f"{r['stored_bytes'] / r['bytes']:.3f}",
             r["host_peak_mib"], r["device_peak_mib"], r["rounds"])
            for who, r in group.items()]


def load_rows(group):
    return [(who, f"{r['bytes'] / r['seconds'] / 1e9:.2f}",
             f"{r['seconds']:.2f}", r["checked"] or "nothing",
             r["host_peak_mib"], r["device_peak_mib"], r["rounds"])
            for who, r in sorted(group.items(),
                                 key=lambda item: item[1]["seconds"])]


def markdown(data):
    facts, results = data["facts"], data["results"]
    gpu = facts.get("gpu", {})
    lines = ["# Saves from a GPU, and loads into one", "",
             "bf16 weights with the shapes of a transformer. Every measurement "
             "has a process of its own, which has imported its libraries and "
             "begun to use the GPU before, and for saves has saved an eighth "
             "of the weights; medians of the rounds. Saves include the syncs "
             "to disk. Memory is what the measurement added, sampled every "
             f"{SAMPLE_SECONDS * 1000:.0f} ms; the loaded weights are part of "
             "the device's. All loaded values were compared.", ""]
    for record in results:
        if record["task"] == "limits" and record.get("rates"):
            lines += ["## What the machine can do", "", *table(
                ("", "GB/s"), record["rates"].items())]
    for (place, _, count), group in medians(results, "save").items():
        lines += [f"## Saves of {count / 1e9:.1f} GB to {place}", "", *table(
            ("", "blocked s", "total s", "GB/s", "stored", "host MiB",
             "device MiB", "rounds"), save_rows(group))]
    for (place, cache, count), group in medians(results, "load").items():
        lines += [f"## Loads of {count / 1e9:.1f} GB from {place}, {cache}",
                  "", *table(("", "GB/s", "seconds", "checked", "host MiB",
                              "device MiB", "rounds"), load_rows(group))]
    done = {subject(r) for r in results if r["ok"] and not r["skipped"]}
    gaps = sorted({f"{subject(r)}: "
                   f"{r['skipped'] or r['message'].strip().splitlines()[-1]}"
                   for r in results if subject(r) not in done})
    if gaps:
        lines += ["Not measured:", "", *(f"- {gap}" for gap in gaps), ""]
    versions = ", ".join(f"{name} {version}" for name, version in
                         facts.get("versions", {}).items())
    lines += [
        f"Machine: {gpu.get('name', 'unknown GPU')}, driver "
        f"{gpu.get('driver_version', 'unknown')}, PCIe generation "
        f"{gpu.get('pcie.link.gen.current', '?')} (at most "
        f"{gpu.get('pcie.link.gen.max', '?')}) x"
        f"{gpu.get('pcie.link.width.current', '?')}, "
        f"{facts.get('processors')} processors ({facts.get('processor')}), "
        f"{facts.get('host_gib')} GiB of host memory, Linux "
        f"{facts.get('kernel')}. Python {facts.get('python')}, {versions}; "
        f"holdfast's commit {facts.get('commit')}.", "",
        "    scripts/accelerator --prepare",
        "    scripts/accelerator --only bench", ""]
    return "\n".join(lines)


def render(path):
    data = json.loads(path.read_text(encoding="utf-8"))
    if data["pretend"]:
        print(f"{path}: made with --pretend, so it is no result",
              file=sys.stderr)
        return 1
    measured = [record for record in data["results"]
                if record["ok"] and not record["skipped"]]
    if not measured:
        print(f"{path}: nothing was measured", file=sys.stderr)
        return 1
    import runs

    runs.write_results("accelerator", markdown(data), data)
    return 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--facts", type=pathlib.Path)
    parser.add_argument("--disk", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--bytes", type=int, default=BYTES)
    parser.add_argument("--pretend", action="store_true")
    parser.add_argument("--render", type=pathlib.Path)
    parser.add_argument("--child", choices=sorted(TASKS))
    parser.add_argument("--who", default="")
    args = parser.parse_args()
    if args.child:
        return child(args.who, args.child, args.pretend)
    if args.render:
        return render(args.render)
    if args.out is None:
        parser.error("want --out or --render")
    return Bench(args).run()


if __name__ == "__main__":
    sys.exit(main())
