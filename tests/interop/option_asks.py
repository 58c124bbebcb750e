"""Draws ways to restore a tree (`Ask`) from a seed, for option_pairs.

An ask works with Orbax and with holdfast.orbax: arguments that need a package's
classes are functions of the package.

Import orbax_tools first: it chooses the platform.
"""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
import option_transforms
import orbax_tools as tools
from python_trees import is_key

RESTORE_DTYPES = ["float32", "float64", "bfloat16"]


@dataclasses.dataclass
class Ask:
    """One way to restore: `ask(ocp, path)` restores."""

    text: str
    call: Callable

    def __call__(self, ocp, path):
        return self.call(ocp, path)

    def __str__(self):
        return self.text


def draw_ask(draw, pair, metadata_options):
    """Draws a restore of the pair's checkpoint.

    Args:
        draw: the pair's Generator.
        pair: what is saved.
        metadata_options: a function that makes a package's
            PyTreeMetadataOptions.
    """
    kinds = {"plain": 1, "item": 3, "args": 3, "item and args": 5,
             "partial": 2, "constructed": 3, "legacy arguments": 1}
    if draw.plain_keys and isinstance(pair.tree, dict):
        kinds["transforms"] = 5
        kinds["legacy transform"] = 1
    if pair.api == "standard":
        kinds = {"standard": 1}
    names = [name for name, weight in kinds.items() for _ in range(weight)]
    return ASKS[draw.pick(names)](Drawing(draw, pair, metadata_options))


class Drawing:
    """Draws the parts of an ask."""

    def __init__(self, draw, pair, metadata_options):
        self.draw, self.pair = draw, pair
        self.metadata_options = metadata_options
        # Mostly the same as for the save.
        self.rich = pair.support_rich_types != draw.chance(0.15)
        self.handler_options = draw.pick(
            [{}, {}, {"use_ocdbt": False}, {"use_zarr3": True},
             {"restore_concurrent_gb": 1}])

    @property
    def stored(self):
        """The tree that a restore without a target returns."""
        if self.pair.support_rich_types and self.rich:
            return self.pair.tree
        return tools.as_restored(self.pair.tree)

    def read_plainly(self):
        """Turns rich types off, for an item that lacks some leaves.

        For such an item, Orbax's reader of rich types requires containers that
        it made itself, which no item has; holdfast accepts the item's.
        """
        self.rich = False

    def checkpointer(self, ocp):
        return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(
            pytree_metadata_options=self.metadata_options(ocp, self.rich),
            **self.handler_options))

    def restore(self, ocp, path, **args):
        """Restores with these PyTreeRestore arguments."""
        with self.checkpointer(ocp) as checkpointer:
            return checkpointer.restore(
                path, args=ocp.args.PyTreeRestore(**args))

    def item(self, tree=None):
        """Draws a target: the tree's structure with leaves of any kind."""
        draw = self.draw
        tree = self.pair.tree if tree is None else tree
        skips = draw.chance(0.25)
        if skips or has_placeholders(tree):
            self.read_plainly()

        def leaf(value):
            if skips and draw.chance(0.3):
                return ...
            return draw.pick([value, 0, abstract(draw, value)])

        return jax.tree.map(leaf, tree)

    def leaf_args(self, tree):
        """Draws a tree of functions, each of which makes a package's
        RestoreArgs."""
        return jax.tree.map(lambda leaf: draw_leaf_args(self.draw, leaf), tree)


def has_placeholders(tree):
    return any(leaf is ... for leaf in jax.tree.leaves(tree))


def abstract(draw, value):
    """Draws a leaf for a target."""
    if is_key(value):
        return jax.ShapeDtypeStruct(value.shape, value.dtype,
                                    sharding=draw.sharding(value.shape))
    if isinstance(value, (np.ndarray, jax.Array)):
        if draw.chance(0.4):
            return np.zeros(value.shape, value.dtype)
        sharding = draw.sharding(value.shape) if draw.chance(0.8) else None
        return jax.ShapeDtypeStruct(value.shape, value.dtype,
                                    sharding=sharding)
    if isinstance(value, np.generic) and draw.chance(0.9):
        return value.item()
    return value


def made(ocp, makers):
    """Returns the tree of RestoreArgs, made with the package's classes."""
    return jax.tree.map(lambda make: make(ocp), makers)


def restore_dtype(draw, leaf):
    """Draws a dtype to cast a leaf to, for which C++ defines the result, or
    returns None."""
    if draw.chance(0.6) or is_key(leaf):
        return None
    name = draw.cast_of(leaf)
    return None if name is None else jax.numpy.dtype(name)


