"""Draws transforms of a stored tree from a seed, for option_asks.

Each drawing is a description and a function that makes the arguments of a
package's PyTreeRestore.

Import orbax_tools first: it chooses the platform.
"""

import jax
import numpy as np
import orbax_tools as tools


def is_array(value):
    return isinstance(value, (np.ndarray, jax.Array))


def leaves_of(tree):
    """Returns {path joined by "/": leaf} for the leaves that are not empty."""
    return {"/".join(path): leaf for path, leaf in tools.flatten(tree)
            if leaf is not None and not isinstance(leaf, (dict, list, tuple))}


def twice(value):
    """A value_fn: accepts values of any kind."""
    if is_array(value) and value.dtype.name in ("float32", "int32", "float64"):
        return value + value
    return [value]


def count_of(key, tree, args):
    """A multi_value_fn: returns what it was called with."""
    names = sorted("/".join(map(str, path))
                   for path, leaf in tools.flatten(tree)
                   if leaf is not ... and hasattr(leaf, "shape"))
    return f"{key}: {names}, {type(args).__name__}"


def draw_transforms(draw, stored, leaf_args):
    """Draws a few transforms, with an item and restore_args that fit them.

    Args:
        draw: the pair's Generator.
        stored: the tree that a restore without a target returns.
        leaf_args: draws a function that makes a package's RestoreArgs.

    Returns:
        (description, function from a package to PyTreeRestore's arguments).
    """
    leaves = leaves_of(stored)
    paths = sorted(leaves)
    item, makers, transforms, words = {}, {}, {}, []

    def add(path, leaf, make):
        put(item, path, leaf)
        put(makers, path, make)

    for path in paths:
        if not draw.chance(0.7):
            continue
        leaf = leaves[path]
        way = draw.pick(["same", "same", "rename", "value_fn", "fallback",
                         "drop", "both"])
        if draw.chance(0.01):
            way = "tuple key"
        if way == "drop":
            continue
        new = path if way in ("same", "fallback", "value_fn") else (
            f"new{len(words)}/" + path.replace("/", "_"))
        add(new, target_of(draw, leaf), leaf_args(leaf))
        maker = transform_of(way, path)
        if maker is not None:
            transforms[new] = maker
        words.append(way)
    odd = draw.random.random()
    if odd < 0.15:
        add("only/in/item", np.ones(2), lambda ocp: ocp.RestoreArgs())
        words.append("missing")
        if draw.chance(0.7):
            transforms["only/in/item"] = lambda ocp: ocp.Transform(
                use_fallback=True)
            words.append("fallback")
    elif odd < 0.25:
        transforms[r"(.*)"] = lambda ocp: ocp.Transform(original_key=r"\1")
        words.append("regex of all")
    elif odd < 0.4 and paths:
        add_multi(draw, paths, add, transforms)
        words.append("multi_value_fn")
    elif odd < 0.45:
        add("nowhere", 0, lambda ocp: ocp.RestoreArgs())
        transforms["nowhere"] = lambda ocp: ocp.Transform(
            original_key="no/such/key")
        words.append("unknown key")
    nested = draw.chance(0.3)
    default = draw.chance(0.75)
    if not item:
        add(paths[0], leaves[paths[0]], leaf_args(leaves[paths[0]]))

    def make(ocp):
        flat = {key: maker(ocp) for key, maker in transforms.items()}
        return {"item": item, "restore_args": jax.tree.map(
                    lambda maker: maker(ocp), makers),
                "transforms": nest(flat) if nested else flat,
                "transforms_default_to_original": default}

    return (f"transforms {'/'.join(words)} default={default} "
            f"nested={nested}", make)


def target_of(draw, leaf):
    if is_array(leaf) and draw.chance(0.3):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    return draw.pick([0, leaf])


def transform_of(way, path):
    """Returns a function that makes a package's Transform, or None."""
    if way == "rename":
        return lambda ocp: ocp.Transform(original_key=path)
    if way == "both":
        return lambda ocp: ocp.Transform(
            original_key=path, value_fn=twice)
    if way == "tuple key":
        return lambda ocp: ocp.Transform(original_key=tuple(path.split("/")))
    if way == "value_fn":
        return lambda ocp: ocp.Transform(value_fn=twice)
    if way == "fallback":
        return lambda ocp: ocp.Transform(use_fallback=True)
    return None


def add_multi(draw, paths, add, transforms):
    """Adds a leaf that is made of several others."""
    chosen = [path for path in paths if draw.chance(0.4)] or paths[:1]
    plain = draw.chance(0.1)
    add("made/of/many", 0, lambda ocp: ocp.RestoreArgs())

    def make(ocp):
        if plain:
            return ocp.Transform(multi_value_fn=count_of)
        return ocp.RestoreTransform(
            multi_value_fn=count_of, multi_value_fn_input_args={
                path: ocp.RestoreArgs() for path in chosen})

    transforms["made/of/many"] = make


def draw_legacy(draw, stored, leaf_args):
    """Draws a legacy_transform_fn that keeps some top-level keys.

    Arguments and result are those of draw_transforms.
    """
    keys = sorted(stored)
    chosen = [key for key in keys if draw.chance(0.6)] or keys[:1]
    item = {f"new_{key}": stored[key] for key in chosen}
    makers = jax.tree.map(leaf_args, item)
    whole = draw.chance(0.3)

    def transform(item, structure, infos):
        if whole:
            return structure, infos
        return ({f"new_{key}": structure[key] for key in chosen},
                {f"new_{key}": infos[key] for key in chosen})

    def make(ocp):
        if whole:
            return {"item": stored, "legacy_transform_fn": transform}
        return {"item": item, "legacy_transform_fn": transform,
                "restore_args": jax.tree.map(lambda maker: maker(ocp),
                                             makers)}

    return f"legacy_transform_fn whole={whole}", make


def put(tree, path, value):
    """Sets the value at a "/"-joined path in a tree of dicts."""
    *parents, last = path.split("/")
    for key in parents:
        tree = tree.setdefault(key, {})
    tree[last] = value


def nest(flat):
    """Returns a tree of dicts from {path joined by "/": value}."""
    tree = {}
    for path, value in flat.items():
        put(tree, path, value)
    return tree
