#!/usr/bin/env python3
"""Checks that `holdfast rescue` restores all that is undamaged, correctly.

usage: run_rescue.py HOLDFAST [--count N] [--seed S] [--keep DIR]
  HOLDFAST   the command line tool

N times, holdfast, stock Orbax or torch saves a random tree in a random format.
Then the checkpoint is damaged: files are removed, cut, partly zeroed, or get a
flipped bit; strange files are added; manifests are lost; the directory gets the
name of an unfinished save. Which tensors are intact follows from where their
bytes were before the damage; holdfast is not used to find out.

`holdfast rescue` must restore every intact tensor, bit for bit. Other tensors
that it restores must be right, too, unless the format has no checksum of the
changed bytes. It must name every tensor that it does not restore, exit with the
status that doc/rescue.md specifies, and leave its source unchanged. In the
cases that use --fill, every lost tensor must be the other step's. Prints each
failure with its seed; exit status 1 on any.
"""

import argparse
import hashlib
import json
import os
import pathlib
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np  # noqa: E402
import orbax_tools  # noqa: E402
import tensorstore as ts  # noqa: E402

import holdfast  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

# The dtypes that every format supports.
DTYPES = ["float32", "float16", "float64", "int32", "int64", "uint8", "bool"]
SHAPES = [(1,), (7,), (40,), (16, 12), (33, 64), (2, 3, 50), (120, 70)]
ALL = object()  # a set of names: every tensor may be wrong or lost


class Wrong(Exception):
    """The rescue did something wrong."""


def random_array(draw):
    dtype = np.dtype(draw.choice(DTYPES))
    shape = SHAPES[draw.integers(len(SHAPES))]
    if dtype == bool:
        return draw.integers(0, 2, shape).astype(bool)
    if draw.integers(3) == 0:  # compresses well
        return draw.integers(0, 5, shape).astype(dtype)
    raw = draw.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, np.uint8)
    return raw.view(dtype).reshape(shape).copy()


def random_tree(seed):
    draw = np.random.default_rng(seed)
    tree = {}
    for group in ("params", "opt", "ema")[: draw.integers(1, 4)]:
        tree[group] = {name: random_array(draw) for name in
                       ("w", "bias", "mu", "scale")[: draw.integers(1, 5)]}
    return tree


def other_values(tree, seed):
    """Returns a tree with the same shapes and dtypes, but other values."""
    draw = np.random.default_rng([seed, 1])
    return {group: {name: draw.permutation(array.reshape(-1)).reshape(array.shape)
                    for name, array in arrays.items()}
            for group, arrays in tree.items()}


def named(tree):
    return {f"{group}.{name}": array for group, arrays in tree.items()
            for name, array in arrays.items()}


# Where the bytes of each tensor are in the undamaged checkpoint.


class Map:
    """The places of tensors and metadata in an undamaged checkpoint.

    Attributes:
        extents: by tensor, the (file, begin, end) of its bytes, all of which it
            needs.
        keys: by tensor, the keys under which its parts are found.
        routes: pieces of metadata, each with the keys that it leads to.
        needed: metadata without which nothing can be known.
        vague: metadata that may say anything if its content is changed.
        is_checked: whether the format has checksums of tensors.
        checks: the files that have the checksums.
    """

    def __init__(self):
        self.extents = {}
        self.routes = []
        self.keys = {}
        self.needed = []
        self.vague = []
        self.is_checked = False
        self.checks = []

    def judge(self, names, damages):
        """Returns (the tensors that must be restored, those that may be
        wrong)."""
        changed = [damage for damage in damages if damage[3] == "content"]
        is_blind = not self.is_checked or any(
            touches(damages, (file, 0, 1 << 62)) for file in self.checks)
        if any(touches(damages, extent) for extent in self.needed):
            return set(), ALL
        if any(touches(changed, extent) for extent in self.vague):
            return set(), ALL
        must, may_be_wrong = set(), set()
        for name in names:
            if not any(touches(damages, extent) for extent in self.extents[name]):
                reached = set().union(*(
                    leads for extent, leads in self.routes
                    if not touches(damages, extent)))
                if self.keys.get(name, set()) <= reached:
                    must.add(name)
            elif is_blind and any(
                    touches(changed, extent) for extent in self.extents[name]):
                may_be_wrong.add(name)
        return must, may_be_wrong


