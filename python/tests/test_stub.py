"""`_engine.pyi` matches the built module: names, methods, parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import _engine

# (name, kind, whether there is a default). The kind is "positional", "either",
# "keyword", "args" or "kwargs". Positional parameters have no name, because no
# call can use it.
Parameter = tuple[str, str, bool]
STUB = Path(holdfast.__file__).with_name("_engine.pyi")
# Kinds of types that only the stub has.
ONLY_TYPES = ("Protocol", "TypedDict")


def parameters(arguments: ast.arguments) -> list[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    found = [
        ("", "positional", i >= required)
        if i < len(arguments.posonlyargs)
        else (arg.arg, "either", i >= required)
        for i, arg in enumerate(positional)
    ]
    if arguments.vararg:
        found.append((arguments.vararg.arg, "args", False))
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [
        (arg.arg, "keyword", value is not None) for arg, value in keywords
    ]
    if arguments.kwarg:
        found.append((arguments.kwarg.arg, "kwargs", False))
    return found


def built_signatures(function: Any) -> list[list[Parameter]]:
    """Returns the parameters of each overload of a nanobind function."""
    found = []
    for text, *_ in function.__nb_signature__:
        # Defaults are written as \0, \1, ..., and the dtypes of arrays are not
        # valid expressions.
        text = re.sub(r"\\\d+", "...", text)
        text = re.sub(r"\[dtype=[^\]]*\]", "", text)
        [definition] = ast.parse(f"{text}: ...").body
        assert isinstance(definition, ast.FunctionDef)
        found.append(parameters(definition.args))
    return found


class Stub:
    """The definitions of the stub, by name."""

    def __init__(self, text: str) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, list[ast.FunctionDef]] = {}
        self.values: list[str] = []
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, ast.FunctionDef):
                self.functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.AnnAssign):
                assert isinstance(node.target, ast.Name)
                self.values.append(node.target.id)

    def is_type_only(self, name: str) -> bool:
        bases = [ast.unparse(base) for base in self.classes[name].bases]
        return any(
            base in ONLY_TYPES
            or (base in self.classes and self.is_type_only(base))
            for base in bases
        )

    def parameters(self, definition: ast.FunctionDef) -> list[Parameter]:
        """Returns the parameters, with a TypedDict's keywords in place of
        `**options`."""
        found = parameters(definition.args)
        kwarg = definition.args.kwarg
        if kwarg is None or kwarg.annotation is None:
            return found
        unpacked = re.fullmatch(
            r"Unpack\[(\w+)\]", ast.unparse(kwarg.annotation)
        )
        if unpacked:
            found[-1:] = self._keywords(unpacked[1])
        return found

    def _keywords(self, name: str) -> Iterator[Parameter]:
        cls = self.classes[name]
        is_total = all(word.arg != "total" for word in cls.keywords)
        for base in cls.bases:
            if ast.unparse(base) in self.classes:
                yield from self._keywords(ast.unparse(base))
        for node in cls.body:
            if isinstance(node, ast.AnnAssign):
                assert isinstance(node.target, ast.Name)
                yield node.target.id, "keyword", not is_total


def signature_problems(
    stub: Stub, name: str, definitions: list[ast.FunctionDef], built: Any
) -> Iterator[str]:
    ours = [stub.parameters(definition) for definition in definitions]
    theirs = built_signatures(built)
    if len(ours) != len(theirs):
        yield f"{name}: {len(ours)} overloads, built: {len(theirs)}"
        return
    for one, other in zip(ours, theirs, strict=True):
        if one != other:
            yield f"{name}:\n  stub  {one}\n  built {other}"


def members(node: ast.ClassDef) -> dict[str, list[ast.FunctionDef]]:
    """Returns {name: overloads} for methods, and {name: []} for attributes."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for item in node.body:
        if isinstance(item, ast.AnnAssign):
            assert isinstance(item.target, ast.Name)
            found[item.target.id] = []
        elif isinstance(item, ast.FunctionDef):
            kinds = [ast.unparse(each) for each in item.decorator_list]
            methods = found.setdefault(item.name, [])
            if "property" not in kinds and not any(
                kind.endswith(".setter") for kind in kinds
            ):
                methods.append(item)
    return found


def class_problems(stub: Stub, name: str, built: type) -> Iterator[str]:
    ours = members(stub.classes[name])
    theirs = {
        key: value
        for key, value in vars(built).items()
        if not key.startswith("__") or hasattr(value, "__nb_signature__")
    }
    for member in sorted(theirs.keys() - ours.keys()):
        yield f"{name}.{member}: not in the stub"
    for member, definitions in ours.items():
        if member not in theirs:
            if not hasattr(built, member):  # nor has a base class the member
                yield f"{name}.{member}: not built"
        elif bool(definitions) != hasattr(theirs[member], "__nb_signature__"):
            yield f"{name}.{member}: one is a method, the other an attribute"
        elif definitions:
            yield from signature_problems(
                stub, f"{name}.{member}", definitions, theirs[member]
            )


def problems(text: str) -> Iterator[str]:
    stub = Stub(text)
    classes = {n for n in stub.classes if not stub.is_type_only(n)}
    names = {*classes, *stub.functions, *stub.values}
    built = {n: v for n, v in vars(_engine).items() if not n.startswith("__")}
    for name in sorted(names - built.keys()):
        yield f"{name}: not built"
    for name in sorted(built.keys() - names):
        yield f"{name}: not in the stub"
    for name in sorted(names & built.keys()):
        if name in classes:
            yield from class_problems(stub, name, built[name])
        elif name in stub.functions:
            yield from signature_problems(
                stub, name, stub.functions[name], built[name]
            )


def test_the_stub_says_what_is_built() -> None:
    assert "\n".join(problems(STUB.read_text("utf-8"))) == ""


@pytest.mark.parametrize(
    ("truth", "lie", "name"),
    [
        ("def crash_mark(text", "def crash_marks(text", "crash_mark"),
        ("def crash_mark(text: str, /)", "def crash_mark(text: str)", ""),
        ("    snapshot: bool = False,", "    snapshot: bool,", "build_tree"),
        (
            "    keys: Sequence[Any],",
            "    key: Sequence[Any],",
            "Node.__init__",
        ),
        ("    leaf_count: int", "    leaves_count: int", "Tree.leaf_count"),
        ("    mapped_bytes: int\n", "", "Stats.mapped_bytes"),
    ],
)
def test_a_stub_that_lies_is_found(truth: str, lie: str, name: str) -> None:
    text = STUB.read_text("utf-8")
    assert truth in text
    found = list(problems(text.replace(truth, lie, 1)))
    assert any(each.startswith(name) for each in found)