def draw_leaf_args(draw, leaf):
    """Draws a function that makes one leaf's RestoreArgs for a package."""
    if isinstance(leaf, str) or leaf is ...:
        kind = draw.pick([None, None, str]) if leaf is not ... else None
        return lambda ocp: ocp.RestoreArgs(restore_type=kind)
    if isinstance(leaf, (bool, int, float, np.generic)):
        return draw_scalar_args(draw, leaf)
    wrong = draw.chance(0.01)
    if wrong:
        kind = draw.pick([int, str, float, object])
        return lambda ocp: ocp.RestoreArgs(restore_type=kind)
    if draw.chance(0.35):
        kind = None if is_key(leaf) else draw.pick([None, np.ndarray])
        dtype = restore_dtype(draw, leaf)
        return lambda ocp: ocp.RestoreArgs(restore_type=kind, dtype=dtype)
    return draw_array_args(draw, leaf)


def draw_scalar_args(draw, leaf):
    kinds = [None, None, int, float, np.ndarray]
    if isinstance(leaf, np.complexfloating):
        kinds = [None]
    kind, dtype = draw.pick(kinds), restore_dtype(draw, leaf)
    if draw.chance(0.1):
        sharding = draw.sharding(())
        return lambda ocp: ocp.ArrayRestoreArgs(sharding=sharding, dtype=dtype)
    return lambda ocp: ocp.RestoreArgs(restore_type=kind, dtype=dtype)


def draw_array_args(draw, leaf):
    """Draws ArrayRestoreArgs, whose placement is given in one of several
    ways."""
    options = {"dtype": restore_dtype(draw, leaf)}
    shape = leaf.shape
    if draw.chance(0.3) and not is_key(leaf):
        shape = other_shape(draw, shape)
        options[draw.pick(["global_shape", "shape"])] = shape
        options["strict"] = shape == leaf.shape or draw.chance(0.03)
    elif draw.chance(0.2) and not is_key(leaf):
        options["global_shape"] = shape
    sharding = draw.sharding(shape)
    named = isinstance(sharding, jax.sharding.NamedSharding)
    way = draw.pick(["sharding", "sharding", "metadata", "mesh", "replica",
                     "saved"])
    if way == "mesh" and named:
        options.update(mesh=sharding.mesh, mesh_axes=sharding.spec)
    elif way == "metadata":
        kind = ("NamedShardingMetadata" if named
                else "SingleDeviceShardingMetadata")
        return lambda ocp: ocp.ArrayRestoreArgs(
            sharding=getattr(ocp.metadata, kind).from_jax_sharding(sharding),
            **options)
    elif way == "replica" and named:
        return lambda ocp: ocp.type_handlers.SingleReplicaArrayRestoreArgs(
            sharding=sharding, **options)
    elif way != "saved" or not isinstance(leaf, jax.Array):
        options["sharding"] = sharding
    return lambda ocp: ocp.ArrayRestoreArgs(**options)


def other_shape(draw, shape):
    """Returns the shape, or a shape with some dimensions longer or shorter."""
    if draw.chance(0.3):
        return shape
    return tuple(max(1, int(n + draw.random.integers(-3, 5)))
                 if draw.chance(0.6) else n for n in shape)


def ask_plain(d):
    return Ask("plain", lambda ocp, path: d.restore(ocp, path))


def ask_item(d):
    if d.draw.chance(0.15):
        def restore(ocp, path):
            with d.checkpointer(ocp) as checkpointer:
                found = checkpointer.metadata(path).item_metadata
            return d.restore(ocp, path, item=found)
        return Ask("item=TreeMetadata", restore)
    tree = d.pair.tree if d.draw.chance(0.7) else d.stored
    item = d.item(tree)
    return Ask("item", lambda ocp, path: d.restore(ocp, path, item=item))


def ask_args(d):
    makers = d.leaf_args(d.stored)
    return Ask("restore_args", lambda ocp, path: d.restore(
        ocp, path, restore_args=made(ocp, makers)))


def ask_item_and_args(d):
    tree = d.pair.tree if d.draw.chance(0.7) else d.stored
    item, makers = d.item(tree), d.leaf_args(tree)
    return Ask("item, restore_args", lambda ocp, path: d.restore(
        ocp, path, item=item, restore_args=made(ocp, makers)))


