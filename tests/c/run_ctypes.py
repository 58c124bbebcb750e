#!/usr/bin/env python3
"""The C API from another language: ctypes loads the shared library.

usage: run_ctypes.py LIBRARY CUDA_TWIN

Saves numpy arrays, opens the checkpoint, lists it, reads a box, verifies, and
checks the error for a damaged file. Saves arrays of a device, which is in the
memory of CUDA_TWIN (tests/twins/cuda_twin.h). Exit status 77: numpy is not
installed.
"""

import ctypes
import pathlib
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    sys.exit(77)

OK, INVALID_ARGUMENT, NOT_FOUND, DATA_LOSS = 0, 1, 2, 12
Handle, Size = ctypes.c_void_p, ctypes.c_size_t
# Pointers to the structs and numbers that calls fill.
Out = ctypes.c_void_p
Text = ctypes.c_char_p


class LeafInfo(ctypes.Structure):
    _fields_ = [("struct_size", Size), ("name", Text), ("kind", Text),
                ("dtype", Text), ("element_bytes", Size), ("rank", Size),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("stored_bytes", ctypes.c_uint64)]


class Damage(ctypes.Structure):
    _fields_ = [("struct_size", Size), ("leaf", Text), ("file", Text),
                ("has_offset", ctypes.c_int), ("offset", ctypes.c_uint64),
                ("code", ctypes.c_int), ("message", Text)]


class SaveOptions(ctypes.Structure):
    _fields_ = [("struct_size", Size), ("format", Text),
                ("compression", Text), ("zarr_format", ctypes.c_int),
                ("use_files", ctypes.c_int), ("overwrite", ctypes.c_int),
                ("threads", ctypes.c_int)]


SIGNATURES = {
    "open": [Text, Out, Out],
    "close": [Handle],
    "leaf_count": [Handle, Out],
    "find": [Handle, Text, Out],
    "leaf": [Handle, Size, Out],
    "box_bytes": [Handle, Size, Size, Out, Out],
    "read_box": [Handle, Size, Size, Out, Out, Out, Size],
    "verify": [Text, Out, Out],
    "report_count": [Handle, Out],
    "report_damage": [Handle, Size, Out],
    "report_close": [Handle],
    "state_new": [Out],
    "state_close": [Handle],
    "state_add_array": [Handle, Text, Text, Size, Out, Out],
    "state_add_device_array": [Handle, Text, Text, Size, Out, Out,
                               ctypes.c_uint64, ctypes.c_uint64],
    "state_add_int": [Handle, Text, ctypes.c_int64],
    "state_add_string": [Handle, Text, Text, Size],
    "save": [Text, Handle, Out],
}


def load(path):
    """Returns the library with the types of its functions set."""
    library = ctypes.CDLL(path)
    library.holdfast_last_error.restype = Text
    library.holdfast_version.restype = Text
    for name, types in SIGNATURES.items():
        function = getattr(library, "holdfast_" + name)
        function.argtypes = types
        function.restype = ctypes.c_int
    return library


def load_twin(path):
    """Returns the twin of CUDA's library, which the engine finds by name."""
    twin = ctypes.CDLL(path)
    twin.twin_allocate.argtypes = [ctypes.c_int, Text, ctypes.c_uint64]
    twin.twin_allocate.restype = ctypes.c_uint64
    twin.twin_new_stream.restype = ctypes.c_uint64
    twin.twin_queue_write.argtypes = [
        ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, Text, ctypes.c_uint64,
        ctypes.c_int]
    twin.twin_violation.restype = Text
    return twin


def new(struct):
    return struct(struct_size=ctypes.sizeof(struct))


def extents(*numbers):
    return (ctypes.c_int64 * len(numbers))(*numbers)


