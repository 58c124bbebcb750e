#!/usr/bin/env python3
"""Times holdfast and its peers on the same trees, round robin in one run.

usage: peers.py [--driver DRIVER] [--tree llm|small|wide] [--scale S]
                [--rounds N] [--modes zstd,fast,none] [--peers PATTERN,...]
                [--dir SCRATCH] [--out NAME]

holdfast runs as its Python package (holdfast.save, and the drop-in
holdfast.orbax), like its peers; with --driver its C++ API runs as well.

Operations: save (with syncs), restore (everything, into new memory), list
(open; names, shapes and dtypes of all leaves), slice (open; the middle row of
the largest array). Each round runs the peers one after another, each with all
operations; the order of the peers rotates. Shows medians of N rounds, and
ratios to the first holdfast mode (2.00 means twice as long). The page cache is
warm. Results are freed outside the timed part.

--out writes NAME.md and NAME.json to bench/results/. A peer that is not
installed is listed as missing. A first, warm-up round is not counted
(--no-warmup skips it); if a peer takes more than --patience seconds in it, the
peer is not run again and its result is that of the warm-up round.
"""

import concurrent.futures
import fnmatch
import gc
import importlib.util
import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import runs
import trees
from files import remove, stored_bytes, sync

OPERATIONS = ("save", "restore", "list", "slice")
RAW_PIECE_BYTES = 16 << 20


class NotInstalled(Exception):
    """A peer is not installed on this machine."""


def require(*modules):
    for module in modules:
        if importlib.util.find_spec(module.split(".")[0]) is None:
            raise NotInstalled(module)


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


class Peer:
    """One way to save and read a tree. Methods return what they read; the
    caller times them and drops the result."""

    name = ""
    note = ""
    self_timed = False

    def prepare(self, tree, scratch):
        self.tree = tree

    # Measures how much resident memory grows during one operation, in a process
    # that has done nothing else; None for peers that are not measured.
    peak_bytes = None


class Holdfast(Peer):
    """holdfast's C++ API, in its own process, which times itself."""

    self_timed = True
    process = None  # shared by all modes: one copy of the tree
    tree_files = None  # (lines, data) for later drivers

    def __init__(self, mode, api, driver):
        version = " v1" if api != "orbax" else ""
        self.name = f"holdfast {mode} (C++{version})"
        self.options = [f"format={api}", f"compression={mode}"]
        self.driver = driver

    def start(self):
        return subprocess.Popen([self.driver], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, encoding="utf-8")

    def prepare(self, tree, scratch):
        if Holdfast.process is None:
            Holdfast.tree_files = scratch / "tree.lines", scratch / "tree.data"
            trees.write_for_driver(tree, *Holdfast.tree_files)
            Holdfast.process = self.start()
            self.ask("tree", *Holdfast.tree_files)

    def ask(self, *words, process=None):
        """Sends one request; returns (seconds, value)."""
        process = process or Holdfast.process
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().split(maxsplit=2)
        if not answer or answer[0] != "ok":
            raise RuntimeError(" ".join(answer) or "the driver died")
        return float(answer[1]), int(answer[2])

    def save(self, path):
        return self.ask("save", path, *self.options)[0]

    def restore(self, path):
        return self.ask("load", path)[0]

    def list(self, path):
        return self.ask("list", path)[0]

    def slice(self, path, name, row):
        return self.ask("slice", path, name, row)[0]

    def peak_bytes(self, operation, path, args):
        process = self.start()
        if operation == "save":
            self.ask("tree", *Holdfast.tree_files, process=process)
        _, before = self.ask("reset_peak", process=process)
        if operation == "save":
            self.ask("save", path, *self.options, process=process)
        else:
            self.ask("load", path, process=process)
        _, peak = self.ask("peak", process=process)
        process.stdin.close()
        process.wait()
        return peak - before


def python_peak_bytes(peer, operation, path, args):
    script = pathlib.Path(__file__).with_name("python_peak.py")
    done = subprocess.run(
        [sys.executable, script, operation, peer.module, peer.label,
         args.tree, str(args.scale), path],
        check=True, stdout=subprocess.PIPE)
    return int(done.stdout)


class HoldfastPython(Peer):
    """holdfast's plain Python API."""

    peak_bytes = python_peak_bytes

    note = "every chunk verified on restore"
    module = "holdfast"

    def __init__(self, mode):
        require("holdfast")
        import holdfast
        self.holdfast = holdfast
        self.label = mode
        self.mode = None if mode == "none" else mode
        self.name = f"holdfast {mode}"

    def prepare(self, tree, scratch):
        self.tree = trees.nested(tree)

    def save(self, path):
        self.holdfast.save(path, self.tree, compression=self.mode)

    def restore(self, path):
        return self.holdfast.load(path)

    def list(self, path):
        opened = self.holdfast.open(path)
        return [(name, leaf.shape, leaf.dtype)
                for name, leaf in opened.items()]

    def slice(self, path, name, row):
        return self.holdfast.open(path)[name][row]