def touches(damages, extent):
    file, begin, end = extent
    return any(damage[0] == file and damage[1] < end and begin < damage[2]
               for damage in damages)


def whole(path, root):
    return (str(path.relative_to(root)), 0, max(1, path.stat().st_size))


def map_directories(root, item, names):
    """Returns the Map of a layout with one directory per parameter."""
    found = Map()
    for name in names:
        directory = item / name
        found.extents[name] = [whole(file, root) for file in
                               sorted(directory.rglob("*")) if file.is_file()]
    return found


def map_databases(root, item, names):
    """Returns the Map of OCDBT databases. TensorStore lists the values of the
    merged database. Its root node and the processes' root nodes are routes to
    the keys in them."""
    found = Map()
    found.extents = {name: set() for name in names}
    for directory in [item, *sorted(item.glob("ocdbt.process_*"))]:
        if (directory / "manifest.ocdbt").exists():
            add_database(root, directory, names, found)
    return found


def add_database(root, directory, names, found):
    base = ts.KvStore.open({"driver": "file", "path": f"{directory}/"}).result()
    manifest = ts.ocdbt.dump(base).result()
    location = manifest["versions"][-1]["root"]["location"]
    leads = set()
    node = ts.ocdbt.dump(base, location).result()
    assert node["height"] == 0, "want small trees"
    for entry in node["entries"]:
        key = entry["key"]
        key = key.decode() if isinstance(key, bytes) else key
        name = key.split("/")[0]
        if name not in names:
            continue
        leads.add(key)
        found.keys.setdefault(name, set()).add(key)
        if "indirect_value" in entry:
            found.extents[name].add(place_of(root, directory,
                                             entry["indirect_value"]))
    found.routes.append((place_of(root, directory, location), leads))


def place_of(root, directory, text):
    _, prefix, name, offset, byte_count = text.split(":")
    file = (directory / prefix / name).relative_to(root)
    return (str(file), int(offset), int(offset) + int(byte_count))


def map_safetensors(root, files, names):
    found = Map()
    for file in files:
        content = file.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + length])
        relative = str(file.relative_to(root))
        head = (relative, 0, 8 + length)
        found.vague.append(head)
        for name, tensor in header.items():
            if name in names:
                begin, end = tensor["data_offsets"]
                found.extents[name] = [
                    head, (relative, 8 + length + begin, 8 + length + end)]
    return found


def members_of(root, file):
    """Returns, for each member of a zip archive, (name, extent of the member,
    extent of its entry in the central directory)."""
    relative = str(file.relative_to(root))
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        at = archive.start_dir
    content = file.read_bytes()
    rows = []
    ends = sorted(info.header_offset for info in infos) + [at]
    for info in infos:
        name, extra, comment = struct.unpack("<HHH", content[at + 28:at + 34])
        size = 46 + name + extra + comment
        end = ends[ends.index(info.header_offset) + 1]
        rows.append((info.filename, (relative, info.header_offset, end),
                     (relative, at, at + size)))
        at += size
    return rows, (relative, at, len(content))


class Entries(Map):
    """The Map of a zip archive.

    A changed entry of the central directory loses its member. If the directory
    as a whole is lost, the members are found by their own headers.
    """

    def __init__(self):
        super().__init__()
        self.is_checked = True
        self.directory = {}
        self.end = None

    def judge(self, names, damages):
        must, may_be_wrong = super().judge(names, damages)
        for name in names:
            if touches(damages, self.directory[name]):
                must.discard(name)
        # The archive was cut after the members: all members are found.
        return must, may_be_wrong


def map_npz(root, file, names):
    found = Entries()
    rows, found.end = members_of(root, file)
    for member, extent, entry in rows:
        name = member.removesuffix(".npy")
        if name in names:
            found.extents[name] = [extent]
            found.directory[name] = entry
    return found


