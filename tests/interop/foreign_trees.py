"""Random trees for run_foreign.py, and comparisons of trees."""

import hashlib

import ml_dtypes
import numpy as np

NATIVE = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "float16", "float32", "float64", "complex64", "complex128",
]
OTHERS = [
    "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "int4",
]
SHAPES = [(), (1,), (3,), (17,), (4, 6), (33, 7), (2, 3, 5), (1, 64, 2)]
WORDS = ["w", "bias", "layer_norm", "Größe", "a.b", "x y", "0", "k/v"]
TEXTS = ["", "text", "mehr als ASCII: ☃", "1", "null"]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def random_array(rng, names):
    """Returns an array of random bits, which include NaNs with payloads."""
    dtype = dtype_of(rng.choice(names))
    shape = SHAPES[rng.integers(len(SHAPES))]
    count = int(np.prod(shape))
    if dtype == bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.name in ("int4", "uint4"):
        low = -8 if dtype.name == "int4" else 0
        return rng.integers(low, low + 16, shape).astype(dtype)
    raw = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
    return raw.view(dtype).reshape(shape).copy()


def random_tree(seed, dtypes=tuple(NATIVE + OTHERS), words=tuple(WORDS)):
    """Returns dicts and lists with arrays, numbers, strings and None."""
    rng = np.random.default_rng(seed)

    def node(depth):
        kind = rng.integers(0, 10)
        if depth < 3 and (depth == 0 or kind < 3):
            names = rng.permutation(words)[: rng.integers(2, 5)]
            return {str(name): node(depth + 1) for name in names}
        if depth < 3 and kind == 3:
            return [node(depth + 1) for _ in range(rng.integers(1, 4))]
        if kind == 4:
            return int(rng.integers(-(1 << 62), 1 << 62))
        if kind == 5:
            return float(rng.standard_normal())
        if kind == 6:
            return str(rng.choice(TEXTS))
        if kind == 7 and depth > 1:
            return [None, True, {}, []][rng.integers(4)]
        return random_array(rng, dtypes)

    tree = node(0)
    tree["whole"] = random_array(rng, dtypes)  # at least one array
    return tree


def flat_arrays(tree, prefix=()):
    """Yields (key, array) for each array."""
    if isinstance(tree, np.ndarray):
        yield prefix, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from flat_arrays(value, (*prefix, key))
    elif isinstance(tree, (list, tuple)):
        for i, value in enumerate(tree):
            yield from flat_arrays(value, (*prefix, str(i)))


def named_arrays(tree):
    """Returns {key: array}, with the parts of a key joined by dots."""
    return {".".join(key): array for key, array in flat_arrays(tree)}


def bits(array):
    """Returns the bytes of the elements in C order."""
    return np.ascontiguousarray(array).tobytes()


def difference(want, got, exact_dtypes, what):
    """Returns the first difference between arrays by name, or None.

    Dtypes are compared only if they are among `exact_dtypes`; other arrays must
    have the same bits.
    """
    missing = sorted(set(want) - set(got))
    if missing:
        return f"{what}: lacks {missing[:3]}; has {sorted(got)[:5]}"
    for name, array in want.items():
        theirs = got[name]
        if array.dtype.name in exact_dtypes and (
                theirs.dtype != array.dtype or theirs.shape != array.shape):
            return (f"{what}: {name} is {theirs.dtype} {theirs.shape}, want"
                    f" {array.dtype} {array.shape}")
        if bits(theirs) != bits(array):
            return (f"{what}: {name} ({array.dtype} {array.shape}, there"
                    f" {theirs.dtype} {theirs.shape}) has other elements")
    return None


def same_trees(want, got, where=""):
    """Returns the first difference between two trees of numpy arrays, or
    None."""
    if isinstance(want, np.ndarray):
        if not isinstance(got, np.ndarray):
            return f"{where}: {type(got).__name__}, want an array"
        if (want.dtype, want.shape) != (got.dtype, got.shape):
            return (f"{where}: {got.dtype} {got.shape}, want {want.dtype}"
                    f" {want.shape}")
        return None if bits(want) == bits(got) else f"{where}: other elements"
    if isinstance(want, dict):
        if not isinstance(got, dict) or set(map(str, want)) != set(got):
            return f"{where}: other keys: {got!r:.200}"
        pairs = [(key, value, got[str(key)]) for key, value in want.items()]
    elif isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(want) != len(got):
            return f"{where}: {got!r:.200}, want {want!r:.200}"
        pairs = [(i, w, g) for i, (w, g) in enumerate(zip(want, got))]
    elif isinstance(want, float):
        equal = isinstance(got, float) and (
            np.float64(want).tobytes() == np.float64(got).tobytes())
        return None if equal else f"{where}: {got!r}, want {want!r}"
    else:
        equal = type(want) is type(got) and want == got
        return None if equal else f"{where}: {got!r}, want {want!r}"
    for key, w, g in pairs:
        found = same_trees(w, g, f"{where}.{key}" if where else str(key))
        if found:
            return found
    return None


def sha256(array):
    return hashlib.sha256(bits(array)).hexdigest()
