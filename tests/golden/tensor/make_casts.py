#!/usr/bin/env python3
"""Writes casts.bin: the results of every cast in TensorStore.

    python3 make_casts.py [OUT] [--count N] [--seed S]

Made with tensorstore 0.1.86, numpy 2.4.6 and ml_dtypes 0.6.0 on x86-64. numpy's
results are used where TensorStore has no type (uint2, uint4) or no cast
(complex to bool).

Format (little endian): "HFCASTS1", u32 number of sources, then for each source
    name, u32 element count, the elements, u32 number of targets,
    and for each target: name, the elements cast to it.
A name is a u8 length and that many ASCII characters.

The sources have these bit patterns: bool 0 and 1; int2, uint2, int4 and uint4
all values, some of them with upper bits, which are ignored; float4 all 16
values; 8-bit types all 256. Wider types have special values, neighbors of
powers of two, ties between values of narrower types, and seeded random
patterns.

For floats out of the range of uint32, the vector loops of TensorStore and numpy
give other results in the body of an array than in its tail. The sources here
are not contiguous, so that scalar loops run, which always give the same result.
"""
import argparse
import struct
import warnings

import ml_dtypes
import numpy as np
import tensorstore as ts

NAMES = """bool int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32
uint64 float4_e2m1fn float8_e3m4 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz
float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float16 bfloat16 float32 float64
complex64 complex128""".split()
SUB_BYTE = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4}
# name: (bits, mantissa bits)
FLOATS = {"float16": (16, 10), "bfloat16": (16, 7), "float32": (32, 23),
          "float64": (64, 52)}
# How many of the hand-picked patterns are always taken.
SPECIALS = 96


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def int_patterns(bits, count, rng):
    top = 1 << bits
    picks = [0, 1, 2, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1]
    for shift in range(bits):
        # Values near powers of two, and ties between floats with p bits.
        picks += [(1 << shift) + d for d in (-1, 0, 1)]
        for p in (2, 3, 4, 8, 11, 24, 53):
            if shift > p:
                tie = (1 << shift) + (1 << (shift - p))
                picks += [tie + d for d in (-1, 0, 1)] + [top - tie]
    return mix(picks, bits, count, rng)


def float_patterns(bits, mantissa, count, rng):
    sign = 1 << (bits - 1)
    infinity = sign - (1 << mantissa)
    quiet = infinity | 1 << (mantissa - 1)
    bias = ((sign >> mantissa) - 1) // 2
    one = bias << mantissa
    picks = [0, 1, 2, (1 << mantissa) - 1, 1 << mantissa, one, infinity - 1,
             infinity, infinity + 1, quiet, quiet + 1, sign - 1]
    value = np.array([0.5, 1.5, 2.5, 3.5, 6, 7, 15.5, 15.75, 127.9, 255.5, 448, 464,
                      464.1, 57344, 61440, 65504, 65519, 65520, 65535.9,
                      2147483520, 2147483648, 4294967040, 4294967296, 5e9,
                      9.2233714871e18, 9.223372036854775808e18, 1.8e19,
                      1.8446744073709551616e19, 3.3895e38, 3.4028235e38, 1e39,
                      2.0**-126, 2.0**-127, 1.5 * 2.0**-127, 2.0**-149, 1e-300])
    with np.errstate(all="ignore"):
        name = [k for k, v in FLOATS.items() if v == (bits, mantissa)][0]
        picks += value.astype(dtype_of(name)).view(f"u{bits // 8}").tolist()
    for exponent in range(-26, 70):
        base = (bias + exponent) << mantissa
        if not 0 < base < infinity:
            continue
        picks += [base, base + 1]
        for p in (1, 2, 3, 4, 5, 8, 11, 24):
            if mantissa >= p:
                tie = base + (1 << (mantissa - p))
                picks += [tie - 1, tie, tie + 1]
    picks = [code for pick in picks if 0 <= pick < sign
             for code in (pick, pick | sign)]
    return mix(picks, bits, count, rng)


def mix(picks, bits, count, rng):
    """Returns the first picks, a sample of the others, and random patterns."""
    picks = [pick % (1 << bits) for pick in picks]
    picks = list(dict.fromkeys(picks))
    first, others = picks[:SPECIALS], picks[SPECIALS:]
    rng.shuffle(others)
    picks = first + others[: (count - len(first)) * 3 // 4]
    rest = rng.integers(0, (1 << bits) - 1, count - len(picks), dtype=np.uint64,
                        endpoint=True)
    return np.array(picks + rest.tolist(), dtype=f"u{bits // 8}")


def source_elements(name, count, rng):
    if name == "bool":
        return np.array([False, True])
    if name in SUB_BYTE:
        n = 1 << SUB_BYTE[name]
        codes = list(range(n)) + [0xff - code for code in range(n)]
        return np.array(codes, np.uint8).view(dtype_of(name))
    if name == "float4_e2m1fn":
        return np.arange(16, dtype=np.uint8).view(dtype_of(name))
    dtype = dtype_of(name)
    if name.startswith("complex"):
        part = "float32" if name == "complex64" else "float64"
        real = source_elements(part, count, rng)
        parts = np.stack([real, np.roll(real, 3)], axis=-1)
        # A zero real part with a nonzero imaginary part is true as a bool, but
        # 0 as a real number.
        parts[-4:, 0] = 0
        parts[-2:, 1] = 0
        return np.ascontiguousarray(parts).view(dtype)[..., 0]
    if dtype.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(dtype)
    bits = 8 * dtype.itemsize
    if name in FLOATS:
        codes = float_patterns(bits, FLOATS[name][1], count, rng)
    else:
        codes = int_patterns(bits, count, rng)
    return codes.view(dtype)


def cast(elements, source, target):
    """Returns the elements cast by scalar loops, or None if neither library
    supports the cast."""
    apart = np.empty(2 * len(elements), elements.dtype)[::2]
    # Copies bytes, so that signaling NaNs do not change.
    item = elements.dtype.itemsize
    apart_bytes = np.lib.stride_tricks.as_strided(
        apart.view(f"V{item}"), elements.shape, apart.strides)
    apart_bytes[...] = elements.view(f"V{item}")
    pair = {source, target}
    if not pair & {"uint2", "uint4"} and not (
            source.startswith("complex") and target == "bool"):
        array = ts.array(apart, dtype=ts.dtype(source))
        result = ts.cast(array, ts.dtype(target)).read().result()
        if target in SUB_BYTE and source != target:
            # Clears the copies of the sign in the unused upper bits.
            mask = (1 << SUB_BYTE[target]) - 1
            result = (result.view(np.uint8) & mask).view(result.dtype)
        return result
    if "float8_e8m0fnu" in pair:
        return None  # TensorStore does not cast it by value
    try:
        return apart.astype(dtype_of(target))
    except TypeError:
        return None


def packed_name(name):
    return struct.pack("B", len(name)) + name.encode()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?", default="casts.bin")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--seed", type=int, default=20250101)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(args.seed)
    out = [b"HFCASTS1", struct.pack("<I", len(NAMES))]
    for name in NAMES:
        elements = source_elements(name, args.count, rng)
        results = [(target, cast(elements, name, target)) for target in NAMES]
        results = [(target, r) for target, r in results if r is not None]
        out += [packed_name(name), struct.pack("<I", len(elements)),
                elements.tobytes(), struct.pack("<I", len(results))]
        for target, result in results:
            out += [packed_name(target), result.tobytes()]
    with open(args.out, "wb") as file:
        file.write(b"".join(out))


if __name__ == "__main__":
    main()
