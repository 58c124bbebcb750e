"""Seeded random restores with transforms.

A case is plain data, from which `Package` objects make real arguments, so that
real Orbax, holdfast.orbax and the C++ planner get the same request. There are
few different keys, so that rules match. Some of the rules cannot work.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

KEYS = ["a", "b", "w", "layer0", "layer1", "layer12", "kernel", "bias", "x.y",
        "mu", "é"]
PATTERNS = [
    r"(.*)/kernel", r"(.*)", r"layer(\d+)/(.*)", r"(?P<top>[^/]*)/(?P<rest>.*)",
    r"a|b", r".*bias", r"(a)?(b)?.*", r"\w+", r"[ab]/.*", r"(?i:A)/(.)",
    r"(w)(?:/(\d))?", r"a/(?=k).*", r"(.)/\1", r"x\.y", r"(?P<k>\w)(?P=k)?",
    r"[^/]+/[^/]+", r"é.*", r"\d+|.{1,3}"]
BAD_PATTERNS = [r"(", r"a**", r"(?P<1>a)", r"[", r"\q", r"(?P<n>a)(?P<n>b)",
                r"(?<n>a)", r"(?z)a", r"a{3,1}", r"\2(a)"]
TEMPLATES = [r"\1", r"\1/bias", r"layer\1/\2", r"\g<1>", r"\g<rest>",
             r"\g<top>/w", r"\2\1", r"a\1b", r"\g<0>", r"a/\g<0>"]
BAD_TEMPLATES = [r"\9", r"\g<none>", r"\g<1", r"\q", r"\g<>", r"\g<1a>",
                 "a\\"]
RESTORE_TYPES = ["saved", "numpy", "jax"]
DTYPES = [None, None, "float32", "bfloat16", "int16"]


@dataclasses.dataclass
class Rule:
    """One transform as plain data."""

    pattern: str
    original_key: str | None = None
    use_fallback: bool = False
    value_fn: str | None = None  # a name in VALUE_FNS
    has_multi_value_fn: bool = False
    is_restore: bool = True
    # Items are (pattern, restore arguments); None means not given.
    inputs: list | None = None


@dataclasses.dataclass
class Case:
    """One request."""

    seed: int
    item: object
    rules: list
    # Path -> (one of RESTORE_TYPES, dtype name); None means not given.
    restore_args: dict | None
    default_to_original: bool

    def __str__(self):
        return (f"seed {self.seed} default_to_original="
                f"{self.default_to_original}\n  item {self.item}\n  rules " +
                "\n        ".join(map(str, self.rules)) +
                f"\n  restore_args {self.restore_args}")


VALUE_FNS = {
    "double": lambda value: value + value,
    "text": lambda value: f"{type(value).__name__}",
    "raise": lambda value: {}["value_fn"],
}


def leaf(random):
    """Draws a leaf that can be stored."""
    kind = random.integers(6)
    shape = tuple(random.integers(1, 4, random.integers(0, 3)))
    values = random.integers(0, 100, shape)
    if kind < 2:
        return np.asarray(values, ["float32", "int32"][kind])
    if kind == 2:
        return jnp.asarray(values, "float32")
    return [int(random.integers(9)), float(random.integers(9)) / 4,
            f"text {random.integers(9)}"][kind - 3]


def tree(random, depth=3, make_leaf=leaf):
    """Draws a tree of dicts and lists, some of them empty."""
    if depth < 3 and random.random() < 0.45:
        return make_leaf(random)
    if depth < 3 and random.random() < 0.12:
        return [None, {}, [], ()][random.integers(4)]
    if depth == 0:
        return make_leaf(random)
    count = random.integers(1, 5)
    if depth < 3 and random.random() < 0.25:
        children = [tree(random, depth - 1, make_leaf) for _ in range(count)]
        return children if random.random() < 0.5 else tuple(children)
    keys = random.permutation(KEYS)[:count]
    return {str(key): tree(random, depth - 1, make_leaf) for key in keys}


def flatten(node, path=()):
    """Yields (path, leaf) pairs; None and empty containers are leaves."""
    if isinstance(node, dict) and node:
        pairs = [(key, node[key]) for key in sorted(node)]
    elif isinstance(node, (list, tuple)) and node:
        pairs = [(str(i), child) for i, child in enumerate(node)]
    else:
        yield path, node
        return
    for key, child in pairs:
        yield from flatten(child, (*path, key))


def is_empty(node):
    return node is None or isinstance(node, (dict, list, tuple)) and not node


def nest(pairs):
    """Returns nested dicts, or None if one path leads through another's
    leaf."""
    root = {}
    for path, value in pairs:
        node = root
        for key in path[:-1]:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                return None
        if path[-1] in node:
            return None
        node[path[-1]] = value
    return root


class Generator:
    """Draws requests for one stored tree."""

    def __init__(self, stored, seed):
        self.stored = stored
        self.paths = [path for path, _ in flatten(stored)]
        self.random = np.random.default_rng(seed)
        self.seed = seed

    def chance(self, share):
        return self.random.random() < share

    def pick(self, options):
        return options[self.random.integers(len(options))]

    def key(self):
        """Draws a key, mostly one that is stored."""
        if self.chance(0.9):
            return "/".join(self.pick(self.paths))
        return self.pick(["none", "a/none", "kernel"])

    def args(self):
        return self.pick(RESTORE_TYPES), self.pick(DTYPES)

    def item(self):
        """Draws an item in which stored leaves are kept, moved or dropped, and
        new leaves added."""
        pairs = []
        for path in self.paths:
            draw = self.random.random()
            if draw < 0.5:
                pairs.append((path, "item " + "/".join(path)))
            elif draw < 0.7:
                new = (*path[:-1], str(self.pick(KEYS)))
                pairs.append((new, "moved to " + "/".join(new)))
        for _ in range(self.random.integers(3)):
            key = (str(self.pick(KEYS)), str(self.pick(KEYS)))
            pairs.append((key, self.pick([7, 1.5, None, {}, "new"])))
        return nest(pairs)

    def pattern(self, item):
        draw = self.random.random()
        if draw < 0.55:
            path = self.pick([path for path, _ in flatten(item)])
            return "/".join(path).replace(".", r"\.")
        if draw < 0.97:
            return self.pick(PATTERNS)
        return self.pick(BAD_PATTERNS)

    def rule(self, item):
        rule = Rule(self.pattern(item), is_restore=self.chance(0.6))
        draw = self.random.random()
        if draw < 0.45:
            rule.original_key = self.key() if self.chance(0.8) else self.pick(
                TEMPLATES if self.chance(0.85) else BAD_TEMPLATES)
        elif draw < 0.65:
            rule.use_fallback = True
        elif draw < 0.85:
            rule.has_multi_value_fn = True
            rule.is_restore = self.chance(0.96)
            if rule.is_restore and self.chance(0.95):
                inputs = {
                    self.key() if self.chance(0.6) else self.pick(PATTERNS):
                    self.args() for _ in range(self.random.integers(3))}
                rule.inputs = list(inputs.items())
        if not rule.use_fallback and not rule.has_multi_value_fn:
            if self.chance(0.3):
                rule.value_fn = self.pick(["double", "text", "text", "raise"])
        return rule

    def case(self):
        item = None
        while not item:
            item = self.item()
        rules = [self.rule(item) for _ in range(self.random.integers(4))]
        args = {path: self.args() for path, node in flatten(item)
                if not is_empty(node)}
        if self.chance(0.08):
            args = None
        elif self.chance(0.1):
            args.pop(self.pick(list(args)), None) if args else None
        return Case(self.seed, item, list({rule.pattern: rule
                                           for rule in rules}.values()),
                    args, bool(self.chance(0.7)))