class OrbaxLegacy(Peer):
    name = "Orbax PyTreeCheckpointer"
    note = "numpy leaves; syncs what Orbax syncs"

    def __init__(self):
        require("orbax.checkpoint", "jax")
        import orbax.checkpoint as ocp
        self.ocp = ocp

    def prepare(self, tree, scratch):
        self.tree = trees.nested(tree)

    def save(self, path):
        self.ocp.PyTreeCheckpointer().save(path, self.tree)

    def restore(self, path):
        return self.ocp.PyTreeCheckpointer().restore(path)

    def list(self, path):
        return self.ocp.PyTreeCheckpointer().metadata(path)

    def slice(self, path, name, row):
        # Orbax restores only complete leaves, so read the row with TensorStore.
        return open_tensorstore(path, name)[row].read().result()


class HoldfastDropIn(OrbaxLegacy):
    """The drop-in, which Orbax's users get by changing the import."""

    name = "holdfast.orbax PyTreeCheckpointer"
    note = "zstd, Orbax's own chunk shapes; every chunk verified on restore"
    module, label = "holdfast.orbax", "zstd"
    peak_bytes = python_peak_bytes

    def __init__(self):
        require("holdfast")
        import holdfast.orbax
        self.ocp = holdfast.orbax


class OrbaxV1(OrbaxLegacy):
    name = "Orbax v1"

    def __init__(self):
        super().__init__()
        from orbax.checkpoint import v1
        self.v1 = v1

    def save(self, path):
        self.v1.save(path, self.tree)

    def restore(self, path):
        return self.v1.load(path)

    def list(self, path):
        return self.v1.metadata(path)

    def slice(self, path, name, row):
        return open_tensorstore(path / "state", name, "zarr3")[
            row].read().result()


class HoldfastDropInV1(OrbaxV1):
    name = "holdfast.orbax v1"
    note = HoldfastDropIn.note

    def __init__(self):
        require("holdfast")
        from holdfast.orbax import v1
        self.v1 = v1


def open_tensorstore(path, name, driver="zarr"):
    import tensorstore as ts
    return ts.open({"driver": driver, "kvstore": {
        "driver": "ocdbt", "path": name,
        "base": {"driver": "file", "path": f"{path}/"}}},
        open=True, read=True).result()


class TensorStore(Peer):
    name = "TensorStore"
    note = "Zarr v2 in OCDBT, zstd level 1, one transaction, futures in parallel"

    def __init__(self):
        require("tensorstore")
        import tensorstore as ts
        self.ts = ts

    def spec(self, path, name):
        return {"driver": "zarr", "kvstore": {
            "driver": "ocdbt", "path": name,
            "base": {"driver": "file", "path": f"{path}/"}}}

    def save(self, path):
        ts = self.ts
        context, transaction = ts.Context(), ts.Transaction(atomic=True)
        opened = [(array, ts.open(
            {**self.spec(path, name), "store_data_equal_to_fill_value": True,
             "metadata": {"compressor": {"id": "zstd", "level": 1},
                          "shape": array.shape, "chunks": array.shape}},
            dtype=array.dtype.name, create=True, context=context,
            transaction=transaction)) for name, array in self.tree.items()]
        writes = [future.result().write(array) for array, future in opened]
        for write in writes:
            write.result()
        transaction.commit_sync()

    def restore(self, path):
        context = self.ts.Context()
        opened = [self.ts.open(self.spec(path, name), open=True, read=True,
                               context=context) for name in self.tree]
        reads = [future.result().read() for future in opened]
        return [read.result() for read in reads]

    def list(self, path):
        context = self.ts.Context()
        database = self.ts.KvStore.open(
            {"driver": "ocdbt", "base": {"driver": "file",
                                         "path": f"{path}/"}},
            context=context).result()
        names = [key[:-len(b"/.zarray")].decode()
                 for key in database.list().result()
                 if key.endswith(b"/.zarray")]
        opened = [self.ts.open(self.spec(path, name), open=True, read=True,
                               context=context) for name in names]
        return [future.result() for future in opened]

    def slice(self, path, name, row):
        return open_tensorstore(path, name)[row].read().result()


