"""Makes the trees that bench/peers.py saves, and passes them to the C++ driver.

A tree is {dotted name: numpy array}. The same seeds give the same bytes.
"""

import ml_dtypes
import numpy as np

GIB = 2**30
ALIGNMENT_BYTES = 64
CHUNK_ELEMENTS = 1 << 22


def normal(draw, shape, deviation, transform=None):
    """Draws float32 N(0, deviation), in pieces to keep temporaries small."""
    array = np.empty(shape, np.float32)
    flat = array.reshape(-1)
    for start in range(0, flat.size, CHUNK_ELEMENTS):
        piece = flat[start:start + CHUNK_ELEMENTS]
        draw.standard_normal(out=piece, dtype=np.float32)
        piece *= deviation
        if transform is not None:
            piece[:] = transform(piece)
    return array


def llm(scale):
    """Returns a transformer with Adam's moments, 1 GiB in total at scale 1.

    The bf16 weights are N(0, .02). The f32 moments are like a tenth of a
    gradient and like its square."""
    draw = np.random.default_rng(1)
    parameter_count = int(scale * GIB / (2 + 4 + 4))
    layer_count = 12
    width = max(16, int((parameter_count / (layer_count * 12 + 16)) ** 0.5) //
                16 * 16)
    rest = parameter_count - layer_count * 12 * width * width
    shapes = {"embed": (max(1, rest // width), width)}
    for i in range(layer_count):
        shapes[f"layers.{i:02d}.attention.qkv"] = (width, 3 * width)
        shapes[f"layers.{i:02d}.attention.out"] = (width, width)
        shapes[f"layers.{i:02d}.mlp.up"] = (width, 4 * width)
        shapes[f"layers.{i:02d}.mlp.down"] = (4 * width, width)
        shapes[f"layers.{i:02d}.norm"] = (width,)
    tree = {}
    for name, shape in shapes.items():
        tree[f"params.{name}"] = normal(draw, shape, 0.02).astype(
            ml_dtypes.bfloat16)
        tree[f"opt.mu.{name}"] = normal(draw, shape, 0.002)
        tree[f"opt.nu.{name}"] = normal(draw, shape, 0.02, np.square)
    return tree


def small(scale):
    """Returns float32 leaves of 256 bytes; 20,000 leaves at scale 1."""
    draw = np.random.default_rng(2)
    count = max(1, int(20000 * scale))
    values = normal(draw, (count, 64), 1.0)
    return {f"leaf_{i:05d}": values[i].copy() for i in range(count)}


def wide(scale):
    """Returns one float32 matrix N(0, 1); 16384 x 16384 (1 GiB) at scale 1."""
    draw = np.random.default_rng(3)
    return {"matrix": normal(draw, (max(1, int(16384 * scale)), 16384), 1.0)}


TREES = {"llm": llm, "small": small, "wide": wide}


def slice_of(tree):
    """Returns (name, row) for the slice benchmark: the middle row of the
    largest array."""
    name = max(tree, key=lambda key: (tree[key].ndim, tree[key].nbytes))
    return name, tree[name].shape[0] // 2


def nested(tree):
    """Turns {"a.b": x} into {"a": {"b": x}}."""
    root = {}
    for name, array in tree.items():
        node = root
        *parents, last = name.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = array
    return root


def write_for_driver(tree, lines_path, data_path):
    """Writes one line per array, and all their bytes; see
    holdfast_driver.cc."""
    lines, offset = [], 0
    with open(data_path, "wb") as data:
        for name, array in tree.items():
            padding = -offset % ALIGNMENT_BYTES
            data.write(b"\0" * padding)
            offset += padding
            lines.append(" ".join(map(str, (
                name, array.dtype.name, offset, *array.shape))))
            data.write(memoryview(array.reshape(-1).view(np.uint8)))
            offset += array.nbytes
    lines_path.write_text("\n".join(lines) + "\n", encoding="ascii")
