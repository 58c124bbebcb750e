"""Seeded pairs of save options and a restore, for holdfast.orbax and Orbax.

A `Pair` holds a tree, how both packages save it, an optional wound (files that
are removed afterwards), and an `Ask`, which is one way to restore the tree. A
pair does not depend on a package: `save(ocp, pair, path)` and
`pair.ask(ocp, path)` work with both.

Import orbax_tools first: it chooses the platform.
"""

import dataclasses
import importlib
import json

import jax
import numpy as np
import python_trees
import random_trees
from option_asks import Ask, draw_ask

# Limits of the handlers in GB, which no tree reaches.
LIMITS = [{}, {}, {"save_concurrent_gb": 1}, {"restore_concurrent_gb": 2},
          {"save_device_host_concurrent_gb": 1}]
CUSTOM_METADATA = [None, {}, {"é": [1, None, 2.5], "run": {"name": "x"}},
                   {"nested": [[], {}, [True]]}]
FILE_BYTES = [None, None, None, 0, 16, 100, 2000, 1 << 20]
CHUNK_BYTES = [None, None, 16, 64, 256, 1000]
# Values may be cast between the dtypes of each list.
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64"]


@dataclasses.dataclass
class Pair:
    """One save and one restore."""

    seed: int
    tree: object
    api: str  # "pytree" or "standard"
    use_ocdbt: bool
    use_zarr3: bool
    use_compression: bool
    support_rich_types: bool
    limits: dict
    file_bytes: int | None
    custom_metadata: object  # of the item
    # Path -> (dtype name or None, chunk_byte_size or None, shard_axes); None
    # means no save_args.
    storage: dict | None
    wound: str
    ask: Ask = None

    is_v1 = False  # CaseTest reads it

    def __str__(self):
        rich = " rich" if self.support_rich_types else ""
        return (f"seed {self.seed} {self.api}{rich} ocdbt={self.use_ocdbt} "
                f"zarr3={self.use_zarr3} compression={self.use_compression} "
                f"file_bytes={self.file_bytes} wound={self.wound or '-'} "
                f"ask=({self.ask})")


def metadata_options(ocp, support_rich_types):
    """Returns the package's PyTreeMetadataOptions, which Orbax does not
    export."""
    if hasattr(ocp.options, "PyTreeMetadataOptions"):
        module = ocp.options
    else:
        module = importlib.import_module(
            "orbax.checkpoint._src.metadata.pytree_metadata_options")
    return module.PyTreeMetadataOptions(support_rich_types=support_rich_types)


def save(ocp, pair, path):
    """Saves the pair's tree with the pair's options."""
    save_args = None
    if pair.storage is not None:
        save_args = jax.tree_util.tree_map_with_path(
            lambda key, _: save_args_of(ocp, pair.storage.get(key)), pair.tree)
    options = metadata_options(ocp, pair.support_rich_types)
    if pair.api == "standard":
        handler = ocp.StandardCheckpointHandler(
            use_ocdbt=pair.use_ocdbt, pytree_metadata_options=options)
        args = ocp.args.StandardSave(
            pair.tree, save_args=save_args,
            custom_metadata=pair.custom_metadata)
    else:
        handler = ocp.PyTreeCheckpointHandler(
            use_ocdbt=pair.use_ocdbt, use_zarr3=pair.use_zarr3,
            use_compression=pair.use_compression,
            pytree_metadata_options=options, **pair.limits)
        args = ocp.args.PyTreeSave(
            pair.tree, save_args=save_args,
            ocdbt_target_data_file_size=pair.file_bytes,
            custom_metadata=pair.custom_metadata)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=args)


def save_args_of(ocp, given):
    dtype, chunk, axes = given or (None, None, ())
    return ocp.SaveArgs(dtype=None if dtype is None else jax.numpy.dtype(dtype),
                        chunk_byte_size=chunk, shard_axes=axes)