class Dcp(Peer):
    name = "PyTorch DCP"
    note = "one process, its default FileSystemWriter, which syncs"

    def __init__(self):
        require("torch")
        import torch
        import torch.distributed.checkpoint as dcp
        self.torch, self.dcp = torch, dcp

    def tensor(self, array):
        if array.dtype.name == "bfloat16":
            return self.torch.from_numpy(array.view(np.int16)).view(
                self.torch.bfloat16)
        return self.torch.from_numpy(array)

    def prepare(self, tree, scratch):
        self.tree = {name: self.tensor(array) for name, array in tree.items()}

    def save(self, path):
        self.dcp.save(self.tree, checkpoint_id=path, no_dist=True)

    def restore(self, path):
        target = {name: self.torch.empty_like(tensor)
                  for name, tensor in self.tree.items()}
        self.dcp.load(target, checkpoint_id=path, no_dist=True)
        return target

    def list(self, path):
        return self.dcp.FileSystemReader(path).read_metadata()

    def slice(self, path, name, row):
        target = {name: self.torch.empty_like(self.tree[name])}
        self.dcp.load(target, checkpoint_id=path, no_dist=True)
        return target[name][row]


class Safetensors(Peer):
    name = "safetensors.numpy"
    note = "no compression, no checksum; we sync after it"

    def __init__(self):
        require("safetensors")
        import safetensors
        import safetensors.numpy
        self.safetensors = safetensors

    def save(self, path):
        self.safetensors.numpy.save_file(self.tree, path)
        sync(path)

    def restore(self, path):
        return self.safetensors.numpy.load_file(path)

    def list(self, path):
        with self.safetensors.safe_open(path, "numpy") as file:
            return [(name, slice_.get_shape(), slice_.get_dtype())
                    for name in file.keys()
                    for slice_ in [file.get_slice(name)]]

    def slice(self, path, name, row):
        with self.safetensors.safe_open(path, "numpy") as file:
            return file.get_slice(name)[row:row + 1]


class ZarrPython(Peer):
    name = "zarr-python"
    note = ("one array a directory, its default zstd, chunks of 8 MiB or less; "
            "bf16 as uint16; we sync after it")

    def __init__(self):
        require("zarr")
        import zarr
        self.zarr = zarr

    def prepare(self, tree, scratch):
        self.tree = {
            name: array.view(np.uint16) if array.dtype.name == "bfloat16"
            else array for name, array in tree.items()}

    def save(self, path):
        group = self.zarr.open_group(path, mode="w")
        for name, array in self.tree.items():
            rows = max(1, min(array.shape[0], (8 << 20) * array.shape[0] //
                              array.nbytes))
            group.create_array(name, shape=array.shape, dtype=array.dtype,
                               chunks=(rows, *array.shape[1:]))[...] = array
        sync(path)

    def restore(self, path):
        group = self.zarr.open_group(path, mode="r")
        return {name: array[...] for name, array in group.arrays()}

    def list(self, path):
        group = self.zarr.open_group(path, mode="r")
        return [(name, array.shape) for name, array in group.arrays()]

    def slice(self, path, name, row):
        return self.zarr.open_group(path, mode="r")[name][row]