def map_torch(root, file, names):
    """Returns the Map of a torch file; its storages are in the tensors'
    order."""
    found = Entries()
    rows, found.end = members_of(root, file)
    by_number = {}
    for member, extent, entry in rows:
        part = member.split("/", 1)[1]
        if part.startswith("data/"):
            by_number[int(part[5:])] = (extent, entry)
        elif part in ("data.pkl", "byteorder"):
            found.needed += [extent, entry]
    for number, name in enumerate(names):
        extent, found.directory[name] = by_number[number]
        found.extents[name] = [extent]
    return found


class Unpickler(pickle.Unpickler):
    """Reads torch's metadata without torch."""

    def find_class(self, module, name):
        if module == "builtins" or module == "collections":
            return super().find_class(module, name)
        return type(name, (), {"__init__": lambda self, *a: self.__dict__.update(
            args=a), "__setstate__": lambda self, state: self.__dict__.update(
            state if isinstance(state, dict) else {"state": state}),
            "__hash__": object.__hash__})


def map_dcp(root, names):
    found = Map()
    with open(root / ".metadata", "rb") as file:
        metadata = Unpickler(file).load()
    found.needed.append(whole(root / ".metadata", root))
    for index, place in metadata.storage_data.items():
        if index.fqn in names:
            found.extents.setdefault(index.fqn, []).append(
                (place.relative_path, place.offset, place.offset + place.length))
    return found


# Formats. Each function saves a tree below a directory and returns the
# checkpoint's path, its Map and a description.


def save_holdfast(tree, root, draw):
    options = {
        "compression": draw.choice(["planes", "zstd", "fast", None]),
        "zarr_format": draw.choice([2, 3]),
        "ocdbt": draw.choice([True, True, False]),
        "format": draw.choice(["orbax", "orbax-v1"]),
        "chunk_bytes": draw.choice([0, 2048, 8 << 20]),
    }
    path = root / "7"
    holdfast.save(path, tree, durable=False, **options)
    item = path / "state" if options["format"] == "orbax-v1" else path
    mapper = map_databases if options["ocdbt"] else map_directories
    found = mapper(path, item, named(tree))
    found.is_checked = True
    found.checks = [str(file.relative_to(path))
                    for file in path.rglob("_HOLDFAST_DIGESTS")]
    return path, found, str(options)


def save_also(tree, root, draw):
    path = root / "7"
    holdfast.save(path, tree, durable=False, also="safetensors", ocdbt=True,
                  compression=None)
    found = map_databases(path, path, named(tree))
    found.is_checked = True
    found.checks = ["_HOLDFAST_DIGESTS"]
    return path, found, "also safetensors"


def save_stock(tree, root, draw):
    api, zarr, ocdbt, compressed = (
        draw.choice(["orbax", "orbax-v1"]), draw.choice([2, 3]),
        draw.choice([True, False]), draw.choice([True, False]))
    path = root / "7"
    with orbax_tools.quiet_stderr():
        orbax_tools.save(tree, path, api=api, zarr=zarr, ocdbt=ocdbt,
                         compressed=compressed)
    item = orbax_tools.item_dir(path, api)
    mapper = map_databases if ocdbt else map_directories
    found = mapper(path, item, named(tree))
    # The text of `_METADATA` has no checksum.
    found.vague.append(whole(item / "_METADATA", path))
    return path, found, f"{api} zarr{zarr} ocdbt={ocdbt} zstd={compressed}"


def save_composite(tree, root, draw):
    """Saves each group of the tree as an item, and a JSON item with them."""
    import orbax.checkpoint as ocp
    path = root / "7"
    items = {group: ocp.args.PyTreeSave(arrays) for group, arrays in tree.items()}
    with orbax_tools.quiet_stderr():
        ocp.Checkpointer(ocp.CompositeCheckpointHandler()).save(
            path, ocp.args.Composite(words=ocp.args.JsonSave({"step": 7}), **items))
    found = Map()
    for group, arrays in tree.items():
        item = map_databases(path, path / group, arrays)
        for name in arrays:
            found.extents[f"{group}.{name}"] = item.extents[name]
            found.keys[f"{group}.{name}"] = {
                f"{group}/{key}" for key in item.keys[name]}
        found.routes += [(extent, {f"{group}/{key}" for key in leads})
                         for extent, leads in item.routes]
        found.vague.append(whole(path / group / "_METADATA", path))
    found.vague.append(whole(path / "_CHECKPOINT_METADATA", path))
    return path, found, ""


