#!/usr/bin/env python3
"""Measures sizes and speeds of holdfast's compressions and their peers.

usage: codecs.py --bench BENCH [--states FOLDER] [--mib N] [--rounds N]
                 [--dir SCRATCH] [--out NAME]

BENCH is the built bench/holdfast_bench, FOLDER the output of bench/trained.py.
The arrays are normally distributed bf16 and f32 values of N MiB each, the tree
`llm` of bench/trees.py at the same size, and the trained states.

Sizes: holdfast and Orbax save checkpoints, whose stored bytes are counted leaf
by leaf. The other codecs encode pieces of 8 MiB, as holdfast cuts arrays. The
limit is the sum of the entropies of an array's byte planes.

Speeds: bytes of the arrays per processor time, in one thread on one core, with
pieces of 8 MiB in memory; medians of N rounds in which all codecs take turns.
C++ codecs (holdfast's and libzstd) run in BENCH. The other codecs run through
their Python packages, whose memory is touched before the timing starts.

--out writes NAME.md and NAME.json to bench/results/.
"""

import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import holdfast
import ml_dtypes
import numpy as np

import peers
import runs
import trees
from files import remove

PIECE_BYTES = 8 << 20
LEAF_BYTES_MIN = 64 << 10  # smaller leaves are compared as one
TIMED_BYTES_MIN = 1 << 20  # smaller groups are not timed
MODES = ("planes", "zstd", "fast")
BENCH_CODECS = (*MODES, "libzstd")
REFERENCE = "libzstd"
COMMAND = pathlib.Path(sysconfig.get_path("scripts")) / "holdfast"

# The bounds that planes should meet.
SIZE_OVER_LIMIT_MAX = 1.015
SIZE_OVER_RAW_MAX = 1.001
SPEED_MIN = {"encode": 1.4, "decode": 2.0}  # times libzstd at level 1


def flat_bytes(array):
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def limit_bytes(array):
    """Returns the sum of the entropies of the byte planes, in bytes."""
    planes = flat_bytes(array).reshape(-1, array.dtype.itemsize)
    bits = 0.0
    for plane in planes.T:
        counts = np.bincount(plane, minlength=256)
        counts = counts[counts > 0]
        bits -= (counts * np.log2(counts / plane.size)).sum()
    return float(bits) / 8