class Raw(Peer):
    """The lower bound: the tree's bytes in one file, without any format."""

    note = "one file, a thread per CPU, written and synced; read by preadv"

    def __init__(self, fresh):
        self.fresh = fresh
        self.name = f"raw bytes, {'fresh' if fresh else 'reused'} buffer"
        self.buffer = None

    def prepare(self, tree, scratch):
        self.pieces, offset = [], 0
        if all(array.nbytes < RAW_PIECE_BYTES for array in tree.values()):
            joined = np.concatenate([array.reshape(-1).view(np.uint8)
                                     for array in tree.values()])
            tree = {"joined": joined}
        for array in tree.values():
            flat = memoryview(array.reshape(-1).view(np.uint8))
            for start in range(0, len(flat), RAW_PIECE_BYTES):
                self.pieces.append((offset + start,
                                    flat[start:start + RAW_PIECE_BYTES]))
            offset += len(flat)
        self.byte_count = offset
        if not self.fresh:
            self.buffer = new_buffer(offset)
            for start in range(0, offset, mmap.PAGESIZE):
                self.buffer[start] = 1

    def in_parallel(self, function, pieces):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(function, pieces))

    def save(self, path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

        def write(piece):
            offset, view = piece
            while view:
                count = os.pwrite(descriptor, view, offset)
                offset, view = offset + count, view[count:]

        self.in_parallel(write, self.pieces)
        os.fsync(descriptor)
        os.close(descriptor)

    def restore(self, path):
        target = self.buffer
        if target is None:
            target = new_buffer(self.byte_count)
        descriptor = os.open(path, os.O_RDONLY)

        def read(start):
            end = min(start + RAW_PIECE_BYTES, self.byte_count)
            while start < end:
                start += os.preadv(
                    descriptor, [memoryview(target)[start:end]], start)

        self.in_parallel(read, range(0, self.byte_count, RAW_PIECE_BYTES))
        os.close(descriptor)
        return target

    def list(self, path):
        return os.stat(path).st_size

    def slice(self, path, name, row):
        with open(path, "rb") as file:
            file.seek(self.byte_count // 2)
            return file.read(min(4096, self.byte_count))


def new_buffer(byte_count):
    """Returns memory with untouched pages, as malloc does."""
    return mmap.mmap(-1, byte_count)


def make_peers(args):
    """Returns (installed peers, [(name, what is missing)])."""
    modes = args.modes.split(",")
    makers = [(f"holdfast {mode}", lambda mode=mode: HoldfastPython(mode))
              for mode in modes]
    if args.driver:
        makers += [(f"holdfast {mode} (C++)", lambda mode=mode: Holdfast(
            mode, "orbax", args.driver)) for mode in modes]
        makers.append(("holdfast zstd (C++ v1)", lambda: Holdfast(
            "zstd", "orbax-v1", args.driver)))
    for kind in (HoldfastDropIn, HoldfastDropInV1, OrbaxLegacy, OrbaxV1,
                 TensorStore, Dcp, Safetensors, ZarrPython):
        makers.append((kind.name, kind))
    makers.append(("raw bytes, reused buffer", lambda: Raw(fresh=False)))
    makers.append(("raw bytes, fresh buffer", lambda: Raw(fresh=True)))
    peers, missing = [], []
    patterns = args.peers.split(",")
    for name, maker in makers:
        if not any(fnmatch.fnmatch(name.lower(), f"*{pattern.lower()}*")
                   for pattern in patterns):
            continue
        try:
            peers.append(maker())
        except NotInstalled as error:
            missing.append((name, str(error)))
    return peers, missing


class Run:
    """The times of all peers: `times[peer][operation]` in seconds."""

    def __init__(self, peers, tree, scratch, patience):
        self.peers, self.scratch, self.patience = peers, scratch, patience
        self.slice_name, self.slice_row = trees.slice_of(tree)
        self.times = {peer.name: {op: [] for op in OPERATIONS}
                      for peer in peers}
        self.sizes, self.errors, self.once = {}, {}, set()

    def one_round(self, number, counted):
        turn = number % len(self.peers)
        for peer in self.peers[turn:] + self.peers[:turn]:
            if peer.name in self.errors or peer.name in self.once:
                continue
            path = self.scratch / f"checkpoint-{self.peers.index(peer)}"
            remove(path)
            os.sync()
            try:
                spent = self.one_turn(peer, path)
            except Exception as error:  # noqa: BLE001: reported in the table
                self.errors[peer.name] = f"{type(error).__name__}: {error}"
                print(f"{peer.name}: {error}", file=sys.stderr)
                continue
            if not counted and max(spent.values()) > self.patience:
                self.once.add(peer.name)
            if counted or peer.name in self.once:
                for operation, seconds in spent.items():
                    self.times[peer.name][operation].append(seconds)
            self.sizes[peer.name] = stored_bytes(path)
            print(f"round {number} {peer.name}: " + ", ".join(
                f"{operation} {seconds:.4f}"
                for operation, seconds in spent.items()),
                  file=sys.stderr, flush=True)

    def one_turn(self, peer, path):
        calls = {"save": lambda: peer.save(path),
                 "restore": lambda: peer.restore(path),
                 "list": lambda: peer.list(path),
                 "slice": lambda: peer.slice(path, self.slice_name,
                                             self.slice_row)}
        spent = {}
        for operation in OPERATIONS:
            gc.collect()
            seconds, result = timed(calls[operation])
            spent[operation] = result if peer.self_timed else seconds
            del result
        return spent

    def medians(self, name):
        return {operation: statistics.median(seconds) if seconds else None
                for operation, seconds in self.times[name].items()}


def measure_peaks(run, args):
    """Measures the peak memory of holdfast's saves and loads, above what was
    resident before."""
    peaks = {}
    path = run.scratch / "peak"
    for peer in run.peers:
        if peer.peak_bytes is not None and peer.name not in run.errors:
            remove(path)
            peaks[peer.name] = {
                operation: peer.peak_bytes(operation, path, args)
                for operation in ("save", "restore")}
    remove(path)
    return peaks


def versions():
    from importlib import metadata
    found = {}
    for name in ("orbax-checkpoint", "tensorstore", "jax", "numpy", "zarr",
                 "safetensors", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def command_line(args):
    """Returns the command line without paths of this machine."""
    words = ["python3 bench/peers.py"]
    if args.driver:
        words.append("--driver DRIVER")
    for name in ("tree", "scale", "rounds", "modes", "peers", "patience"):
        words.append(f"--{name} {getattr(args, name)!s}".replace("*", "'*'"))
    return " ".join(words)


def cell(seconds, reference):
    if seconds is None:
        return "-"
    text = (f"{seconds:.2f} s" if seconds >= 1 else
            f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else
            f"{seconds * 1e6:.0f} us")
    if reference:
        text += f" ({seconds / reference:.2f})"
    return text


def markdown(run, missing, facts):
    """Returns the table with the facts that a reader needs."""
    installed = [peer for peer in run.peers]
    reference = run.medians(installed[0].name)
    lines = [f"# {facts['tree']}, scale {facts['scale']}: "
             f"{facts['leaves']} leaves, {facts['bytes'] / 2**20:.0f} MiB", "",
             f"Medians of {facts['rounds']} rounds; in brackets the ratio to "
             f"{installed[0].name}. Page cache warm, saves synced.", "",
             "| | save | restore | list | slice | stored |",
             "|---|--:|--:|--:|--:|--:|"]
    for peer in installed:
        if peer.name in run.errors:
            lines.append(f"| {peer.name} | failed: "
                         f"{run.errors[peer.name][:60]} | | | | |")
            continue
        medians = run.medians(peer.name)
        cells = [cell(medians[op], reference[op]) for op in OPERATIONS]
        ratio = run.sizes[peer.name] / facts["bytes"]
        star = " *" if peer.name in run.once else ""
        lines.append(f"| {peer.name}{star} | " + " | ".join(cells) +
                     f" | {ratio:.3f} |")
    for name, module in missing:
        lines.append(f"| {name} | not installed ({module}) | | | | |")
    lines += ["", "stored: bytes on disk over bytes of the tree."]
    if run.once:
        lines.append("\\* one round only, because it is slow.")
    for name, peak in facts["peaks"].items():
        lines.append(f"- {name}: memory rose by "
                     f"{peak['save'] / 2**20:.0f} MiB during a save, "
                     f"{peak['restore'] / 2**20:.0f} MiB during a restore "
                     "(its result included).")
    for peer in installed:
        if peer.note:
            lines.append(f"- {peer.name}: {peer.note}.")
    lines += ["", runs.machine_text(facts["machine"]),
              "Versions: " + ", ".join(
                  f"{name} {version}" for name, version in
                  facts["versions"].items() if version) + ".",
              "", f"    {facts['command']}", ""]
    return "\n".join(lines)


def parse_arguments():
    parser = runs.parser_of(__doc__)
    parser.add_argument("--driver",
                        help="the built bench/holdfast_driver: also time C++")
    parser.add_argument("--modes", default="zstd,fast,none")
    parser.add_argument("--peers", default="*",
                        help="only peers whose name has one of these parts")
    parser.add_argument("--patience", type=float, default=60.0,
                        help="seconds; slower peers run once")
    parser.add_argument("--no-warmup", action="store_true")
    return parser.parse_args()


def main():
    args = parse_arguments()
    import logging
    logging.disable(logging.ERROR)
    peers, missing = make_peers(args)
    if not peers:
        sys.exit("no peer is left to run")
    tree = trees.TREES[args.tree](args.scale)
    with tempfile.TemporaryDirectory(prefix="holdfast-peers-",
                                     dir=args.dir) as scratch:
        for peer in peers:
            peer.prepare(tree, pathlib.Path(scratch))
        run = Run(peers, tree, pathlib.Path(scratch), args.patience)
        if not args.no_warmup:
            run.one_round(0, counted=False)
        for number in range(1, args.rounds + 1):
            run.one_round(number, counted=True)
        peaks = measure_peaks(run, args)
        facts = {
            "tree": args.tree, "scale": args.scale, "rounds": args.rounds,
            "leaves": len(tree),
            "bytes": sum(array.nbytes for array in tree.values()),
            "peaks": peaks, "machine": runs.machine_facts(scratch),
            "versions": versions(), "command": command_line(args)}
    text = markdown(run, missing, facts)
    print(text)
    if args.out:
        facts.update(seconds=run.times, stored_bytes=run.sizes,
                     errors=run.errors, once=sorted(run.once),
                     missing=dict(missing))
        runs.write_results(args.out, text, facts)
    return 1 if run.errors else 0


if __name__ == "__main__":
    sys.exit(main())
