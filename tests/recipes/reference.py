"""A slow and simple implementation of recipes (doc/recipes.md) in numpy.

Tests compare the C++ engine with it, and use it for parameters if the engine is
not built. A source leaf is named by its keys joined with `.`, a target leaf by
the tuple of its keys.
"""

import fnmatch
import itertools
import json
import pathlib
import re

import einops
import numpy as np

SHIPPED = pathlib.Path(__file__).parents[2] / "src" / "recipe" / "shipped"


def load(name):
    """Returns the shipped recipe `name`, or the recipe in the file `name`."""
    path = pathlib.Path(name)
    if path.suffix != ".json":
        path = SHIPPED / f"{name}.json"
    return json.loads(path.read_text())


def apply(recipe, source, *, config=None, sizes=None, reverse=False):
    """Returns the target leaves {keys: array} for the source leaves {name:
    array}.

    `config` is the content of the model's config.json; `sizes` are sizes that
    the caller gives. Raises ValueError for a leaf or a rule that does not fit.
    """
    known = _known_sizes(recipe.get("sizes", {}), config or {})
    known.update(sizes or {})
    target, taken, shared = {}, [], set()
    for rule in _single_rules(recipe["rules"]):
        made, took, others = _apply_rule(rule, source, known, reverse)
        for name, array in made:
            keys = tuple(
                key.replace("\\.", ".") for key in re.split(r"(?<!\\)\.", name)
            )
            if keys in target:
                raise ValueError(f"{name}: two rules make it")
            target[keys] = array
        taken += took
        shared.update(others)
    twice = {name for name in taken if taken.count(name) > 1}
    if twice:
        raise ValueError(f"taken by two rules: {sorted(twice)}")
    left = [name for name in source if name not in shared.union(taken)]
    rest = recipe.get("rest")
    if left and rest not in ("keep", "drop"):
        raise ValueError(f"taken by no rule: {left}")
    if rest == "keep":
        target.update({tuple(name.split(".")): source[name] for name in left})
    return target


def nested(leaves):
    """Returns a tree of dicts from {tuple of keys: leaf}."""
    tree = {}
    for keys, leaf in leaves.items():
        node = tree
        for key in keys[:-1]:
            node = node.setdefault(key, {})
        node[keys[-1]] = leaf
    return tree


def flat(tree, prefix=""):
    """Returns {keys joined with `.`: leaf} from a tree of dicts."""
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


def _targets(rule):
    to = rule.get("to", "")
    return to if isinstance(to, list) else [to]


def _single_rules(rules):
    """Yields rules in which no placeholder with names is on both sides.

    A rule with such a placeholder is replaced by one rule for each name.
    """
    for rule in rules:
        names = rule.get("names", {})
        both = set(_placeholders(rule.get("from", "")))
        both &= set(_placeholders(_targets(rule)[0])) & names.keys()
        for texts in itertools.product(*(names[name] for name in both)):
            text = json.dumps(rule)
            for name, value in zip(both, texts, strict=True):
                text = text.replace(f"{{{name}}}", value)
            left = {name: names[name] for name in names.keys() - both}
            yield json.loads(text) | {"names": left}


def _apply_rule(rule, source, known, reverse):
    """Returns ([(target name, array)], leaves taken, leaves that other rules
    may take as well)."""
    if "drop" in rule:
        dropped = [] if reverse else fnmatch.filter(source, rule["drop"])
        return [], _checked(rule, dropped, reverse), []
    if reverse and ("match" in rule or "dequantize" in rule):
        raise ValueError(f"cannot run backwards: {rule}")
    if "match" in rule:
        return _apply_match(rule, source)
    names, targets = rule["names"], _targets(rule)
    origin, also_taken = rule["from"], []
    left, right = (rule.get("axes") or "... -> ...").split("->")
    if reverse:
        for other in targets[1:]:
            also_taken += [name for _, name in _matches(other, names, source)]
        origin, targets, left, right = targets[0], [rule["from"]], right, left
    found = _matches(origin, names, source)
    taken = [name for _, name in found] + also_taken
    shared = []
    if not found and not reverse and "else" in rule:
        found = _matches(rule["else"], names, source)
        shared = [name for _, name in found]
    _checked(rule, found)
    _check_all_are_there(origin, [values for values, _ in found], names)

    stacked = [p for p in _placeholders(origin) if f"{{{p}}}" not in targets[0]]
    split = [p for p in _placeholders(targets[0]) if f"{{{p}}}" not in origin]
    made = []
    for values, group in _groups(found, stacked):
        arrays = []
        for binding, name in group:
            array = source[name]
            if "dequantize" in rule:
                array, scale_name = _dequantize(rule, binding, array, source)
                taken.append(scale_name)
            arrays.append(array)
        shape = [len({values[p] for values, _ in group}) for p in stacked]
        array = np.stack(arrays).reshape(shape + list(arrays[0].shape))
        sized = dict(known)
        sized.update({p: len(names[p]) for p in split if p in names})
        array = _rearranged(
            array, " ".join([*stacked, left]), " ".join([*split, right]), sized
        )
        if "cast" in rule and not reverse:
            array = array.astype(rule["cast"])
        for place in np.ndindex(array.shape[: len(split)]):
            texts = {p: _text(p, value, names) for p, value in values.items()}
            for p, index in zip(split, place, strict=True):
                texts[p] = _text(p, index, names)
            made += [(to.format(**texts), array[place]) for to in targets]
    return made, taken, shared