def pieces_of(arrays):
    for array in arrays.values():
        flat = np.ascontiguousarray(array).reshape(-1)
        step = max(1, PIECE_BYTES // array.dtype.itemsize)
        for start in range(0, flat.size, step):
            yield flat[start:start + step]


# Codecs of Python packages. encode(piece) returns the stored bytes, and
# decode(stored, piece) the content; decode uses only the dtype of `piece`.

class CBlosc:
    name = "c-blosc lz4 bitshuffle"

    def __init__(self):
        from numcodecs import blosc
        blosc.use_threads = False
        blosc.set_nthreads(1)
        self.codec = blosc.Blosc("lz4", 5, blosc.BITSHUFFLE)

    def encode(self, piece):
        # numcodecs does not support ml_dtypes.
        return self.codec.encode(piece.view(f"u{piece.dtype.itemsize}"))

    def decode(self, stored, piece):
        return self.codec.decode(stored)


class ZipNN:
    name = "ZipNN"

    def __init__(self):
        peers.require("zipnn")
        self.codecs = {}

    def codec(self, dtype):
        if dtype not in self.codecs:
            from zipnn import ZipNN as Codec
            self.codecs[dtype] = Codec(
                input_format="byte", threads=1, bytearray_dtype=(
                    "bfloat16" if dtype.itemsize == 2 else "float32"))
        return self.codecs[dtype]

    def prepare(self, piece):
        return bytearray(flat_bytes(piece))  # it writes into its argument

    def encode(self, piece, prepared):
        return self.codec(piece.dtype).compress(prepared)

    def decode(self, stored, piece):
        return self.codec(piece.dtype).decompress(stored)


class OpenZL:
    """Entropy-codes exponents separately and stores the rest, as OpenZL's
    profiles for floats do; uses its general compression for other dtypes."""

    name = "OpenZL"

    def __init__(self):
        peers.require("openzl")
        import openzl.ext as zl
        self.zl = zl
        self.contexts = {}
        self.decoder = zl.DCtx()

    def context(self, dtype):
        if dtype not in self.contexts:
            zl = self.zl
            compressor = zl.Compressor()
            compressor.set_parameter(zl.CParam.FormatVersion,
                                     zl.MAX_FORMAT_VERSION)
            split = {"bfloat16": zl.nodes.BFloat16Deconstruct,
                     "float32": zl.nodes.Float32Deconstruct}.get(dtype.name)
            graph = zl.graphs.Compress()(compressor)
            if split:
                graph = split()(compressor, zl.graphs.Store(),
                                zl.graphs.Entropy())
            compressor.select_starting_graph(graph)
            self.contexts[dtype] = compressor
        context = self.zl.CCtx()
        context.ref_compressor(self.contexts[dtype])
        return context

    def encode(self, piece):
        return self.context(piece.dtype).compress(
            [self.zl.Input(self.zl.Type.Numeric,
                           piece.view(f"u{piece.dtype.itemsize}"))])

    def decode(self, stored, piece):
        return self.decoder.decompress(stored)[0]


def content_of(decoded):
    """Returns the bytes of a Python codec's result."""
    if hasattr(decoded, "content"):
        return decoded.content.as_nparray().view(np.uint8)
    return np.frombuffer(decoded, np.uint8)


def processor_time(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def python_turn(codec, arrays, check):
    """Returns (seconds to encode, seconds to decode, bytes stored) for all
    pieces."""
    encode_seconds = decode_seconds = stored_bytes = 0
    for piece in pieces_of(arrays):
        prepared = ([codec.prepare(piece)] if hasattr(codec, "prepare")
                    else [])
        seconds, stored = processor_time(codec.encode, piece, *prepared)
        encode_seconds += seconds
        stored_bytes += len(stored)
        seconds, decoded = processor_time(codec.decode, stored, piece)
        decode_seconds += seconds
        if check and not np.array_equal(content_of(decoded),
                                        flat_bytes(piece)):
            raise RuntimeError(f"{codec.name}: decodes to different bytes")
    return encode_seconds, decode_seconds, stored_bytes


def bench_turn(bench, files):
    """Returns {stage: (ms, stored or None)} for the codecs in
    holdfast_bench."""
    stages = [f"{codec}_{operation}" for codec in BENCH_CODECS
              for operation in SPEED_MIN]
    done = subprocess.run(
        [bench, "--arrays", files, "--rounds", "1", *stages], check=True,
        stdout=subprocess.PIPE, encoding="utf-8")
    found = {}
    for line in done.stdout.splitlines()[1:]:
        stage, milliseconds, _, *stored = line.split()
        found[stage] = (float(milliseconds),
                        float(stored[0]) if stored else None)
    return found


def saved_sizes(path):
    """Returns {leaf: bytes stored} for a checkpoint of holdfast or Orbax."""
    done = subprocess.run([COMMAND, "ls", "--json", path], check=True,
                          stdout=subprocess.PIPE)
    return {leaf["name"]: leaf["stored_bytes"]
            for leaf in json.loads(done.stdout)["leaves"]
            if "stored_bytes" in leaf}


def leaf_sizes(arrays, scratch):
    """Returns {leaf: facts} for a tree, saved in every mode."""
    import orbax.checkpoint as ocp
    sizes = {}
    for mode in MODES:
        holdfast.save(scratch / mode, arrays, compression=mode, overwrite=True)
        sizes[mode] = saved_sizes(scratch / mode)
    remove(scratch / "orbax")
    ocp.PyTreeCheckpointer().save(scratch / "orbax", arrays)
    sizes["Orbax"] = saved_sizes(scratch / "orbax")
    return {name: {"dtype": array.dtype.name, "raw": array.nbytes, "limit": round(limit_bytes(array)),
                   **{by: sizes[by][name] for by in sizes}}
            for name, array in arrays.items()}


class Group:
    """Arrays that are timed together, with their results."""

    def __init__(self, name, arrays, scratch):
        self.name, self.arrays = name, arrays
        self.leaves = leaf_sizes(arrays, scratch)
        self.raw_bytes = sum(array.nbytes for array in arrays.values())
        self.files = scratch / f"{name.replace(' ', '-')}"
        trees.write_for_driver(arrays, self.files.with_suffix(".lines"),
                               self.files.with_suffix(".data"))
        self.stored = {}  # codec -> bytes of pieces
        self.speeds = {operation: {} for operation in SPEED_MIN}

    def note(self, codec, operation, seconds):
        rounds = self.speeds[operation].setdefault(codec, [])
        rounds.append(self.raw_bytes / max(seconds, 1e-6) / 1e9)

    def turn(self, bench, codecs, counted):
        for stage, (milliseconds, stored) in bench_turn(
                bench, self.files).items():
            codec, operation = stage.split("_")
            if counted:
                self.note(codec, operation, milliseconds / 1e3)
            if stored is not None:
                self.stored[codec] = round(stored * self.raw_bytes)
        for codec in codecs:
            encode, decode, self.stored[codec.name] = python_turn(
                codec, self.arrays, check=not counted)
            if counted:
                self.note(codec.name, "encode", encode)
                self.note(codec.name, "decode", decode)

    def check_pieces(self):
        """Checks that BENCH coded the bytes that checkpoints hold."""
        for mode in MODES:
            saved = sum_of(self.leaves, mode)
            if abs(saved - self.stored[mode]) > 0.02 * self.raw_bytes:
                raise RuntimeError(
                    f"{self.name}, {mode}: {self.stored[mode]} bytes in "
                    f"pieces, {saved} in a checkpoint")

    def sizes(self):
        """Returns {codec: bytes stored}, from saved checkpoints where they
        exist."""
        sizes = {field: sum_of(self.leaves, field)
                 for field in ("limit", *MODES, "Orbax")}
        return sizes | {codec: stored for codec, stored in
                        self.stored.items() if codec not in MODES}

    def speed(self, codec, operation):
        return statistics.median(self.speeds[operation][codec])

    def ratio(self, codec, operation):
        """Returns the median of the rounds' ratios to the reference. In one
        round, both ran under the same load from other programs."""
        return statistics.median(
            mine / other for mine, other in zip(
                self.speeds[operation][codec],
                self.speeds[operation][REFERENCE], strict=True))


def normals(mib):
    draw = np.random.default_rng(1)
    values = trees.normal(draw, (mib << 18,), 0.02)
    return {"normal bf16": {"bf16": trees.normal(draw, (mib << 19,), 0.02)
                            .astype(ml_dtypes.bfloat16)},
            "normal f32": {"f32": values}}


def model(mib):
    """Returns the random tree of bench/peers.py, in groups."""
    groups = {}
    for name, array in trees.llm(mib / 1024).items():
        what = name.removeprefix("opt.").split(".")[0]
        groups.setdefault(f"llm {what}", {})[name.replace(".", "-")] = array
    return groups


def flattened(tree, prefix=""):
    """Returns {name: array}; a name is the keys joined with "-"."""
    found = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            found.update(flattened(value, f"{prefix}{key}-"))
        elif np.size(value):
            found[prefix + key] = np.asarray(value)
    return found


def by_key(arrays):
    """Groups the leaves of a state by its top-level keys."""
    parts = {}
    for name, array in arrays.items():
        parts.setdefault(name.split("-")[0], {})[name] = array
    return parts


def groups_of(args):
    """Returns {group: arrays}, in the order of the tables."""
    found = normals(args.mib) | model(args.mib)
    folders = pathlib.Path(args.states).iterdir() if args.states else ()
    for path in sorted(folders):
        arrays = flattened(holdfast.load(path))
        found |= {f"{path.name} {key}": part
                  for key, part in by_key(arrays).items()}
    return found


def python_codecs():
    made = []
    for kind in (CBlosc, ZipNN, OpenZL):
        try:
            made.append(kind())
        except peers.NotInstalled as missing:
            print(f"{kind.name}: not installed ({missing})", file=sys.stderr)
    return made


# The report.

def sum_of(leaves, field):
    return sum(leaf[field] for leaf in leaves.values())


def judged(leaves):
    """Yields (name, facts) for each large leaf, and for all small leaves as
    one."""
    small = {}  # mostly metadata, so compared only with Orbax
    for name, leaf in leaves.items():
        if leaf["raw"] >= LEAF_BYTES_MIN:
            yield f"`{name}` ({leaf['dtype']})", leaf
        else:
            small[name] = leaf
    if small:
        yield (f"{len(small)} leaves below {LEAF_BYTES_MIN >> 10} KiB",
               {field: sum_of(small, field) for field in
                ("raw", *MODES, "Orbax")})


def timed(groups):
    return [group for group in groups if group.raw_bytes >= TIMED_BYTES_MIN]


def losses(groups):
    """Returns a line for each bound that planes miss."""
    lines = []
    for group in groups:
        for name, leaf in judged(group.leaves):
            where = f"{group.name}, {name}, {leaf['raw'] / 1e6:.2f} MB"
            planes, raw = leaf["planes"], leaf["raw"]
            limit = leaf.get("limit")
            if limit and planes > SIZE_OVER_LIMIT_MAX * limit:
                lines.append(f"{where}: {planes / raw:.4f} of raw where the "
                             f"limit is {limit / raw:.4f} "
                             f"({100 * (planes / limit - 1):+.1f} %)")
            if limit is not None and planes > SIZE_OVER_RAW_MAX * raw:
                lines.append(f"{where}: {planes / raw:.4f} of raw")
            if planes > leaf["Orbax"]:
                lines.append(f"{where}: {planes / raw:.4f} of raw, Orbax "
                             f"{leaf['Orbax'] / raw:.4f} "
                             f"({planes - leaf['Orbax']} bytes more)")
    for group in timed(groups):
        for operation, least in SPEED_MIN.items():
            ratio = group.ratio("planes", operation)
            if ratio < least:
                lines.append(
                    f"{group.name}: {operation} at {ratio:.2f} of libzstd's "
                    f"speed ({group.speed('planes', operation):.2f} GB/s)")
    return lines


def table(head, rows):
    return ["| | " + " | ".join(head) + " |", "|---" + "|--:" * len(head) + "|",
            *("| " + " | ".join(row) + " |" for row in rows), ""]


def size_row(name, groups):
    """Returns a table row for the sum of the groups."""
    raw = sum(group.raw_bytes for group in groups)
    return [name, f"{raw / 1e6:.1f} MB",
            *(f"{sum(group.sizes()[codec] for group in groups) / raw:.3f}"
              for codec in groups[0].sizes())]


def states_of(groups):
    """Returns {state: groups} for the states that have several groups."""
    states = {}
    for group in groups:
        states.setdefault(group.name.split()[0], []).append(group)
    states.pop("normal")
    return states


def markdown(groups, facts):
    lines = ["# Codecs: sizes and speeds", "",
             "Stored bytes over raw bytes. limit: the sum of the entropies of "
             "an array's byte planes. planes, zstd and fast are holdfast's; "
             "Orbax: files that Orbax wrote (zstd level 1).", ""]
    lines += table(["raw", *groups[0].sizes()], [
        *(size_row(group.name, [group]) for group in groups),
        *(size_row(f"**all of {state}**", parts)
          for state, parts in states_of(groups).items())])
    codecs = groups[0].speeds["encode"]
    for operation in SPEED_MIN:
        lines += [f"{operation}: GB/s of raw bytes on one core; in brackets "
                  "the ratio to libzstd at level 1 (2.00: twice as fast).", ""]
        lines += table(codecs, (
            [group.name] + [f"{group.speed(codec, operation):.2f} "
                            f"({group.ratio(codec, operation):.2f})"
                            for codec in codecs] for group in timed(groups)))
    found = losses(groups)
    lines += ["## Where planes lose", "",
              f"Planes take more than {SIZE_OVER_LIMIT_MAX} of the limit, "
              f"{SIZE_OVER_RAW_MAX} of raw, or Orbax's size; or they run at "
              f"less than {SPEED_MIN['encode']} (encode) or "
              f"{SPEED_MIN['decode']} (decode) times the speed of libzstd at "
              "level 1:", "",
              *(f"- {line}" for line in found or ["nowhere"]), ""]
    machine = facts["machine"]
    lines += [f"Machine: one of {machine['cores']} cores of {machine['cpu']}, "
              f"{machine['ram_gib']} GiB RAM, Python {machine['python']}; "
              f"medians of {facts['rounds']} rounds, processor time.",
              "Versions: " + ", ".join(
                  f"{name} {version}" for name, version in
                  facts["versions"].items() if version) + ".", "",
              *(f"    {command}" for command in facts["commands"]), ""]
    return "\n".join(lines)


def versions():
    from importlib import metadata
    found = {"holdfast": holdfast.__version__, **peers.versions()}
    for name in ("numcodecs", "zipnn", "openzl", "flax", "optax"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def stay_on_one_core():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    # Keep freed memory mapped, for codecs that return new bytes.
    libc = ctypes.CDLL(None)
    m_trim_threshold, m_mmap_threshold = -1, -3
    libc.mallopt(m_mmap_threshold, 32 << 20)
    libc.mallopt(m_trim_threshold, 1 << 30)


def main():
    parser = runs.parser_of(__doc__, has_tree=False)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--states", help="output folder of bench/trained.py")
    parser.add_argument("--mib", type=int, default=64)
    args = parser.parse_args()
    machine = runs.machine_facts("/")
    with tempfile.TemporaryDirectory(prefix="holdfast-codecs-",
                                     dir=args.dir) as name:
        scratch = pathlib.Path(name)
        groups = [Group(name, arrays, scratch)
                  for name, arrays in groups_of(args).items()]
        stay_on_one_core()
        codecs = python_codecs()
        for number in range(args.rounds + 1):
            for group in groups:
                group.turn(args.bench, codecs, counted=number > 0)
            for group in timed(groups):
                group.check_pieces()
            print(f"round {number} done", file=sys.stderr, flush=True)
    facts = {"machine": machine, "rounds": args.rounds, "mib": args.mib,
             "versions": versions(),
             "commands": ["python3 bench/trained.py STATES",
                          "python3 bench/codecs.py --bench BENCH --states "
                          f"STATES --mib {args.mib} --rounds {args.rounds}"]}
    text = markdown(groups, facts)
    print(text)
    if args.out:
        facts["groups"] = [
            {"name": group.name, "raw_bytes": group.raw_bytes,
             "stored_bytes": group.sizes(), "leaves": group.leaves,
             "gb_per_second": {
                 operation: {codec: [round(each, 4) for each in rounds]
                             for codec, rounds in by_codec.items()}
                 for operation, by_codec in group.speeds.items()}}
            for group in groups]
        runs.write_results(args.out, text, facts, indent=None)


if __name__ == "__main__":
    main()