def converted(tree, root, to, name, **options):
    source = root / "source"
    holdfast.save(source, tree, durable=False)
    path = root / name
    holdfast.convert(source, path, format=to, durable=False, **options)
    shutil.rmtree(source)
    return path


def save_safetensors(tree, root, draw):
    if draw.random() < 0.5:
        path = converted(tree, root, "safetensors", "m.safetensors")
        return path, map_safetensors(root, [path], named(tree)), "one file"
    path = converted(tree, root, "safetensors", "m", data_file_bytes=4000)
    if path.is_file():
        return path, map_safetensors(root, [path], named(tree)), "one shard"
    found = map_safetensors(path, sorted(path.glob("*.safetensors")), named(tree))
    for index in path.glob("*.index.json"):
        found.vague.append(whole(index, path))
    return path, found, "shards"


def save_npz(tree, root, draw):
    if draw.random() < 0.5:
        path = root / "m.npz"
        write = draw.choice([np.savez, np.savez_compressed])
        write(path, **named(tree))
        return path, map_npz(root, path, named(tree)), write.__name__
    path = converted(tree, root, "npz", "m.npz")
    return path, map_npz(root, path, named(tree)), "converted"


def save_torch(tree, root, draw):
    path = root / "m.pt"
    state = {group: {name: torch.from_numpy(array.copy())
                     for name, array in arrays.items()}
             for group, arrays in tree.items()}
    torch.save(state, path)
    return path, map_torch(root, path, named(tree)), ""


def save_dcp(tree, root, draw):
    to = draw.choice(["dcp", "torch-dist"])
    path = converted(tree, root, to, "dcp", data_file_bytes=5000)
    found = map_dcp(path, named(tree))
    if (path / "_HOLDFAST_TREE").exists():
        found.vague.append(whole(path / "_HOLDFAST_TREE", path))
    return path, found, to


def save_megatron(tree, root, draw):
    path = converted(tree, root, "megatron-zarr", "mz")
    found = map_directories(path, path, named(tree))
    found.vague.append(whole(path / "_HOLDFAST_TREE", path))
    return path, found, ""


FORMATS = {"holdfast": save_holdfast, "also": save_also, "stock": save_stock,
           "composite": save_composite, "safetensors": save_safetensors, "npz": save_npz, "dcp": save_dcp,
           "megatron": save_megatron}
if torch is not None:
    FORMATS["torch"] = save_torch
WEIGHTS = {"holdfast": 4, "stock": 3, "safetensors": 2}
OF_ORBAX = ("holdfast", "also", "stock", "composite")


# Damages: (file, begin, end, "gone" or "content").


def files_of(path):
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file())


def relative_to(file, path):
    return str(file.relative_to(path.parent if path.is_file() else path))


def remove(path, draw):
    files = files_of(path)
    if len(files) < 2:
        return cut(path, draw)
    file = draw.choice(files)
    damage = (relative_to(file, path), 0, 1 << 62, "gone")
    file.unlink()
    return [damage]


def cut(path, draw):
    file = draw.choice(files_of(path))
    size = draw.randrange(file.stat().st_size + 1)
    damage = (relative_to(file, path), size, 1 << 62, "gone")
    os.truncate(file, size)
    return [damage]


def change(path, draw, new):
    files = [file for file in files_of(path) if file.stat().st_size > 0]
    file = draw.choice(files)
    content = bytearray(file.read_bytes())
    begin = draw.randrange(len(content))
    end = min(len(content), begin + new(content, begin))
    damage = (relative_to(file, path), begin, end, "content")
    file.write_bytes(content)
    return [damage]


def flip(path, draw):
    def one_bit(content, begin):
        content[begin] ^= 1 << draw.randrange(8)
        return 1
    return change(path, draw, one_bit)