class CtypesTest(unittest.TestCase):
    """Each test has one checkpoint in a temporary directory."""

    library = None
    twin = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = pathlib.Path(scratch.name) / "checkpoint"
        self.weights = np.arange(12, dtype=np.float32).reshape(3, 4)
        self.save()

    def call(self, name, *arguments, want=OK):
        code = getattr(self.library, "holdfast_" + name)(*arguments)
        self.assertEqual(code, want, self.library.holdfast_last_error())

    def save(self):
        state = Handle()
        self.call("state_new", ctypes.byref(state))
        self.call("state_add_array", state, b"params.w", b"float32", 2,
                  extents(*self.weights.shape), self.weights.ctypes.data)
        self.call("state_add_int", state, b"step", 7)
        self.call("state_add_string", state, b"note", b"by hand", 7)
        options = new(SaveOptions)
        options.compression = b"none"
        options.use_files = 1
        self.call("save", bytes(self.path), state, ctypes.byref(options))
        self.library.holdfast_state_close(state)

    def open(self):
        checkpoint = Handle()
        self.call("open", bytes(self.path), None, ctypes.byref(checkpoint))
        self.addCleanup(self.library.holdfast_close, checkpoint)
        return checkpoint

    def leaf(self, checkpoint, name):
        leaf = Size()
        self.call("find", checkpoint, name, ctypes.byref(leaf))
        return leaf.value

    def flip_bits(self):
        """Flips bits of the weights, which a data file holds uncompressed."""
        raw = self.weights.tobytes()
        [path] = [path for path in self.path.rglob("*") if path.is_file() and
                  raw in path.read_bytes()]
        path.write_bytes(path.read_bytes().replace(raw, raw[:-1] + b"\1"))

    def read_box(self, checkpoint, want=OK):
        """Reads columns 1 to 3 of rows 1 and 2."""
        leaf, size = self.leaf(checkpoint, b"params.w"), Size()
        self.call("box_bytes", checkpoint, leaf, 2, extents(2, 3),
                  ctypes.byref(size))
        box = np.empty((2, 3), dtype=np.float32)
        self.assertEqual(size.value, box.nbytes)
        self.call("read_box", checkpoint, leaf, 2, extents(1, 1),
                  extents(2, 3), box.ctypes.data, box.nbytes, want=want)
        return box

    def damages(self):
        report, count = Handle(), Size()
        self.call("verify", bytes(self.path), None, ctypes.byref(report))
        self.addCleanup(self.library.holdfast_report_close, report)
        self.call("report_count", report, ctypes.byref(count))
        damages = [new(Damage) for _ in range(count.value)]
        for index, damage in enumerate(damages):
            self.call("report_damage", report, index, ctypes.byref(damage))
        return damages

    def test_leaves_are_listed(self):
        checkpoint, count = self.open(), Size()
        self.call("leaf_count", checkpoint, ctypes.byref(count))
        found = {}
        for leaf in range(count.value):
            info = new(LeafInfo)
            self.call("leaf", checkpoint, leaf, ctypes.byref(info))
            found[info.name] = (info.kind, info.dtype, info.shape[:info.rank])
        self.assertEqual(found, {
            b"note": (b"string", None, []),
            b"params.w": (b"array", b"float32", [3, 4]),
            b"step": (b"scalar", b"int64", []),
        })

    def test_a_box_is_read(self):
        np.testing.assert_array_equal(self.read_box(self.open()),
                                      self.weights[1:, 1:])

    def test_arrays_of_a_device_are_saved(self):
        weights = self.weights + 1
        raw = np.asfortranarray(weights).tobytes(order="A")
        address = self.twin.twin_allocate(0, bytes(len(raw)), len(raw))
        stream = self.twin.twin_new_stream(0)
        self.twin.twin_queue_write(0, stream, address, raw, len(raw), 20)
        state = Handle()
        self.call("state_new", ctypes.byref(state))
        self.call("state_add_device_array", state, b"params.w", b"float32", 2,
                  extents(3, 4), extents(4, 12), address, stream)
        on_host = self.weights.ctypes.data
        self.call("state_add_device_array", state, b"host", b"float32", 2,
                  extents(3, 4), None, on_host, 0, want=INVALID_ARGUMENT)
        options = new(SaveOptions)
        options.overwrite = 1
        self.call("save", bytes(self.path), state, ctypes.byref(options))
        self.library.holdfast_state_close(state)
        np.testing.assert_array_equal(self.read_box(self.open()),
                                      weights[1:, 1:])
        self.assertEqual(self.twin.twin_violation_count(), 0,
                         self.twin.twin_violation(0))

    def test_damage_is_told(self):
        self.assertEqual(self.damages(), [])
        self.flip_bits()
        [damage] = self.damages()
        self.assertEqual((damage.leaf, damage.code), (b"params.w", DATA_LOSS))
        self.assertIn(b"crc32c", damage.message)
        self.read_box(self.open(), want=DATA_LOSS)
        self.assertIn(b"params.w", self.library.holdfast_last_error())

    def test_errors_have_words(self):
        checkpoint = Handle()
        self.call("open", bytes(self.path / "none"), None,
                  ctypes.byref(checkpoint), want=NOT_FOUND)
        self.assertIn(b"none", self.library.holdfast_last_error())
        self.assertIsNone(checkpoint.value)
        self.call("leaf_count", None, ctypes.byref(Size()),
                  want=INVALID_ARGUMENT)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__.splitlines()[2])
    CtypesTest.twin = load_twin(sys.argv.pop(2))
    CtypesTest.library = load(sys.argv.pop(1))
    unittest.main()
