"""Slow and obvious: what a recipe (doc/recipes.md) makes of arrays, in numpy.

The twin that the C++ engine is held against, and the source of parameters where
the engine is not built. A leaf of the source is named by its keys joined with
`.`; a leaf of the target by the tuple of its keys.
"""

import fnmatch
import itertools
import json
import pathlib
import re

import numpy as np

SHIPPED = pathlib.Path(__file__).parents[2] / "src" / "recipe" / "shipped"


def load(name):
    """The recipe that is shipped under `name`, or that lies at a path."""
    path = pathlib.Path(name)
    if path.suffix != ".json":
        path = SHIPPED / f"{name}.json"
    return json.loads(path.read_text())


def apply(recipe, source, *, config=None, sizes=None, reverse=False):
    """Target leaves, {keys: array}, of the source's, {name: array}.

    `config` is the content of the model's config.json, `sizes` the caller's.
    Raises ValueError for a leaf or a rule that does not fit.
    """
    known = _known_sizes(recipe.get("sizes", {}), config or {})
    known.update(sizes or {})
    target, taken = {}, []
    for rule in recipe["rules"]:
        made, took = _apply_rule(rule, source, known, reverse)
        for name, array in made:
            keys = tuple(
                key.replace("\\.", ".") for key in re.split(r"(?<!\\)\.", name)
            )
            if keys in target:
                raise ValueError(f"{name}: two rules make it")
            target[keys] = array
        taken += took
    twice = {name for name in taken if taken.count(name) > 1}
    if twice:
        raise ValueError(f"taken by two rules: {sorted(twice)}")
    left = [name for name in source if name not in set(taken)]
    rest = recipe.get("rest")
    if left and rest not in ("keep", "drop"):
        raise ValueError(f"taken by no rule: {left}")
    if rest == "keep":
        target.update({tuple(name.split(".")): source[name] for name in left})
    return target


def nested(leaves):
    """A tree of dicts of leaves named by tuples of keys."""
    tree = {}
    for keys, leaf in leaves.items():
        node = tree
        for key in keys[:-1]:
            node = node.setdefault(key, {})
        node[keys[-1]] = leaf
    return tree


def flat(tree, prefix=""):
    """{name: leaf} of a tree of dicts, names joined with `.`."""
    leaves = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            leaves.update(flat(value, f"{prefix}{key}."))
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def _known_sizes(wanted, config):
    known = {}
    for axis, choices in wanted.items():
        for choice in choices if isinstance(choices, list) else [choices]:
            value = choice if isinstance(choice, int) else config
            for part in choice.split(".") if isinstance(choice, str) else []:
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None:
                known[axis] = value
                break
    return known


def _apply_rule(rule, source, known, reverse):
    """([(target name, array)], [names of leaves taken])."""
    if "drop" in rule:
        dropped = [] if reverse else fnmatch.filter(source, rule["drop"])
        return [], dropped
    if reverse and ("match" in rule or "dequantize" in rule):
        raise ValueError(f"cannot run backwards: {rule}")
    if "match" in rule:
        return _apply_match(rule, source)
    names = rule.get("names", {})
    targets = rule["to"] if isinstance(rule["to"], list) else [rule["to"]]
    origin, also_taken = rule["from"], []
    left, right = (rule.get("axes") or "... -> ...").split("->")
    if reverse:
        for other in targets[1:]:
            also_taken += [name for _, name in _matches(other, names, source)]
        origin, targets, left, right = targets[0], [rule["from"]], right, left
    found = _matches(origin, names, source)
    taken = [name for _, name in found] + also_taken
    if not found and not reverse and rule.get("else") in source:
        found, origin = [({}, rule["else"])], rule["else"]
    if not found and not rule.get("optional"):
        raise ValueError(f"takes no leaf: {rule}")

    stacked = [p for p in _placeholders(origin) if f"{{{p}}}" not in targets[0]]
    split = [p for p in _placeholders(targets[0]) if f"{{{p}}}" not in origin]
    made = []
    for values, group in _groups(found, stacked):
        arrays = {}
        for binding, name in group:
            array = source[name]
            if "dequantize" in rule:
                array, scale_name = _dequantize(rule, binding, array, source)
                taken.append(scale_name)
            place = tuple(_index(p, binding[p], names) for p in stacked)
            arrays[place] = array
        shape = tuple(max(axis) + 1 for axis in zip(*arrays, strict=True))
        if len(arrays) != np.prod(shape, dtype=int):
            raise ValueError(f"{origin}: a number is missing: {sorted(arrays)}")
        array = np.stack([arrays[place] for place in sorted(arrays)])
        array = array.reshape(shape + array.shape[1:])
        sized = dict(known)
        for p in names.keys() & set(split):
            sized[p] = len(names[p])
        array = rearrange(
            array, " ".join([*stacked, left]), " ".join([*split, right]), sized
        )
        if "cast" in rule and not reverse:
            array = array.astype(rule["cast"])
        for place in np.ndindex(array.shape[: len(split)]):
            texts = dict(values)
            for p, index in zip(split, place, strict=True):
                texts[p] = names[p][index] if p in names else str(index)
            made += [(to.format(**texts), array[place]) for to in targets]
    return made, taken