def zero(path, draw):
    def zeros(content, begin):
        count = min(len(content) - begin, draw.randrange(1, 2000))
        content[begin:begin + count] = bytes(count)
        return count
    return change(path, draw, zeros)


def stray(path, draw):
    if path.is_file():
        return []
    directories = [path, *(entry for entry in path.rglob("*") if entry.is_dir())]
    name = draw.choice(["9.9", "junk.bin", "0" * 32, ".hidden", "c.tmp"])
    file = draw.choice(directories) / name
    if not file.exists():
        file.write_bytes(draw.randbytes(draw.randrange(100)))
    return []


def lose_manifests(path, draw):
    damages = []
    for file in files_of(path):
        if file.name == "manifest.ocdbt" and draw.random() < 0.7:
            damages.append((relative_to(file, path), 0, 1 << 62, "gone"))
            file.unlink()
    return damages


DAMAGES = [remove, remove, cut, cut, flip, flip, zero, stray, lose_manifests]


def uncommit(path):
    """Makes the checkpoint look as if its save ended before the last files."""
    for name in ("commit_success.txt", "_HOLDFAST_DIGESTS"):
        (path / name).unlink(missing_ok=True)
    record = path / "_CHECKPOINT_METADATA"
    try:
        metadata = json.loads(record.read_text())
        metadata["commit_timestamp_nsecs"] = None
        record.write_text(json.dumps(metadata))
    except (OSError, ValueError, TypeError):
        pass


def unfinished(path):
    new = path.with_name(f"{path.name}.orbax-checkpoint-tmp-123")
    path.rename(new)
    return new


# One case.


def tree_hash(path):
    digest = hashlib.sha256()
    for file in files_of(path):
        digest.update(relative_to(file, path).encode() + b"\0")
        digest.update(file.read_bytes())
    return digest.hexdigest()


def is_same(a, b):
    return (a.dtype == b.dtype and a.shape == b.shape and
            a.tobytes() == b.tobytes())


def read_all(path):
    """Returns {name: array}. If a composite has a single item, names begin with
    the item's name, which readers leave out."""
    opened = holdfast.open(path)
    is_item = (path / "_METADATA").exists()
    items = [entry.name for entry in path.iterdir() if entry.is_dir()]
    has_one = not is_item and len(items) == 1 and items[0] != "state"
    prefix = f"{items[0]}." if has_one else ""
    return {prefix + name: np.asarray(opened[name][...] if opened[name].shape else
                             opened[name][()])
            for name in opened
            if hasattr(opened[name], "dtype")}


