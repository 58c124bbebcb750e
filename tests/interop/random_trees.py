"""Seeded random trees and save options for the tests against real Orbax.

Orbax accepts all trees: their parameter names are unique, no array has size
zero, and at least one leaf is not empty.
"""

import collections
import dataclasses
import re

import jax.numpy as jnp
import numpy as np

from tree_lines import DTYPES, NARROW_MASKS

Moments = collections.namedtuple("Moments", ["mu", "nu"])
Single = collections.namedtuple("Single", ["only"])
Empty = collections.namedtuple("Empty", [])

PLAIN_KEYS = ["params", "w", "b", "kernel", "bias", "layer_0", "layer_10",
              "layer_2", "opt", "mu", "nu", "0", "1", "10", "A", "Z", "_x"]
ODD_KEYS = ["a.b", "a.b.c", "sl/ash", "deep/er/still", "with space", " lead",
            "trail ", "q'uote", 'dq"uote', "both'\"", "tab\tkey",
            "new\nline", "\x01ctrl\x1f", "del\x7f", "é", "日本語", "🌊", "\u00a0nbsp",
            "\u200bzero", "ümlaut.dot", "%41", "a~b", "a~0b", "c:", "{}", "[0]",
            "(1,)", "-", "dot.", "end..", "$x", "*", "?", "#", "a,b", "a=b",
            "None", "true", "é\u0301", "\ud7ff", "\ufffd", "~"]
# Keys that cannot be file names; used only in databases.
DATABASE_KEYS = ["", "back\\slash", ".", "..", ".zarray", "nul\0nul", "x/", "x//y", "k" * 300]


@dataclasses.dataclass
class Case:
    """One tree and how it is saved."""

    seed: int
    tree: object
    api: str  # "orbax" or "orbax-v1"
    zarr: int
    ocdbt: bool
    compression: str  # "planes", "zstd", "fast", "none"
    chunk_bytes: int  # 0: one chunk per array

    def options(self):
        return {"format": self.api, "zarr": self.zarr,
                "ocdbt": int(self.ocdbt), "compression": self.compression,
                "chunk": self.chunk_bytes}

    def __str__(self):
        return f"seed {self.seed} " + " ".join(
            f"{name}={value}" for name, value in self.options().items())


class Generator:
    """Draws one tree."""

    def __init__(self, seed, api, ocdbt):
        self.random = np.random.default_rng(seed)
        self.api = api
        self.ocdbt = ocdbt
        self.names = set()
        self.leaf_count = 0

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def root(self):
        if self.chance(0.03):
            self.names.add("")
            return self.array()
        while True:
            self.names.clear()
            self.leaf_count = 0
            tree = self.container((), depth=0)
            if self.leaf_count:
                return tree

    def key(self):
        odd = self.random.random()
        if odd < 0.06 and self.ocdbt:
            return self.pick(DATABASE_KEYS)
        return self.pick(ODD_KEYS if odd < 0.35 else PLAIN_KEYS)

    def claim(self, path):
        """Returns whether the name is free: no other parameter has it, or is
        below or above it. Reserves a free name."""
        name = ".".join(path)
        for other in self.names:
            if (name == other or name.startswith(other + "/") or
                    other.startswith(name + "/")):
                return False
        self.names.add(name)
        return True

    def container(self, path, depth):
        kind = self.random.random()
        count = int(self.random.integers(1, 6))
        if kind < 0.72 or depth == 0 and kind < 0.9:
            return self.dict(path, depth, count)
        if kind < 0.82:
            if self.chance(0.15):
                count = 12  # "10" sorts before "2"
            return [self.child(path + (str(i),), depth) for i in range(count)]
        if kind < 0.91:
            return tuple(self.child(path + (str(i),), depth)
                         for i in range(count))
        if kind < 0.96:
            return Moments(*(self.child(path + (field,), depth)
                             for field in Moments._fields))
        return Single(self.child(path + ("only",), depth))

    def dict(self, path, depth, count):
        members = {}
        for _ in range(count):
            key = self.key()
            if key not in members:
                members[key] = self.child(path + (key,), depth)
        return members

    def child(self, path, depth):
        if depth < 4 and self.chance(0.35):
            return self.container(path, depth + 1)
        if not self.claim(path):
            return None
        return self.leaf(".".join(path))

    def leaf(self, name):
        kind = self.random.random()
        if kind < 0.12:
            return self.pick([None, {}, [], (), Empty()])
        self.leaf_count += 1
        if kind < 0.70:
            return self.array()
        # Orbax uses a string's name as a JSON pointer: "~" must be an escape.
        if kind < 0.80 and not re.search("~(?![01])", name):
            return self.pick(["", "text", "é\n\"'\\", "日本語 🌊", "x" * 2000])
        if kind < 0.83 and self.api == "orbax":
            return self.pick([np.float32(1.5), np.int8(-3), np.float64(2.5),
                              np.uint16(9), np.complex64(1 - 2j),
                              np.float16(0.1)])
        return self.pick([True, False, 0, -1, 2**63 - 1, -2**63, 1.5, -0.0,
                          float("inf"), float("nan"), 5e-324, 7])

    def shape(self):
        rank = int(self.random.integers(0, 7))
        if self.chance(0.12):
            return (int(self.random.integers(100, 400)),
                    int(self.random.integers(20, 200)))
        return tuple(int(n) for n in self.random.integers(1, 6, size=rank))

    def array(self):
        name = self.pick(list(DTYPES))
        shape = self.shape()
        count = int(np.prod(shape))
        dtype = DTYPES[name]
        raw = self.raw_bytes(count * dtype.itemsize)
        raw &= 1 if name == "bool" else NARROW_MASKS.get(name, 0xFF)
        array = raw.view(dtype).reshape(shape)
        if self.chance(0.4):
            return jnp.asarray(array)
        if array.ndim >= 2 and self.chance(0.2):
            return np.asfortranarray(array)
        return array

    def raw_bytes(self, byte_count):
        kind = self.random.random()
        if kind < 0.15:
            return np.zeros(byte_count, np.uint8)
        if kind < 0.5:
            return (np.arange(byte_count) % 7).astype(np.uint8)
        return self.random.integers(0, 256, byte_count, dtype=np.uint8)


def make_case(seed):
    """Returns the seed's case. Layouts take turns, the rest is random."""
    random = np.random.default_rng([seed, 1])
    api = "orbax-v1" if seed % 3 == 2 else "orbax"
    ocdbt = seed % 4 in (0, 1)
    zarr = 2 if seed % 2 == 0 else 3
    compression = ["planes", "zstd", "none", "fast"][
        int(random.integers(0, 4))]
    chunk = [0, 0, 64, 1000, 4096][int(random.integers(0, 5))]
    tree = Generator([seed, 2], api, ocdbt).root()
    return Case(seed, tree, api, zarr, ocdbt, compression, chunk)