def _checked(rule, found, reverse=False):
    if not found and not rule.get("optional") and not reverse:
        raise ValueError(f"takes no leaf: {rule}")
    return found


def _check_all_are_there(template, values, names):
    """Checks that all combinations of numbers (from 0 to the highest found) and
    names occur."""
    ranges = [
        range(len(names[p]) if p in names else max(v[p] for v in values) + 1)
        for p in (_placeholders(template) if values else [])
    ]
    there = {tuple(v.values()) for v in values}
    gaps = [place for place in itertools.product(*ranges) if place not in there]
    if values and gaps:
        raise ValueError(f"{template}: {gaps[0]} is missing")


def _apply_match(rule, source):
    found = [(re.fullmatch(rule["match"], name), name) for name in source]
    found = _checked(rule, [(match, name) for match, name in found if match])
    pattern = rule.get("axes") or "... -> ..."
    made = [
        (match.expand(rule["to"]), einops.rearrange(source[name], pattern))
        for match, name in found
    ]
    return made, [name for _, name in found], []


def _placeholders(template):
    return re.findall(r"\{(\w+)\}", template)


def _matches(template, names, source):
    """Returns [({placeholder: index}, name)] for the leaves that match, in
    order."""
    pattern = ""
    for literal, placeholder in re.findall(r"([^{]*)(?:\{(\w+)\})?", template):
        pattern += re.escape(literal.replace("\\.", "."))
        choices = map(re.escape, names.get(placeholder, []))
        choices = "|".join(choices) or "0|[1-9][0-9]*"
        pattern += f"(?P<{placeholder}>{choices})" if placeholder else ""
    found = [(re.fullmatch(pattern, name), name) for name in source]
    return sorted(
        (
            (
                {p: _place(p, t, names) for p, t in match.groupdict().items()},
                name,
            )
            for match, name in found
            if match
        ),
        key=lambda item: list(item[0].values()),
    )


def _place(placeholder, text, names):
    if placeholder in names:
        return names[placeholder].index(text)
    return int(text)


def _text(placeholder, place, names):
    return names[placeholder][place] if placeholder in names else str(place)


def _groups(found, stacked):
    """Yields groups of matches that are stacked together: those that differ
    only in the stacked placeholders."""

    def key(item):
        return [value for p, value in item[0].items() if p not in stacked]

    # Sorting is stable, so each group keeps the order of the stacked
    # placeholders.
    for _, group in itertools.groupby(sorted(found, key=key), key):
        group = list(group)
        kept = {p: v for p, v in group[0][0].items() if p not in stacked}
        yield kept, group


def _dequantize(rule, binding, array, source):
    name = rule["dequantize"]["scale"].format(
        **{p: _text(p, v, rule["names"]) for p, v in binding.items()}
    )
    scale = source[name].astype(np.float32)
    for axis, block in enumerate(rule["dequantize"]["block"]):
        scale = np.repeat(scale, block, axis)
    scale = scale[tuple(slice(size) for size in array.shape)]
    return array.astype(np.float32) * scale, name


def _rearranged(array, left, right, known):
    sizes = {
        axis: size
        for axis, size in known.items()
        if axis in re.findall(r"\w+", left)
    }
    return einops.rearrange(array, f"{left} -> {right}", **sizes)