def run_rescue(tool, path, out, fill):
    command = [tool, "rescue", "--json", str(path), str(out)]
    if fill is not None:
        command += ["--fill", str(fill)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # A damaged pickle may contain operations that holdfast refuses.
    if done.returncode == 3 and "which holdfast does not run" in done.stderr:
        return 1, None, done.stderr
    if done.returncode not in (0, 1):
        raise Wrong(f"exit status {done.returncode}: {done.stderr}")
    # If nothing is restored, nothing is printed.
    report = json.loads(done.stdout) if done.stdout else None
    return done.returncode, report, done.stderr


def check_case(tool, seed, root):
    draw = random.Random(seed)
    tree = random_tree(seed)
    want = named(tree)
    names = sorted(FORMATS)
    which = draw.choices(names, [WEIGHTS.get(name, 1) for name in names])[0]
    path, found, label = FORMATS[which](tree, root, draw)
    damages = []
    done = []
    for _ in range(draw.choice([0, 1, 1, 1, 2, 2, 3])):
        damage = draw.choice(DAMAGES)
        made = damage(path, draw)
        done.append((damage.__name__, made))
        damages += made
    if which in OF_ORBAX and draw.random() < 0.3:
        if draw.random() < 0.5:
            damages += [("_HOLDFAST_DIGESTS", 0, 1 << 62, "gone")]
            uncommit(path)
            done.append("uncommitted")
        if draw.random() < 0.7:
            path = unfinished(path)
            done.append("unfinished")
    fill = None
    if draw.random() < 0.25:
        fill = root / "fill"
        holdfast.save(fill, other_values(tree, seed), durable=False)
    told = f"{which} {label} {done} fill={fill is not None}"
    before = tree_hash(path)
    try:
        status, report, error = run_rescue(tool, path, root / "out", fill)
        must, may_be_wrong = found.judge(want, damages)
        judge_result(want, must, may_be_wrong, damages, status, report, error,
                     root, fill)
        if tree_hash(path) != before:
            raise Wrong("the source was written to")
    except Wrong as wrong:
        raise Wrong(f"{told}: {wrong}") from None
    return which, len(want), len(must)


def judge_result(want, must, may_be_wrong, damages, status, report, error, root,
                 fill):
    if report is None:
        if status != 1:
            raise Wrong(f"it failed, with exit status {status}")
        if must:
            raise Wrong(f"nothing came back, want {sorted(must)}: {error}")
        if (root / "out").exists():
            raise Wrong("it failed and wrote")
        return
    filled = {leaf["leaf"] for leaf in report["lost"] if leaf["filled"]}
    lost = {leaf["leaf"] for leaf in report["lost"] if not leaf["filled"]}
    got = read_all(root / "out")
    recovered = set(got) - filled
    if must - recovered:
        reasons = [leaf for leaf in report["lost"] if leaf["leaf"] in must]
        raise Wrong(f"lost although whole: {sorted(must - recovered)}: {reasons} "
                    f"{report['notes']}")
    for name in recovered & set(want):
        if is_same(got[name], want[name]):
            continue
        if may_be_wrong is ALL or name in may_be_wrong:
            continue
        raise Wrong(f"{name} is wrong")
    if may_be_wrong is not ALL:
        unknown = {name for name in recovered - set(want)}
        if unknown:
            raise Wrong(f"came from nowhere: {sorted(unknown)}")
    missing = set(want) - set(got)
    # A lost item is reported by the item's name.
    lost |= {name for name in missing if name.split(".")[0] in lost}
    if report["names_are_known"] and missing - lost and may_be_wrong is not ALL:
        raise Wrong(f"not reported: {sorted(missing - lost)}")
    if (missing or filled) and report["ok"] and may_be_wrong is not ALL:
        raise Wrong(f"is said to be whole without {sorted(missing)}")
    if (status == 0) != report["ok"]:
        raise Wrong(f"exit status {status}, and ok is {report['ok']}")
    unchecked = set(report["unchecked"])
    unsaid = {name for name in recovered & set(want)
              if not is_same(got[name], want[name])} - unchecked
    if unsaid and may_be_wrong is not ALL:
        raise Wrong(f"wrong, and not said to be unchecked: {sorted(unsaid)}")
    is_fine = report["ok"] or unchecked or not report["checksums_are_known"]
    if not damages and not is_fine:
        raise Wrong(f"is whole, and not said to be: {report}")
    if fill is not None:
        other = read_all(fill)
        for name in filled & set(want):
            if not is_same(got[name], other[name]):
                raise Wrong(f"{name} is not as in the step that fills")
        if missing and may_be_wrong is not ALL:
            raise Wrong(f"not filled: {sorted(missing)} {report['lost']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("holdfast")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    tool = str(pathlib.Path(arguments.holdfast).resolve())
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="rescue-"))
    failures = 0
    formats, tensors, whole_ones = {}, 0, 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        root = scratch / str(seed)
        root.mkdir()
        try:
            which, count, must = check_case(tool, seed, root)
            formats[which] = formats.get(which, 0) + 1
            tensors += count
            whole_ones += must
        except Exception as wrong:  # noqa: BLE001: with the seed
            failures += 1
            print(f"FAILED seed {seed}: {wrong!r}", flush=True)
            if arguments.keep:
                shutil.copytree(root, arguments.keep / str(seed),
                                dirs_exist_ok=True)
        shutil.rmtree(root)
    shutil.rmtree(scratch)
    print(f"formats: {dict(sorted(formats.items()))}")
    print(f"{arguments.count} checkpoints, {tensors} tensors, {whole_ones} whole; "
          f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
