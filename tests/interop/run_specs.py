#!/usr/bin/env python3
"""Compares the TensorStore specs that real Orbax and holdfast.orbax build.

usage: run_specs.py [--cases N] [--seed N]

1. N random calls of each builder give equal JSON on both sides, or errors with
   the same class and message.
2. Each side writes through its own specs, and the other side reads what it
   wrote: zarr, zarr3, cast and json, in files and in OCDBT databases.
3. TensorStore reads databases that holdfast appended to, and the reverse.

Prints a summary; exit status 1 on any difference.
"""

# ruff: noqa: I001

import argparse
import asyncio
import json
import logging
import pathlib
import random
import sys
import tempfile

import ml_dtypes
import numpy as np
import orbax.checkpoint as real_ocp
import tensorstore as ts
from etils import epath
from orbax.checkpoint._src.serialization import (
    tensorstore_utils as real_utils,
)
from orbax.checkpoint._src.serialization import types as real_types
from orbax.checkpoint import type_handlers as real_handlers

import holdfast.orbax as hocp
from holdfast.orbax.serialization import handles
from holdfast.orbax.serialization import tensorstore_utils as our_utils

DTYPES = [np.dtype(name) for name in
          "bool int8 int16 int32 int64 uint8 uint32 float16 float32 float64 "
          "complex64".split()]
DTYPES += [np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn),
           np.dtype(ml_dtypes.int4)]
# Without s3://, for which Orbax builds specs of local files (doc/support.md).
DIRECTORIES = ["/ckpt/7/state", "/a/", "//a/b", "/", "/a/../b/./c//d",
               "relative/path", "", ".", "gs://bucket/a/b", "gs://bucket",
               "gs://bucket/", "gs:///a", "gs://bucket/a?b#c", "gs:/bucket/a",
               "/a b/ü", "/x/..", "../x"]
NAMES = ["w", "params.layer 0.kernel", "ü/x", "a/b", "", "_sharding"]


class Side:
    """One implementation, with its modules and classes."""

    def __init__(self, utils, info, save_args, restore_args):
        self.utils = utils
        self.info = info
        self.save_args = save_args
        self.restore_args = restore_args


def sides():
    real = Side(real_utils, real_types.ParamInfo, real_handlers.SaveArgs,
                real_handlers.RestoreArgs)
    ours = Side(our_utils, hocp.type_handlers.ParamInfo,
                hocp.type_handlers.SaveArgs, hocp.type_handlers.RestoreArgs)
    return real, ours


def random_shape(rng, rank=None):
    rank = rng.randint(0, 4) if rank is None else rank
    return tuple(rng.choice([0, 1, 2, 3, 4, 6, 7, 16, 30, 128])
                 for _ in range(rank))


def maybe(rng, choices):
    return rng.choice([None, rng.choice(choices)])


def random_info(rng):
    return dict(
        name=rng.choice(NAMES), parent_dir=epath.Path("/ckpt/7/state"),
        use_compression=rng.choice([True, False, None]),
        use_zarr3=rng.choice([True, False]),
        ocdbt_target_data_file_size=maybe(rng, [0, 1, 5000, 2**40, -1]))


