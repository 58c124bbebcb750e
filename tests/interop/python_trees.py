"""Seeded random trees for holdfast.orbax against real Orbax.

In addition to what random_trees draws, there are jax arrays over 8 devices (on
one device, sharded, replicated, or both), typed PRNG keys, and storage options
for single leaves. The interfaces take turns: "pytree", "standard", "v1", and
"items", which is v1 with a JSON document beside the tree.

Import orbax_tools first: it chooses the platform.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import random_trees
from tree_lines import array_bytes, is_namedtuple

MESHES = [((8,), ("x",)), ((4, 2), ("data", "model")), ((2, 4), ("a", "b")),
          ((2, 2, 2), ("x", "y", "z")), ((2,), ("x",)), ((4,), ("m",)),
          ((1, 8), ("one", "x"))]
KEY_KINDS = ["threefry2x32", "rbg", "unsafe_rbg"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint32"]


@dataclasses.dataclass
class Case:
    """A tree, how it is saved, and the target that restores it."""

    seed: int
    tree: object
    target: object  # abstract leaves, with other shardings
    api: str  # "pytree", "standard", "v1", "items"
    use_ocdbt: bool
    use_zarr3: bool
    use_compression: bool
    # Path -> (dtype name or None, chunk_byte_size or None, shard_axes).
    storage: dict

    @property
    def is_v1(self):
        return self.api in ("v1", "items")

    def __str__(self):
        return (f"seed {self.seed} {self.api} ocdbt={self.use_ocdbt} "
                f"zarr3={self.use_zarr3} compression={self.use_compression}")


class Generator(random_trees.Generator):
    """Draws trees with arrays on many devices."""

    def __init__(self, seed, api, ocdbt):
        is_v1 = api in ("v1", "items")
        super().__init__(seed, "orbax-v1" if is_v1 else "orbax", ocdbt)
        self.interface = api

    def root(self):
        while True:
            tree = super().root()
            if self.interface != "standard" or isinstance(tree, dict):
                return tree

    def leaf(self, name):
        while True:
            before = self.leaf_count
            leaf = super().leaf(name)
            if self.interface != "standard" or not isinstance(leaf, str):
                return leaf
            self.leaf_count = before

    def shape(self):
        if self.chance(0.06):  # too large for a database to store inline
            return tuple(int(n) * 8 for n in self.random.integers(
                1, 24, size=2))
        rank = int(self.random.integers(0, 4))
        return tuple(int(n) for n in self.random.choice(
            [1, 2, 3, 4, 8, 16, 24], size=rank))

    def array(self):
        kind = self.random.random()
        if kind < 0.06:
            return self.prng_key()
        array = plain_nans(super().array())
        if isinstance(array, jax.Array) or kind > 0.45:
            return array
        return jax.device_put(array, self.sharding(array.shape))

    def prng_key(self):
        key = jax.random.key(int(self.random.integers(1000)),
                             impl=self.pick(KEY_KINDS))
        if self.chance(0.5):
            key = jax.random.split(key, 8)
            if self.chance(0.5):
                key = jax.device_put(key, self.sharding(key.shape))
        return key

    def sharding(self, shape):
        if self.chance(0.2):
            device = jax.devices()[int(self.random.integers(8))]
            return jax.sharding.SingleDeviceSharding(device)
        mesh_shape, axes = self.pick(MESHES)
        count = int(np.prod(mesh_shape))
        ids = (self.random.permutation(8)[:count] if self.chance(0.3)
               else np.arange(count))
        devices = np.array([jax.devices()[i] for i in ids])
        mesh = jax.sharding.Mesh(devices.reshape(mesh_shape), axes)
        return jax.sharding.NamedSharding(
            mesh, jax.sharding.PartitionSpec(*self.spec(shape, mesh)))

    def spec(self, shape, mesh):
        """Draws axes that divide the dimensions; leaves some axes out."""
        free = list(mesh.axis_names)
        entries = []
        for extent in shape:
            entry = [name for name in free if self.chance(0.5)]
            size = int(np.prod([mesh.shape[name] for name in entry] or [1]))
            if not entry or extent % size:
                entries.append(None)
                continue
            free = [name for name in free if name not in entry]
            entries.append(entry[0] if len(entry) == 1 else tuple(entry))
        while entries and entries[-1] is None and self.chance(0.5):
            entries.pop()
        return entries

    def target_leaf(self, leaf):
        """Draws the target's leaf: mostly of the same kind, placed
        elsewhere."""
        if isinstance(leaf, jax.Array):
            if self.chance(0.15) and not is_key(leaf):
                return np.zeros(leaf.shape, leaf.dtype)
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype,
                                        sharding=self.sharding(leaf.shape))
        if isinstance(leaf, np.generic):
            # Restores return a Python number, but "standard" an array.
            is_number = self.interface != "standard" and leaf.dtype.kind != "c"
            return leaf.item() if is_number else np.asarray(leaf)
        if isinstance(leaf, np.ndarray):
            if self.chance(0.3):
                return jax.ShapeDtypeStruct(
                    leaf.shape, leaf.dtype,
                    sharding=self.sharding(leaf.shape))
            return np.zeros(leaf.shape, self.restored_dtype(leaf.dtype))
        return leaf

    def restored_dtype(self, dtype):
        return np.dtype("float32") if (dtype.name in FLOATS and
                                       self.chance(0.2)) else dtype

    def storage_of(self, leaf):
        """Draws the storage options of one leaf, or returns None."""
        if not isinstance(leaf, (np.ndarray, jax.Array)) or is_key(leaf):
            return None
        if self.chance(0.7):
            return None
        name, dtype = leaf.dtype.name, None
        if name in FLOATS and self.chance(0.4):
            # A cast may change the bits of a NaN.
            has_nan = np.isnan(np.asarray(leaf)).any()
            dtype = None if has_nan else self.pick(FLOATS)
        elif name in INTS and self.chance(0.4):
            dtype = self.pick(INTS)
        chunk = self.pick([None, None, 16, 64, 256, 1000])
        axes = ()
        if leaf.ndim and self.chance(0.4):
            axes = (int(self.random.integers(leaf.ndim)),)
        return dtype, chunk, axes


def plain_nans(array):
    """Returns the array with all NaNs alike: a cast may change their bits."""
    if array.dtype.name not in FLOATS:
        return array
    changed = np.array(array, order="K")
    changed[np.isnan(changed)] = np.nan
    return changed if isinstance(array, np.ndarray) else jnp.asarray(changed)


def is_key(leaf):
    return (isinstance(leaf, jax.Array) and
            jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def make_case(seed):
    """Returns the seed's case. Interfaces and layouts take turns, the rest is
    random."""
    api = ("pytree", "standard", "v1", "pytree", "v1", "items")[seed % 6]
    use_ocdbt = seed // 6 % 4 != 3
    use_zarr3 = api != "standard" and seed // 6 % 2 == 1
    generator = Generator([seed, 7], api, use_ocdbt)
    tree = generator.root()
    target = jax.tree.map(generator.target_leaf, tree)
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    storage = {path: generator.storage_of(leaf) for path, leaf in flat}
    return Case(seed, tree, target, api, use_ocdbt, use_zarr3,
                api == "standard" or generator.chance(0.7),
                {path: given for path, given in storage.items() if given})


def describe_sharding(sharding):
    if isinstance(sharding, jax.sharding.NamedSharding):
        spec = [list(entry) if isinstance(entry, tuple) else entry
                for entry in sharding.spec]
        while spec and spec[-1] is None:
            spec.pop()
        mesh = sharding.mesh
        return (mesh.devices.shape, mesh.axis_names,
                [device.id for device in mesh.devices.flat], repr(spec))
    return type(sharding).__name__, sorted(d.id for d in sharding.device_set)


def canonical(value):
    """Returns the tree as plain values that compare by content, kind and
    placement."""
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if is_namedtuple(value):
        return (type(value).__name__, [canonical(item) for item in value])
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, tuple):
        return ("tuple", [canonical(item) for item in value])
    if is_key(value):
        data = jax.random.key_data(value)
        return ("key", str(jax.random.key_impl(value)), value.shape,
                array_bytes(data), describe_sharding(value.sharding))
    if isinstance(value, jax.Array):
        return ("jax", value.dtype.name, value.shape, array_bytes(value),
                describe_sharding(value.sharding))
    if isinstance(value, np.ndarray):
        return ("numpy", value.dtype.name, value.shape, array_bytes(value))
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return (type(value).__name__, array_bytes(np.asarray(value)))
    return value