def ask_partial(d):
    d.read_plainly()
    tree = thinned(d.draw, d.pair.tree)
    item = d.item(tree)
    if isinstance(item, dict) and d.draw.chance(0.3):
        item = dict(item, **{"not there": d.draw.pick([0, np.ones(2), "s"])})
        return Ask("partial with more", lambda ocp, path: d.restore(
            ocp, path, item=item, partial_restore=True))
    makers = d.leaf_args(tree)
    if d.draw.chance(0.5):
        return Ask("partial, restore_args", lambda ocp, path: d.restore(
            ocp, path, item=item, restore_args=made(ocp, makers),
            partial_restore=True))
    return Ask("partial", lambda ocp, path: d.restore(
        ocp, path, item=item, partial_restore=True))


def thinned(draw, tree):
    """Returns the tree without some keys of its dicts."""
    if not isinstance(tree, dict):
        return tree
    kept = {key: thinned(draw, value) for key, value in tree.items()
            if draw.chance(0.7)}
    return kept or tree


def ask_constructed(d):
    draw = d.draw
    if has_placeholders(d.pair.tree):
        d.read_plainly()
    target = jax.tree.map(lambda leaf: abstract(draw, leaf), d.pair.tree)
    shardings = None
    if draw.chance(0.4):
        shardings = jax.tree.map(lambda leaf: draw.sharding(
            getattr(leaf, "shape", ())), target)
    options = {"set_global_shape": draw.chance(0.7),
               "strict": draw.chance(0.7)}
    text = ", ".join(f"{key}={value}" for key, value in options.items())

    def restore(ocp, path):
        args = ocp.checkpoint_utils.construct_restore_args(
            target, shardings, **options)
        return d.restore(ocp, path, item=target, restore_args=args)

    return Ask(f"construct_restore_args({text}"
               f"{', sharding_tree' if shardings is not None else ''})",
               restore)


def ask_legacy_arguments(d):
    """Draws a restore with the arguments that Orbax had before `args`."""
    item, makers = d.item(), d.leaf_args(d.pair.tree)
    bare = d.draw.chance(0.4)

    def restore(ocp, path):
        kwargs = {"item": item, "restore_args": made(ocp, makers)}
        if bare:
            checkpointer = ocp.PyTreeCheckpointer()
            return checkpointer.restore(path, **kwargs)
        with d.checkpointer(ocp) as checkpointer:
            return checkpointer.restore(path, **kwargs)

    return Ask("legacy arguments", restore)


def ask_standard(d):
    draw = d.draw
    target = None
    if draw.chance(0.8):
        target = jax.tree.map(lambda leaf: standard_target(draw, leaf),
                              d.pair.tree)
    options = {"strict": draw.chance(0.6)}
    if draw.chance(0.3):
        options["fallback_sharding"] = jax.sharding.SingleDeviceSharding(
            jax.devices()[int(draw.random.integers(8))])

    def restore(ocp, path):
        handler = ocp.StandardCheckpointHandler(
            pytree_metadata_options=d.metadata_options(ocp, d.rich))
        with ocp.Checkpointer(handler) as checkpointer:
            return checkpointer.restore(path, args=ocp.args.StandardRestore(
                target, **options))

    text = ", ".join(options)
    return Ask(f"StandardRestore({'item, ' if target is not None else ''}"
               f"{text} strict={options['strict']})", restore)


def standard_target(draw, leaf):
    found = abstract(draw, leaf)
    if isinstance(leaf, np.generic):
        return np.zeros((), leaf.dtype)
    if not isinstance(found, jax.ShapeDtypeStruct) or is_key(leaf):
        return found
    if draw.chance(0.1):
        shape = other_shape(draw, leaf.shape)
        return jax.ShapeDtypeStruct(shape, leaf.dtype,
                                    sharding=draw.sharding(shape))
    dtype = restore_dtype(draw, leaf) or leaf.dtype
    return jax.ShapeDtypeStruct(leaf.shape, dtype, sharding=found.sharding)


def ask_transforms(d):
    text, make_args = option_transforms.draw_transforms(
        d.draw, d.stored, lambda leaf: draw_leaf_args(d.draw, leaf))
    return Ask(text, lambda ocp, path: d.restore(ocp, path, **make_args(ocp)))


def ask_legacy_transform(d):
    text, make_args = option_transforms.draw_legacy(
        d.draw, d.stored, lambda leaf: draw_leaf_args(d.draw, leaf))
    return Ask(text, lambda ocp, path: d.restore(ocp, path, **make_args(ocp)))


ASKS = {
    "plain": ask_plain,
    "item": ask_item,
    "args": ask_args,
    "item and args": ask_item_and_args,
    "partial": ask_partial,
    "constructed": ask_constructed,
    "legacy arguments": ask_legacy_arguments,
    "standard": ask_standard,
    "transforms": ask_transforms,
    "legacy transform": ask_legacy_transform,
}