def random_write(rng):
    """Draws the arguments of ArrayWriteSpec. Shapes mostly fit each other."""
    global_shape = random_shape(rng)
    write_shape = rng.choice([
        global_shape, tuple(max(1, d // 2) for d in global_shape),
        random_shape(rng)])
    return dict(
        global_shape=global_shape, write_shape=write_shape,
        dtype=rng.choice(DTYPES), target_dtype=maybe(rng, DTYPES),
        chunk_byte_size=maybe(rng, [0, 1, 2, 8, 64, 1000, 2**20]),
        shard_axes=rng.choice([(), (), (0,), (0, 1), (3,), (-1,)]),
        use_compression=rng.choice([True, False]),
        use_zarr3=rng.choice([True, False]),
        use_ocdbt=rng.choice([True, False]),
        ocdbt_target_data_file_size=maybe(rng, [0, 1, 100, 5000, 2**33, -5]),
        process_id=maybe(rng, [0, 17, "abc", "a_b", ""]),
        metadata_key=maybe(rng, [".zarray", "x.json"]),
        replica_separate_folder=rng.choice([True, False]),
        store_ocdbt_metadata_and_values_separately=rng.choice([True, False]))


def temporary(side, rng):
    path = rng.choice([None, None, "/tmp/m"])
    if path is None:
        return None
    return side.utils.OcdbtTemporaryMetadataContext(path=epath.Path(path))


def call_kvstore(side, rng):
    utils = side.utils
    write, process = None, None
    if rng.random() < 0.5:
        write = utils.OcdbtKvStoreWriteOptions(
            rng.choice(list(utils.OcdbtWriteMode)),
            maybe(rng, [0, 7, 2**40, -1]), rng.choice([True, False]))
    if rng.random() < 0.4:
        process = utils.OcdbtProcessSpec(
            rng.choice(["0", "r2", "", "a_b"]), rng.choice([True, False]))
    return utils.build_kvstore_tspec(
        rng.choice(DIRECTORIES), maybe(rng, NAMES[:4]),
        use_ocdbt=rng.choice([True, True, False]), ocdbt_process_spec=process,
        ocdbt_write_options=write,
        ocdbt_temporary_metadata_context=temporary(side, rng))


def call_write_spec(side, rng):
    spec = side.utils.ArrayWriteSpec(
        rng.choice(DIRECTORIES[:3]), rng.choice(NAMES), **random_write(rng),
        ext_metadata=maybe(rng, [{"k": 1}]),
        ocdbt_temporary_metadata_context=temporary(side, rng))
    m = spec.metadata
    return [spec.json, m.param_name, m.shape, str(m.dtype), m.write_shape,
            m.chunk_shape, m.use_ocdbt, m.use_zarr3, m.ext_metadata,
            m.compression_algorithm, m.compression_level]


def call_read_spec(side, rng):
    return side.utils.ArrayReadSpec(
        rng.choice(DIRECTORIES), rng.choice(NAMES[:4]),
        rng.choice([True, False]), use_ocdbt=rng.choice([True, False]),
        metadata_key=maybe(rng, [".zarray", "x.json"]),
        raise_array_data_missing_error=rng.choice([True, False]),
        target_dtype=maybe(rng, DTYPES)).json


def call_json_read(side, rng):
    info = side.info(**random_info(rng))
    if rng.random() < 0.1:
        info.name = None
    return side.utils.get_json_tspec_read(
        info, rng.choice([True, False]), maybe(rng, ["k"]),
        rng.choice([True, False]))


def call_json_write(side, rng):
    info = side.info(**random_info(rng))
    write = random_write(rng)
    arg = None
    if rng.random() < 0.7:
        arg = side.save_args(dtype=write["target_dtype"],
                             chunk_byte_size=write["chunk_byte_size"],
                             shard_axes=write["shard_axes"])
    return side.utils.get_json_tspec_write(
        info, write["use_ocdbt"], write["global_shape"], write["write_shape"],
        write["dtype"], write["process_id"], write["metadata_key"], arg)


def call_casts(side, rng):
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": "/a"}}
    value = np.zeros((2,), rng.choice(DTYPES))
    save = side.save_args(dtype=maybe(rng, DTYPES))
    restore = side.restore_args(dtype=maybe(rng, DTYPES))
    return [side.utils.get_cast_tspec_deserialize(dict(spec), restore),
            side.utils.get_cast_tspec_serialize(dict(spec), value, save)]


def call_chunk_bytes(side, rng):
    spec = rng.choice([
        None, {"base": "gs://b/x"}, {"base": "/x"}, {"driver": "ocdbt"},
        {"base": {"driver": "gcs", "bucket": "bbb"}},
        {"base": {"driver": "file", "path": "/a/"}},
        {"base": {"driver": "kvstack", "layers": [
            {"base": {"driver": "gcs"}}, {"prefix": "p", "base": "x"}]}}])
    return side.utils.calculate_chunk_byte_size(
        random_shape(rng) + rng.choice([(), (2**30,), (2**20, 2**9)]),
        rng.choice(DTYPES), chunk_byte_size=maybe(rng, [1, 2**29, 2**40]),
        ocdbt_target_data_file_size=maybe(rng, [0, 5, 2**35]),
        kvstore_spec=spec)


def call_remote(side, rng):
    return side.utils.is_remote_storage(rng.choice([
        "gs://a/b", "s3://a", "file:///a", "xgs://", {}, {"driver": "s3"},
        {"driver": "gcs_grpc"}, {"kvstore": "gs://x"}, {"driver": "file"},
        {"base": {"base": {"driver": "gcs"}}},
        {"driver": "kvstack", "layers": [{"base": "s3://a"}]},
        {"driver": "kvstack", "layers": [{"base": "file:///a"}]}]))


def call_sharding(side, rng):
    return side.utils.get_sharding_tensorstore_spec(
        rng.choice(DIRECTORIES), "".join(
            rng.choice("abc.?>ü~/") for _ in range(rng.randint(0, 9))))


def call_process_spec(side, rng):
    spec = side.utils.OcdbtProcessSpec
    text = "".join(rng.choice([
        "ocdbt.process_", "replica_", "0", "ab", "", "_", "ocdbtxprocess_"])
        for _ in range(3))
    return str(spec.parse(text))


CALLS = [call_kvstore, call_write_spec, call_read_spec, call_json_read,
         call_json_write, call_casts, call_chunk_bytes, call_remote,
         call_sharding, call_process_spec]


def outcome(call, side, seed):
    try:
        return "gives", json.dumps(call(side, random.Random(seed)))
    except Exception as error:  # both sides must raise the same
        for kind in (ValueError, TypeError, AssertionError):
            if isinstance(error, kind):
                return kind.__name__, str(error)
        return type(error).__name__, str(error)


def compare_builders(cases, seed):
    """Returns the number of calls, of errors among them, and of problems."""
    real, ours = sides()
    counts = {"calls": 0, "errors": 0, "problems": 0}
    for call in CALLS:
        for case in range(cases):
            case_seed = f"{seed} {call.__name__} {case}"
            want = outcome(call, real, case_seed)
            got = outcome(call, ours, case_seed)
            counts["calls"] += 1
            counts["errors"] += want[0] != "gives"
            if want == got:
                continue
            counts["problems"] += 1
            if counts["problems"] <= 10:
                print(f"{call.__name__} {case}:\n  real {want}\n  ours {got}")
    return counts


def array_specs(side, root, use_ocdbt, use_zarr3, target_dtype):
    """Returns the side's write spec and read spec for float32 values."""
    write = side.utils.ArrayWriteSpec(
        str(root), "p.w", global_shape=(6, 10), write_shape=(6, 10),
        dtype=np.dtype("float32"), target_dtype=target_dtype,
        chunk_byte_size=60, use_zarr3=use_zarr3, use_ocdbt=use_ocdbt).json
    read = side.utils.ArrayReadSpec(
        str(root), "p.w", use_zarr3, use_ocdbt=use_ocdbt,
        target_dtype=np.dtype("float32")).json
    return write, read


def ts_open(spec, **options):
    return ts.open(spec, **options,
                   context=real_utils.get_ts_context()).result()


def real_writes(spec, value):
    ts_open(spec, create=True, open=True).write(value).result()


def we_write(spec, value):
    handle = handles.open_spec(spec, create=True, open=True)
    handle.write(value)
    handle.commit()


def real_reads(spec):
    return ts_open(spec, open=True).read().result()


def we_read(spec):
    return handles.open_spec(spec, open=True).read()


def check_exchange(root):
    """Checks that both sides read each side's arrays."""
    value = (np.arange(60, dtype=np.float32) - 20).reshape(6, 10) / 4
    real, ours = sides()
    problems, checks = 0, 0
    for use_ocdbt in (True, False):
        for use_zarr3 in (True, False):
            for stored in (None, np.dtype(ml_dtypes.bfloat16),
                           np.dtype("int16"), np.dtype("float64")):
                want = value if stored is None else value.astype(
                    stored).astype(np.float32)
                for builder in (real, ours):
                    for writer in (real_writes, we_write):
                        place = root / f"exchange{checks}"
                        place.mkdir()
                        write, read = array_specs(
                            builder, place, use_ocdbt, use_zarr3, stored)
                        writer(write, value)
                        for reader in (real_reads, we_read):
                            checks += 1
                            got = reader(read)
                            if got.dtype == want.dtype and np.array_equal(
                                    got, want):
                                continue
                            problems += 1
                            print("exchange differs:", write, reader.__name__)
    return checks, problems


def check_metadata(root):
    """Checks array_metadata_from_tensorstore on holdfast's handles and on
    TensorStore's."""
    real, ours = sides()
    problems = 0
    for use_zarr3 in (False, True):
        place = root / f"metadata{use_zarr3}"
        place.mkdir()
        write, read = array_specs(real, place, True, use_zarr3, None)
        real_writes(write, np.zeros((6, 10), np.float32))
        infos = [side.info(name="p.w", parent_dir=epath.Path(place),
                           write_shape=(6, 10)) for side in (real, ours)]
        want = real.utils.array_metadata_from_tensorstore(
            ts_open(read), infos[0])
        for handle in (handles.open_spec(read), ts_open(read)):
            got = ours.utils.array_metadata_from_tensorstore(handle, infos[1])
            same = (got.name, got.shape, got.dtype, got.storage.chunk_shape,
                    got.storage.write_shape,
                    repr(got.storage.zarr_metadata)) == (
                want.name, want.shape, want.dtype, want.storage.chunk_shape,
                want.storage.write_shape, repr(want.storage.zarr_metadata))
            problems += not same
            if not same:
                print("array metadata differs:", got, want)
    return 4, problems


def check_json(root):
    """Checks that each side reads the other's JSON members, in files and in
    databases."""
    value = {"z": [1, 2.5, None, "ü"], "a": {}}
    problems, checks = 0, 0
    kvstores = {
        "file": {"driver": "file", "path": str(root / "doc.json")},
        "ocdbt": {"driver": "ocdbt", "base": f"file://{root}/docs/",
                  "path": "doc"}}
    for kvstore in kvstores.values():
        for k in range(4):
            spec = {"driver": "json", "kvstore": kvstore,
                    "json_pointer": f"/m{k}/x~1y"}
            if k % 2:
                ts_open(spec).write(value).result()
            else:
                member = handles.open_spec(spec)
                member.write(value)
                member.commit()
            checks += 2
            read = (ts_open(spec).read().result().item(),
                    handles.open_spec(spec).read())
            for got in read:
                if got != value:
                    problems += 1
                    print("json differs:", spec, got)
    return checks, problems


def check_chunk_shapes(root):
    """Checks what TensorStore and Orbax see of a save with write chunks and
    read chunks."""
    tree = {"w": np.arange(64, dtype=np.float32).reshape(8, 8)}
    checkpointer = hocp.Checkpointer(
        hocp.PyTreeCheckpointHandler(use_zarr3=True))
    checkpointer.save(root / "chunks", tree, save_args={
        "w": hocp.SaveArgs(write_chunk_shape=(4, 8), read_chunk_shape=(2, 4))})
    spec = real_utils.ArrayReadSpec(
        str(root / "chunks"), "w", True, use_ocdbt=True).json
    restored = real_ocp.PyTreeCheckpointer().restore(root / "chunks")["w"]
    problems = 0
    for opened in (ts_open(spec), handles.open_spec(spec)):
        layout = opened.chunk_layout
        good = (layout.write_chunk_template.shape == (4, 8)
                and layout.read_chunk_template.shape == (2, 4)
                and np.array_equal(restored, tree["w"]))
        problems += not good
        if not good:
            print("chunk shapes differ:", layout)
    return 2, problems


async def check_append(root):
    """Checks a database to which both sides append in turns."""
    spec = our_utils.build_kvstore_tspec(str(root / "turns"))
    our_utils.add_ocdbt_write_options(spec)
    rng = random.Random(5)
    expected, checks, problems = {}, 0, 0
    for turn in range(60):
        entries = {f"k{rng.randint(0, 99)}": rng.randbytes(
            rng.choice([0, 10, 3000])) for _ in range(3)}
        expected.update({k.encode(): v for k, v in entries.items()})
        context = real_utils.get_ts_context()
        if turn % 5 == 4:
            store = await ts.KvStore.open(spec, context=context)
            for key, value in entries.items():
                await store.write(key, value)
        else:
            store = await our_utils.open_kv_store(
                spec, our_utils.get_ts_context())
            for key, value in entries.items():
                await store.write(key, value)
            await store.commit()
        store = await ts.KvStore.open(
            spec, context=real_utils.get_ts_context())
        got = {key: (await store.read(key)).value
               for key in await store.list()}
        ours = await our_utils.open_kv_store(spec, None)
        also = {key: (await ours.read(key)).value for key in await ours.list()}
        checks += 2
        problems += (got != expected) + (also != expected)
    if problems:
        print("append: contents differ after a turn")
    return checks, problems


REFUSED = [
    {"driver": "nope"}, {}, {"driver": "zarr", "foo": 1}, {"driver": "zarr"},
    {"driver": "zarr", "kvstore": {"driver": "nope"}},
    {"driver": "zarr", "kvstore": {"path": "/a"}},
    {"driver": "zarr", "kvstore": {"driver": "file", "foo": 1, "bar": 2}},
    {"driver": "zarr", "kvstore": 5}, {"driver": "zarr", "kvstore": "/a"},
    {"driver": "zarr", "kvstore": "file:/a"},
    {"driver": "zarr", "kvstore": "bogus://a"},
    {"driver": "zarr", "kvstore": "memory://", "open": 5},
    {"driver": "zarr", "kvstore": "memory://", "dtype": "nope"},
    {"driver": "zarr", "kvstore": "memory://", "delete_existing": True},
    {"driver": "zarr3", "kvstore": "memory://", "create": True,
     "open": True, "delete_existing": True},
    {"driver": "zarr", "kvstore": "memory://", "create": True,
     "assume_metadata": True},
    {"driver": "zarr", "kvstore": "memory://", "metadata": {"foo": 1}},
    {"driver": "cast", "dtype": "int32"},
    {"driver": "cast", "base": 5, "dtype": "int32"},
    {"driver": "cast", "base": {"driver": "zarr", "kvstore": "memory://"}},
    {"driver": "json", "kvstore": "memory://a", "json_pointer": "x"},
    {"driver": "json", "kvstore": "memory://a", "json_pointer": "/~2"},
    {"driver": "json", "kvstore": "memory://a", "json_pointer": "/q"},
    {"driver": "zarr", "kvstore": {"driver": "ocdbt"}},
    {"driver": "zarr", "kvstore": {
        "driver": "ocdbt", "base": "memory://", "config": {"foo": 1}}},
    {"driver": "zarr", "kvstore": {
        "driver": "ocdbt", "base": "memory://",
        "config": {"max_inline_value_bytes": -1}}},
    {"driver": "zarr", "kvstore": {
        "driver": "ocdbt", "base": "memory://", "target_data_file_size": -1}},
    {"driver": "zarr", "kvstore": {"driver": "gcs"}},
    {"driver": "zarr", "kvstore": {"driver": "gcs", "bucket": "A"}},
    {"driver": "zarr", "kvstore": {"driver": "s3"}},
    {"driver": "zarr", "kvstore": "gs://b"},
    {"driver": "zarr", "kvstore": {
        "driver": "file", "path": "/a", "file_io_locking": {"mode": "bad"}}},
    {"driver": "zarr", "kvstore": {
        "driver": "file", "path": "/a", "file_io_sync": 5}},
]


def first_line(error):
    """Returns TensorStore's message without the code and the spec."""
    text = str(error).split(" [tensorstore_spec=")[0]
    code, colon, rest = text.partition(": ")
    return rest if colon and code.isupper() else text


def check_refusals():
    problems = 0
    for spec in REFUSED:
        texts = []
        for opener in (lambda s: ts.open(s).result().read().result(),
                       lambda s: handles.open_spec(s).read()):
            try:
                opener(spec)
                texts.append("no error")
            except (ValueError, OSError) as error:
                texts.append(first_line(error))
        # If something is absent, each side names the place in its own way.
        if texts[0] != texts[1] and "Error reading" not in texts[0]:
            problems += 1
            print("refusal differs:", spec, *texts, sep="\n  ")
    return len(REFUSED), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1500,
                        help="calls of each builder")
    parser.add_argument("--seed", default="1")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    counts = compare_builders(args.cases, args.seed)
    print(f"{counts['calls']} calls of builders, {counts['errors']} of them "
          f"errors, {counts['problems']} problems")
    checks, problems = 0, counts["problems"]
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for result in (check_exchange(root), check_metadata(root),
                       check_json(root), check_chunk_shapes(root),
                       asyncio.run(check_append(root)),
                       check_refusals()):
            checks += result[0]
            problems += result[1]
    print(f"{checks} reads and refusals compared, {problems} problems in all")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