def _apply_match(rule, source):
    made, taken = [], []
    for name, array in source.items():
        match = re.fullmatch(rule["match"], name)
        if match:
            taken.append(name)
            left, right = (rule.get("axes") or "... -> ...").split("->")
            made.append(
                (match.expand(rule["to"]), rearrange(array, left, right, {}))
            )
    return made, taken


def _placeholders(template):
    return re.findall(r"\{(\w+)\}", template)


def _matches(template, names, source):
    """[({placeholder: text}, name of leaf)] of the leaves that fit."""
    pattern = ""
    for literal, placeholder in re.findall(r"([^{]*)(?:\{(\w+)\})?", template):
        pattern += re.escape(literal.replace("\\.", "."))
        if placeholder in names:
            choices = "|".join(re.escape(text) for text in names[placeholder])
            pattern += f"(?P<{placeholder}>{choices})"
        elif placeholder:
            pattern += f"(?P<{placeholder}>0|[1-9][0-9]*)"
    found = [(re.fullmatch(pattern, name), name) for name in source]
    return [(match.groupdict(), name) for match, name in found if match]


def _index(placeholder, text, names):
    if placeholder in names:
        return names[placeholder].index(text)
    return int(text)


def _groups(found, stacked):
    """Matches that are stacked together: equal but for what is stacked."""

    def key(item):
        return [(p, v) for p, v in item[0].items() if p not in stacked]

    for values, group in itertools.groupby(sorted(found, key=key), key):
        yield dict(values), list(group)


def _dequantize(rule, binding, array, source):
    name = rule["dequantize"]["scale"].format(**binding)
    scale = source[name].astype(np.float32)
    for axis, block in enumerate(rule["dequantize"]["block"]):
        scale = np.repeat(scale, block, axis)
    scale = scale[tuple(slice(size) for size in array.shape)]
    return array.astype(np.float32) * scale, name


def _parse(side, ndim):
    """[[names of axes]] for each axis of one side; `...` becomes names."""
    groups = [
        group.strip("()").split()
        for group in re.findall(r"\([^)]*\)|\S+", side)
    ]
    if ["..."] in groups:
        at = groups.index(["..."])
        more = ndim - len(groups) + 1
        groups[at : at + 1] = [[f"...{i}"] for i in range(more)]
    return [[name for name in group if name != "1"] for group in groups]


def rearrange(array, left, right, known):
    """`array` with axes named as in `left` put as in `right`, as in einops."""
    sources = _parse(left, array.ndim)
    unnamed = sum(name.startswith("...") for group in sources for name in group)
    targets = _parse(right, len(re.findall(r"\([^)]*\)|\S+", right)) - 1 + unnamed)
    if len(sources) != array.ndim:
        raise ValueError(f"{left}: the array has shape {array.shape}")
    sizes = {}
    for group, size in zip(sources, array.shape, strict=True):
        unknown = [name for name in group if name not in known]
        if len(group) == 1:
            unknown = group
        product = 1
        for name in group:
            if name not in unknown:
                sizes[name] = known[name]
                product *= known[name]
        if len(unknown) > 1:
            raise ValueError(f"{left}: sizes of {unknown} are not known")
        if unknown:
            sizes[unknown[0]] = size // product
            product *= sizes[unknown[0]]
        if product != size:
            raise ValueError(f"{left}: {group} are {product}, not {size}")
    order = [name for group in sources for name in group]
    wanted = [name for group in targets for name in group]
    if sorted(order) != sorted(wanted) or len(set(order)) != len(order):
        raise ValueError(f"{left} -> {right}: names differ")
    array = array.reshape([sizes[name] for name in order])
    array = array.transpose([order.index(name) for name in wanted])
    return array.reshape(
        [int(np.prod([sizes[n] for n in group])) for group in targets]
    )
