"""The Python half of tree_lines.h, and the client of the save_trees program.

Trees are dicts, lists, tuples and namedtuples of numpy and jax arrays, Python
and numpy scalars, strings, None and Ellipsis (a placeholder).
"""

import subprocess

import jax
import ml_dtypes
import numpy as np

DTYPES = {name: np.dtype(getattr(ml_dtypes, name, None) or name) for name in (
    "bool", "int2", "int4", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "float4_e2m1fn", "float8_e3m4",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128")}
# The bits of the value, for types narrower than a byte.
NARROW_MASKS = {"int2": 0x03, "int4": 0x0F, "float4_e2m1fn": 0x0F}
ALIGNMENT_BYTES = 64


def to_hex(value):
    if isinstance(value, str):
        value = value.encode("utf-8")
    return value.hex() or "-"


def from_hex(word):
    return b"" if word == "-" else bytes.fromhex(word)


def array_bytes(array):
    """Returns the elements' bytes in C order, little endian, with unused bits
    zero."""
    array = np.asarray(array)
    raw = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    mask = NARROW_MASKS.get(array.dtype.name)
    return (raw & mask if mask else raw).tobytes()


def is_namedtuple(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


class Writer:
    """Collects the lines and the data of one tree."""

    def __init__(self):
        self.lines = []
        self.data = bytearray()

    def add(self, value):
        if isinstance(value, dict):
            self.lines.append(f"dict {len(value)}")
            self.add_members(value.items())
        elif is_namedtuple(value):
            kind = type(value)
            self.lines.append(f"namedtuple {len(value)} "
                              f"{to_hex(kind.__module__)} "
                              f"{to_hex(kind.__qualname__)}")
            self.add_members(zip(value._fields, value))
        elif isinstance(value, (list, tuple)):
            word = "list" if isinstance(value, list) else "tuple"
            self.lines.append(f"{word} {len(value)}")
            for item in value:
                self.add(item)
        else:
            self.lines.append(self.leaf_line(value))

    def add_members(self, members):
        for key, value in members:
            self.lines.append(f"key {to_hex(key)}")
            self.add(value)

    def leaf_line(self, value):
        if value is None:
            return "none"
        if value is Ellipsis:
            return "placeholder"
        if isinstance(value, str):
            return f"string {to_hex(value)}"
        if isinstance(value, (np.ndarray, jax.Array)):
            return self.array_line(value)
        origin = "numpy" if type(value).__module__ == "numpy" else "python"
        array = np.asarray(value)
        return (f"scalar {origin} {array.dtype.name} "
                f"{to_hex(array_bytes(array))}")

    def array_line(self, value):
        kind = "jax" if isinstance(value, jax.Array) else "numpy"
        self.data += b"\0" * (-len(self.data) % ALIGNMENT_BYTES)
        words = ["array", kind, value.dtype.name, len(self.data), value.ndim,
                 *value.shape]
        self.data += array_bytes(value)
        return " ".join(map(str, words))


def write_tree(tree, lines_path, data_path):
    writer = Writer()
    writer.add(tree)
    lines_path.write_text("\n".join(writer.lines) + "\n", encoding="ascii")
    data_path.write_bytes(writer.data)


class LoadedArray:
    """An array that the driver loaded: kind, dtype name, shape, bytes."""

    def __init__(self, kind, dtype, shape, raw):
        self.kind, self.dtype, self.shape, self.raw = kind, dtype, shape, raw

    def __repr__(self):
        return f"{self.kind}:{self.dtype}{list(self.shape)}"


class LoadedScalar:
    """A scalar that the driver loaded."""

    def __init__(self, dtype, raw):
        self.dtype, self.raw = dtype, raw

    def __repr__(self):
        return f"scalar:{self.dtype}:{self.raw.hex()}"


def read_tree(lines_path, data_path):
    lines = iter(lines_path.read_text(encoding="ascii").splitlines())
    data = data_path.read_bytes()
    return read_node(lines, data)


def read_node(lines, data):
    words = next(lines).split()
    word = words[0]
    if word in ("dict", "namedtuple"):
        members = {}
        for _ in range(int(words[1])):
            key = from_hex(next(lines).split()[1]).decode("utf-8")
            members[key] = read_node(lines, data)
        return members
    if word in ("list", "tuple"):
        items = [read_node(lines, data) for _ in range(int(words[1]))]
        return items if word == "list" else tuple(items)
    if word == "array":
        offset, rank = int(words[3]), int(words[4])
        shape = tuple(map(int, words[5:5 + rank]))
        byte_count = DTYPES[words[2]].itemsize * int(np.prod(shape))
        return LoadedArray(words[1], words[2], shape,
                           data[offset:offset + byte_count])
    if word == "scalar":
        return LoadedScalar(words[2], from_hex(words[3]))
    if word in ("string", "bytes"):
        raw = from_hex(words[1])
        return raw.decode("utf-8") if word == "string" else raw
    return Ellipsis if word == "placeholder" else None


class Driver:
    """A running save_trees program."""

    def __init__(self, binary):
        self.process = subprocess.Popen(
            [binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            encoding="utf-8")

    def ask(self, *words):
        """Sends one request; raises RuntimeError with the answer if not ok."""
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        if answer != "ok":
            raise RuntimeError(answer or "the driver died: exit status "
                               f"{self.process.wait()}")

    def save(self, tree, path, scratch, **options):
        lines, data = scratch / "save.lines", scratch / "save.data"
        write_tree(tree, lines, data)
        self.ask("save", to_hex(str(lines)), to_hex(str(data)),
                 to_hex(str(path)),
                 *(f"{name}={value}" for name, value in options.items()))

    def load(self, path, scratch):
        lines, data = scratch / "load.lines", scratch / "load.data"
        self.ask("load", to_hex(str(path)), to_hex(str(lines)),
                 to_hex(str(data)))
        return read_tree(lines, data)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