def metadata(ocp, pair, path):
    """Returns the TreeMetadata from the pair's handler."""
    handler = ocp.PyTreeCheckpointHandler(
        pytree_metadata_options=metadata_options(ocp, pair.support_rich_types))
    with ocp.Checkpointer(handler) as checkpointer:
        return checkpointer.metadata(path)


def inflict(wound, path):
    """Removes what old or damaged checkpoints lack.

    Removes the list of checksums as well, because it would reveal the loss.
    """
    if wound:
        (path / "_HOLDFAST_DIGESTS").unlink(missing_ok=True)
    if wound == "sharding entry":
        file = path / "_sharding"
        if not file.exists():
            return
        entries = json.loads(file.read_bytes())
        entries.pop(min(entries))
        file.write_text(json.dumps(entries))
    elif wound:
        (path / wound).unlink(missing_ok=True)


class Generator(python_trees.Generator):
    """Draws trees with every kind of leaf that the pytree handler accepts."""

    def __init__(self, seed, api, ocdbt, plain_keys):
        super().__init__(seed, api, ocdbt)
        self.plain_keys = plain_keys

    def key(self):
        if self.plain_keys:
            return self.pick(random_trees.PLAIN_KEYS)
        return super().key()

    def leaf(self, name):
        if self.interface == "pytree" and self.chance(0.02):
            self.leaf_count += 1
            return ...
        return super().leaf(name)

    def storage_of(self, leaf):
        """Draws the storage options of one leaf, or returns None."""
        is_number = isinstance(leaf, (int, float, np.number))
        is_array = isinstance(leaf, (np.ndarray, jax.Array))
        if self.chance(0.6) or not (is_array or is_number):
            return None
        if python_trees.is_key(leaf):
            return None, self.pick(CHUNK_BYTES), ()
        dtype = self.cast_of(leaf) if self.chance(0.4) else None
        rank = np.ndim(leaf)
        axes = ()
        if rank and self.chance(0.3):
            axes = tuple(int(i) for i in self.random.permutation(rank)
                         [:self.random.integers(1, rank + 1)])
        return dtype, self.pick(CHUNK_BYTES), axes

    def cast_of(self, leaf):
        """Draws a dtype to cast to, for which C++ defines the result, or
        returns None."""
        array = np.asarray(leaf)
        name = array.dtype.name
        if name == "bool":
            return self.pick(FLOATS + INTS)
        if name in INTS:
            return self.pick(INTS + ["float32", "float64", "bool"])
        if name not in FLOATS or np.isnan(array.astype("float64")).any():
            return None
        if np.abs(array.astype("float64")).max(initial=0) < 100:
            return self.pick(FLOATS + ["int8", "int32", "int64", "bool"])
        return self.pick(FLOATS)


def make_pair(seed):
    """Returns the seed's pair. Layouts take turns, the rest is random."""
    api = "standard" if seed % 5 == 4 else "pytree"
    use_ocdbt = seed // 5 % 3 != 2
    use_zarr3 = api == "pytree" and seed // 15 % 2 == 1
    random = np.random.default_rng([seed, 11])
    plain_keys = bool(random.random() < 0.6)
    draw = Generator([seed, 12], api, use_ocdbt, plain_keys)
    tree = draw.root()
    storage = None
    if draw.chance(0.7):
        flat, _ = jax.tree_util.tree_flatten_with_path(tree)
        storage = {path: draw.storage_of(leaf) for path, leaf in flat}
    wound = draw.pick(["_METADATA", "_sharding", "sharding entry",
                       "array_metadatas/process_0"]
                      ) if draw.chance(0.1) else ""
    pair = Pair(
        seed, tree, api, use_ocdbt, use_zarr3,
        api == "standard" or draw.chance(0.6),
        draw.chance(0.25), draw.pick(LIMITS) if api == "pytree" else {},
        draw.pick(FILE_BYTES) if api == "pytree" else None,
        draw.pick(CUSTOM_METADATA), storage, wound)
    pair.ask = draw_ask(draw, pair, metadata_options)
    return pair
