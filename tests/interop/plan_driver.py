"""Sends the C++ planner and the Python planner the same request."""

import re
import subprocess

import random_transforms as cases
from holdfast.orbax import RestoreArgs, RestoreTransform
from holdfast.orbax._trees.transforms import plan_transforms
from holdfast.orbax.transform_utils import Transform

CODES = {KeyError: "NOT_FOUND", ValueError: "INVALID_ARGUMENT",
         IndexError: "INVALID_ARGUMENT", re.error: "INVALID_ARGUMENT"}


def hex_of(text):
    return text.encode().hex() or "-"


def path_word(path):
    return ",".join(map(hex_of, path))


def args_word(kind, dtype):
    return f"{kind}:{dtype or ''}"


def counted(rows):
    rows = list(rows)
    return [str(len(rows)), *(word for row in rows for word in row)]


def rule_words(rule):
    inputs = [word for pattern, args in rule.inputs or ()
              for word in (hex_of(pattern), args_word(*args))]
    return [hex_of(rule.pattern),
            "!" if rule.original_key is None else hex_of(rule.original_key),
            str(int(rule.use_fallback)), str(int(rule.has_multi_value_fn)),
            str(int(rule.is_restore)),
            str(-1 if rule.inputs is None else len(rule.inputs)), *inputs]


def item_kind(leaf):
    if leaf is None:
        return "none"
    return "dict" if cases.is_empty(leaf) else "leaf"


def request_of(stored, case):
    """Returns the driver's request line. Rules are in the order in which jax
    lists the leaves of a dict."""
    args = case.restore_args
    rules = sorted(case.rules, key=lambda rule: rule.pattern)
    return " ".join([
        str(int(case.default_to_original)), str(int(args is not None)),
        *counted([path_word(path)] for path in stored),
        *counted([path_word(path), item_kind(leaf)]
                 for path, leaf in cases.flatten(case.item)),
        *counted(map(rule_words, rules)),
        *counted([path_word(path), args_word(*pair)]
                 for path, pair in (args or {}).items())])


def transform_of(rule):
    kind = RestoreTransform if rule.is_restore else Transform
    given = {"multi_value_fn_input_args": dict(rule.inputs)
             } if rule.inputs is not None else {}
    return kind(rule.original_key, rule.use_fallback,
                multi_value_fn=print if rule.has_multi_value_fn else None,
                **given)


def python_answer(stored, case):
    """Returns the Python planner's answer in the form of the driver's: ("ok",
    words) or ("error", code, text)."""
    args = case.restore_args
    if args is None:
        args = dict.fromkeys(stored, ("saved", None))
    transforms = {rule.pattern: transform_of(rule) for rule in case.rules}
    try:
        plan = plan_transforms(stored, case.item, transforms, args,
                               case.default_to_original)
    except tuple(CODES) as error:
        code = next(code for kind, code in CODES.items()
                    if type(error) is kind)
        return "error", code, str(error), isinstance(error, re.error)
    return "ok", [args_word(*plan[path]) if path in plan else "-"
                  for path in stored]


def same(want, got):
    if want[0] != got[0]:
        return False
    if want[0] == "ok":
        return want[1] == got[1]
    _, code, text, is_pattern = want
    # If PCRE2 refuses the pattern, the rest of the message is PCRE2's own.
    return code == got[1] and (got[2].endswith(text) or
                               is_pattern and "regular expression" in got[2])


class Planner:
    """The C++ program, running."""

    def __init__(self, path):
        self._process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        kind, *words = self._process.stdout.readline().split()
        if kind == "ok":
            return kind, words
        text = "" if words[1] == "-" else bytes.fromhex(words[1]).decode()
        return kind, words[0], text

    def agrees(self, tree, case):
        """Whether both planners answer alike; prints the answers if not."""
        stored = [path for path, _ in cases.flatten(tree)]
        want = python_answer(stored, case)
        got = self.ask(request_of(stored, case))
        if same(want, got):
            return True
        print(f"DIFFERENT plan {case}\n  stored {stored}\n  want {want}\n"
              f"  got  {got}\n")
        return False
