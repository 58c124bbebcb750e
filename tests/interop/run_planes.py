#!/usr/bin/env python3
"""Checks that stock tools read checkpoints with byte planes, bit for bit.

usage: run_planes.py SAVE_TREES [--flips N]

1. For every element type, zarr 2 and 3, database or directories, and one chunk
   or several: stock Orbax (v0, v1) and TensorStore read each array. zarr-python
   reads the arrays in directories whose element type it supports.
2. numcodecs (c-blosc) and python-blosc2 decode every stored stream.
3. TensorStore notices every one of N flipped bits in the chunks of each zarr
   version that changes an element.
"""

import argparse
import pathlib
import random
import sys
import tempfile
import time

import blosc2
import ml_dtypes
import numcodecs.blosc
import numpy as np
import orbax_tools as tools
import tensorstore as ts
import tree_lines
import zarr

BLOSC_HEADER_BYTES = 16
DTYPES = [np.dtype(name) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "float16", "float32", "float64", "complex64", "complex128")]
DTYPES += [np.dtype(getattr(ml_dtypes, name)) for name in (
    "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "int4")]
ITEM_BYTES_MIN = 2  # smaller elements have no planes


def make_arrays(seed):
    """Returns an array of noise for each element type, and arrays that compress
    better: zeros, half zeros, equal rows, a ramp."""
    draw = np.random.default_rng(seed)
    arrays = {}
    for dtype in DTYPES:
        values = draw.normal(0, 1 if dtype.kind in "fcV" else 40, (97, 113))
        if dtype == np.bool_:
            values = values > 0
        elif dtype.name == "int4":
            values = np.clip(values, -8, 7).astype(np.int8)
        elif dtype.kind == "u":
            values = np.abs(values)
        arrays[dtype.name] = values.astype(dtype)
    weights = draw.normal(0, 0.02, (300, 256)).astype(np.float32)
    arrays["zeros"] = np.zeros((300, 256), np.float32)
    arrays["half"] = np.where(np.arange(300)[:, None] < 150, weights, 0)
    arrays["half"] = arrays["half"].astype(np.float32)
    arrays["rows"] = np.tile(weights[:1], (300, 1))
    arrays["ramp"] = np.arange(76800, dtype=np.int64).reshape(300, 256)
    arrays["large"] = draw.normal(0, 1, (1000, 1100)).astype(ml_dtypes.bfloat16)
    return arrays


def same(want, got):
    """Whether shape, element type and bits are equal."""
    got = np.asarray(got)
    return (want.shape == got.shape and want.dtype == got.dtype and
            want.tobytes() == got.tobytes())


class Planes:
    """Checks checkpoints that the engine has written."""

    def __init__(self, driver, scratch):
        self.driver, self.scratch = driver, scratch
        self.counts = {}
        self.failures = []

    def expect(self, what, is_good, detail):
        self.counts[what] = self.counts.get(what, 0) + 1
        if not is_good:
            self.failures.append(f"{what}: {detail}")
            print(self.failures[-1], flush=True)

    def check_layout(self, api, zarr_format, ocdbt, chunk):
        arrays = make_arrays(zarr_format * 2 + ocdbt)
        label = f"{api}-{zarr_format}-{ocdbt}-{chunk}"
        path = self.scratch / label
        self.driver.save(arrays, path, self.scratch, format=api,
                         zarr=zarr_format, ocdbt=ocdbt, compression="planes",
                         chunk=chunk)
        restore = tools.restore_v1 if api == "orbax-v1" else tools.restore_v0
        restored = restore(path)
        item = tools.item_dir(path, api)
        for name, want in arrays.items():
            self.expect("orbax", same(want, restored[name]), f"{label} {name}")
            array = tools.open_parameter(item, name, zarr=zarr_format,
                                         ocdbt=bool(ocdbt))
            self.expect("tensorstore",
                        same(want, array.result().read().result()),
                        f"{label} {name}")
            if not ocdbt:
                self.check_zarr_python(item / name, want, f"{label} {name}")
                if zarr_format == 2:
                    self.check_streams(item / name, want, f"{label} {name}")

    def check_zarr_python(self, directory, want, label):
        if want.dtype.kind == "V" or want.dtype.name == "int4":
            return  # zarr-python has no such element type
        try:
            array = zarr.open_array(directory, mode="r")
        except Exception as error:  # noqa: BLE001: e.g. "data type not known"
            if "bfloat16" in str(error) or "float8" in str(error):
                return
            raise
        self.expect("zarr-python", same(want, array[...]), label)

    def check_streams(self, directory, want, label):
        """Decodes the stored chunks without a zarr reader."""
        if want.dtype.itemsize < ITEM_BYTES_MIN or want.nbytes < 4096:
            return
        for path in sorted(directory.iterdir()):
            if path.name.startswith("."):
                continue
            stream = path.read_bytes()
            # A zstd frame, recognized by its first word, is not a blosc
            # container.
            if stream[:4] == b"\x28\xb5\x2f\xfd":
                continue
            decoded = bytes(numcodecs.blosc.decompress(stream))
            self.expect("c-blosc 2", decoded == blosc2.decompress2(stream),
                        f"{label} {path.name}")
            if len(list(directory.iterdir())) == 2:
                self.expect("c-blosc", decoded == want.tobytes(), label)

    def check_flips(self, zarr_format, flip_count):
        want = make_arrays(5)["bfloat16"]
        path = self.scratch / f"flips-{zarr_format}"
        self.driver.save({"w": want}, path, self.scratch, format="orbax",
                         zarr=zarr_format, ocdbt=0, compression="planes",
                         chunk=0)
        name = "0.0" if zarr_format == 2 else "c/0/0"
        chunk = path / "w" / name
        whole = chunk.read_bytes()
        draw = random.Random(zarr_format)
        for _ in range(flip_count):
            at, bit = draw.randrange(len(whole)), draw.randrange(8)
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            chunk.write_bytes(damaged)
            try:
                got = ts.open({
                    "driver": "zarr" if zarr_format == 2 else "zarr3",
                    "kvstore": f"file://{path}/w/",
                }, context=ts.Context()).result().read().result()
                is_noticed = same(want, got)
            except ValueError:
                is_noticed = True
            self.expect(f"flips in zarr {zarr_format}", is_noticed,
                        f"byte {at} of {len(whole)}, bit {bit}")
        chunk.write_bytes(whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("save_trees")
    parser.add_argument("--flips", type=int, default=200)
    args = parser.parse_args()
    start = time.monotonic()
    driver = tree_lines.Driver(args.save_trees)
    with tempfile.TemporaryDirectory(
            prefix="holdfast-planes-", dir=tools.scratch_root()) as scratch:
        planes = Planes(driver, pathlib.Path(scratch))
        for api in ("orbax", "orbax-v1"):
            for zarr_format in (2, 3):
                for ocdbt in (0, 1):
                    for chunk in (0, 16384):
                        planes.check_layout(api, zarr_format, ocdbt, chunk)
        for zarr_format in (2, 3):
            planes.check_flips(zarr_format, args.flips)
    driver.close()
    counts = ", ".join(f"{n} {what}" for what, n in planes.counts.items())
    print(f"{counts}: {len(planes.failures)} failures in "
          f"{time.monotonic() - start:.0f} s")
    return 1 if planes.failures or len(planes.counts) != 7 else 0


if __name__ == "__main__":
    sys.exit(main())
