#!/usr/bin/env python3
"""Compares every public name of the installed Orbax with holdfast.orbax.

usage: orbax_names.py [--all] [--names]

Prints each gap that the table "Names of Orbax that are not here" of
doc/support.md does not explain, and each row there that explains no gap; exit
status 1 if there are any. --all also prints explained gaps. --names only prints
Orbax's names. Needs Orbax, jax and the Python package.

A module is public if no part of its path begins with an underscore and it is
not a test. `orbax.checkpoint.X` is `holdfast.orbax.X` here; the modules of
`orbax.checkpoint.experimental.v1` are also in `holdfast.orbax.v1`. A module
that a package's `__init__` imports under another name (`ocp.step`, `ocp.path.
deleter`) is public under that name, whatever its path is.

A name of a module is public if it has no leading underscore and
- `__all__` lists it, if the module has one; else
- the module defines it: a class, a function, an assignment; or
- the module imports it from Orbax by `from ... import`, unless it is a module.
  In a module that defines nothing (a package's `__init__`, a module of
  re-exports), imported modules are public too.
A name imported from elsewhere (os, jax, typing, absl) is not Orbax's.
Logger objects, type variables and the `PyTree = Any` of annotations count like
any other name, and must exist.

Every name must exist. A constant of a plain type must have the same value; a
function the same parameters, in kind, order and default; a class the same
constructor parameters and the same public attributes and methods, including
those inherited from Orbax's classes. holdfast may have more: further parameters
after Orbax's, a default for a parameter that Orbax requires, a keyword for one
that Orbax accepts only by position.
"""

import argparse
import ast
import dataclasses
import enum
import importlib
import inspect
import pathlib
import re
import sys
import types
import warnings

from source_files import repository_root

ORBAX = "orbax.checkpoint"
V1 = "experimental.v1"
BEGIN = "<!-- gaps: read by tools/orbax_names.py -->"
END = "<!-- end of gaps -->"
ROW = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.MULTILINE)
TESTS = re.compile(r"(^|\.)(conftest|\w+_test|testing|integration_test\w*)"
                   r"(\.|$)")
PLAIN = (bool, int, float, complex, str, bytes, tuple, list, set, frozenset,
         dict, types.NoneType, re.Pattern)
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


# ------------------------------------------------------------------ Orbax
@dataclasses.dataclass
class Module:
    """A public module of Orbax."""
    path: str  # below orbax.checkpoint; "" for orbax.checkpoint itself
    modules: list  # a package may be hidden by an attribute of its parent

    def names(self):
        """Yields (name, value) for each public name."""
        found = {}
        for module in self.modules:
            for name in names_of(module):
                if hasattr(module, name):
                    found.setdefault(name, getattr(module, name))
        return sorted(found.items())


def public_modules():
    """Returns Orbax's public modules, and why others cannot be imported."""
    root = importlib.import_module(ORBAX)
    # Importing a package hides the root's attribute of the same name.
    shown = {name: value for name, value in Module("", [root]).names()
             if inspect.ismodule(value)}
    found, broken = {"": [root]}, {}
    for path in module_paths(root):
        try:
            module = importlib.import_module(f"{ORBAX}.{path}")
        except Exception as error:  # an optional dependency may raise anything
            broken[path] = f"{type(error).__name__}: {error}"
            continue
        found[path] = [module]
    for name, value in shown.items():
        found.setdefault(name, [])
        if value not in found[name]:
            found[name].append(value)
    for path, modules in list(found.items()):
        for name, value in Module(path, modules).names():
            if inspect.ismodule(value):
                below = found.setdefault(f"{path}.{name}".lstrip("."), [])
                if value not in below:
                    below.append(value)
    return [Module(*item) for item in sorted(found.items())], broken


def module_paths(root):
    """Yields the dotted paths of Orbax's public modules, from their files."""
    paths = set()
    for folder in map(pathlib.Path, root.__path__):
        for file in folder.rglob("*.py"):
            parts = file.relative_to(folder).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            paths.add(".".join(parts))
    public = (path for path in paths if path and not re.search(r"(^|\.)_", path))
    return sorted(path for path in public if not TESTS.search(path))


def names_of(module):
    """Returns the public names of one module, by the rule above."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    source = ast.parse(pathlib.Path(module.__file__).read_text("utf-8"))
    imported, defined = [], []
    for node in statements(source.body):
        if isinstance(node, ast.ImportFrom):
            imported += imported_names(node, module)
        else:
            defined += defined_names(node)
    defined = [name for name in defined if not name.startswith("_")]
    if defined:
        imported = [name for name in imported
                    if not inspect.ismodule(getattr(module, name, None))]
    names = dict.fromkeys([*imported, *defined])
    return [name for name in names if not name.startswith("_")
            and not is_foreign(name, getattr(module, name, None))]


def is_foreign(name, value):
    """Returns true if the value belongs to another package, under the same
    name."""
    return (getattr(value, "__name__", None) == name
            and not inspect.ismodule(value) and not is_orbax(value)
            and hasattr(value, "__module__"))


def statements(body):
    """Yields the statements of a module, including those in `if` and `try`."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            yield from statements(node.body)
            yield from statements(node.orelse)
        else:
            yield node


def imported_names(node, module):
    origin = node.module or ""
    if not node.level and not origin.startswith(ORBAX):
        return []
    if node.names[0].name == "*":
        return names_of(importlib.import_module(origin))
    return [alias.asname or alias.name for alias in node.names]


def defined_names(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


# ------------------------------------------------------------- comparison
def our_paths(path):
    """Returns the paths in holdfast of an Orbax module."""
    paths = [f"holdfast.orbax.{path}".rstrip(".")]
    if path == V1 or path.startswith(V1 + "."):
        paths.append("holdfast.orbax.v1" + path[len(V1):])
    return paths


def resolve(path):
    """Returns the module at a path, or the attribute in its place, or None."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if not path.startswith(error.name or "?"):
            raise
    parent, _, name = path.rpartition(".")
    return getattr(resolve(parent), name, None) if parent else None


def gaps():
    """Yields each gap: (Orbax's name, what is missing or differs)."""
    modules, broken = public_modules()
    seen = {}  # (their object, ours): one object may be in several modules
    public = {value for module in modules for _, value in module.names()
              if inspect.isclass(value)}
    for path, why in broken.items():
        yield f"{ORBAX}.{path}", f"Orbax's own cannot be imported: {why}"
    for module in modules:
        theirs = f"{ORBAX}.{module.path}".rstrip(".")
        for ours in our_paths(module.path):
            place = resolve(ours)
            if place is None:
                yield theirs, f"no module {ours}"
                continue
            for name, value in module.names():
                for what in compare_name(place, name, value, seen, public):
                    yield f"{theirs}.{name}", f"{what} ({ours})"


def compare_name(place, name, value, seen, public):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ours = getattr(place, name)
        except AttributeError:
            return ["missing"]
    if (id(value), id(ours)) in seen:
        return []
    seen[id(value), id(ours)] = value, ours
    return list(differences(value, ours, public))


def differences(theirs, ours, public):
    """Yields how `ours` differs from `theirs`."""
    if inspect.ismodule(theirs):
        if not inspect.ismodule(ours):
            yield "no module"
    elif inspect.isclass(theirs) and is_orbax(theirs):
        yield from class_differences(theirs, ours, public)
    elif inspect.isfunction(theirs):
        yield from call_differences(theirs, ours)
    elif isinstance(theirs, PLAIN) and theirs != ours:
        if not (isinstance(theirs, (dict, list, set)) and
                type(theirs) is type(ours)):
            yield f"is {ours!r}, not {theirs!r}"


def is_orbax(value):
    return str(getattr(value, "__module__", "")).startswith(ORBAX)


def class_differences(theirs, ours, public):
    if not inspect.isclass(ours):
        yield "no class"
        return
    yield from base_differences(theirs, ours, public)
    if not issubclass(theirs, enum.Enum):
        yield from call_differences(theirs, ours)
    more = set(getattr(ours, "__abstractmethods__", ()))
    more -= set(getattr(theirs, "__abstractmethods__", ()))
    if more:
        yield "abstract here: " + ", ".join(sorted(more))
    for name in sorted(members(theirs)):
        for what in member_differences(theirs, ours, name):
            yield f".{name}: {what}"


def base_differences(theirs, ours, public):
    """Compares bases (builtins, Orbax's public classes), type parameters and
    protocols."""
    names = {base.__name__.lstrip("_") for base in ours.__mro__}
    for base in theirs.__mro__[1:]:
        if not base.__name__.startswith("_") and base.__name__ not in names:
            if base in public or base.__module__ in ("builtins", "enum"):
                yield f"no {base.__name__}"
    parameters = getattr(theirs, "__parameters__", ())
    if len(parameters) != len(getattr(ours, "__parameters__", ())):
        yield f"{len(parameters)} type parameters"
    if is_protocol(theirs) and not is_protocol(ours):
        yield "no Protocol"


def is_protocol(cls):
    return bool(getattr(cls, "_is_protocol", False))


def members(cls):
    """Returns public attributes, methods and fields of Orbax's classes."""
    found = set()
    for base in cls.__mro__:
        if is_orbax(base):
            found.update(vars(base), inspect.get_annotations(base))
    return {name for name in found if not name.startswith("_")}


def member_differences(theirs, ours, name):
    own = members_of_any(ours)
    if name not in own:
        yield "missing"
        return
    wanted = inspect.getattr_static(theirs, name, None)
    found = inspect.getattr_static(ours, name, None)
    if inspect.isclass(wanted) and is_orbax(wanted):
        yield from class_differences(wanted, found, ())
    elif inspect.isclass(wanted):
        return  # a default value, compared with the constructor's
    elif callable(getattr(theirs, name, None)) and not is_property(wanted):
        if is_property(found):
            yield "is a property here"
            return
        function = getattr(theirs, name)
        if name == "save" and hasattr(theirs, "async_save"):
            function = theirs.async_save  # `save` passes its arguments on to it
        yield from call_differences(function, getattr(ours, name, None),
                                    is_save=name == "save")
    elif isinstance(wanted, PLAIN) or isinstance(wanted, enum.Enum):
        if found is not None and not same_value(wanted, found):
            yield f"is {found!r}, not {wanted!r}"
    elif is_property(wanted) and inspect.isroutine(found):
        yield "is a method here"


def members_of_any(cls):
    found = set(dir(cls))
    for base in cls.__mro__:
        found.update(vars(base), inspect.get_annotations(base))
    return found


def is_property(member):
    return isinstance(member, property) or (
        type(member).__name__ == "cached_property")


def signature_of(function):
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def call_differences(theirs, ours, is_save=False):
    """Yields the differences in parameters that make a call of theirs fail for
    ours."""
    made = default_factories(ours)
    if not callable(ours):
        yield "not callable"
        return
    wanted, found = signature_of(theirs), signature_of(ours)
    if wanted is None:
        return
    if found is None:
        yield "no signature"
        return
    kinds = map(inspect.iscoroutinefunction, (theirs, ours))
    if not is_save and len(set(kinds)) > 1:
        yield "a coroutine in one of the two alone"
    found = [p.replace(default=made[p.name]()) if p.name in made else p
             for p in found.parameters.values()]
    yield from parameter_differences(wanted.parameters,
                                     {p.name: p for p in found})


def default_factories(cls):
    """Returns the default factories of a dataclass's fields."""
    fields = getattr(cls, "__dataclass_fields__", {})
    return {name: field.default_factory for name, field in fields.items()
            if field.default_factory is not dataclasses.MISSING}


def parameter_differences(wanted, found):
    if all(parameter.kind in VARIADIC for parameter in wanted.values()):
        return  # a decorator's (*args, **kwargs) says nothing
    kinds = parameter_kinds(found)
    for name, parameter in wanted.items():
        if parameter.kind in VARIADIC:
            if parameter.kind not in kinds:
                yield f"takes no {parameter}".split(":")[0]
        elif name not in found or found[name].kind in VARIADIC:
            if parameter.VAR_KEYWORD not in kinds:
                yield f"no parameter {name}"
        else:
            yield from default_differences(parameter, found[name])
    order = positional(wanted)
    ours = positional(found)[:len(order)]
    if parameter_kinds(found) & {inspect.Parameter.VAR_POSITIONAL}:
        order = order[:len(ours)]
    if ours != order and set(order) <= found.keys():
        yield f"positions: {', '.join(order)}"
    for name, parameter in found.items():
        if name not in wanted and parameter.default is parameter.empty and (
                parameter.kind not in VARIADIC):
            yield f"requires {name}"


def parameter_kinds(parameters):
    return {parameter.kind for parameter in parameters.values()}


def positional(parameters):
    return [name for name, parameter in parameters.items() if parameter.kind in
            (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]


def default_differences(wanted, found):
    if found.kind is found.POSITIONAL_ONLY and wanted.kind is not found.kind:
        yield f"{wanted.name} by position alone"
    if wanted.default is wanted.empty:
        return
    if found.default is found.empty:
        yield f"requires {wanted.name}"
    elif not same_value(wanted.default, found.default):
        yield f"{wanted.name}={found.default!r}, not {wanted.default!r}"


def same_value(theirs, ours):
    """Returns true if two defaults or constants are equal.

    None is accepted for an Orbax object, which is then made when the function
    is called.
    """
    if isinstance(theirs, enum.Enum):
        return (isinstance(ours, enum.Enum) and theirs.name == ours.name
                and theirs.value == ours.value) or theirs is ours
    if "DEFAULT_FACTORY" in type(theirs).__name__:
        return True  # the class itself is compared elsewhere
    if isinstance(theirs, PLAIN):
        return type(theirs) is type(ours) and theirs == ours
    if inspect.isroutine(theirs) or inspect.isclass(theirs):
        return getattr(ours, "__name__", "").lstrip("_") == (
            theirs.__name__.lstrip("_"))
    return ours is None or type(ours).__name__ == type(theirs).__name__


# ------------------------------------------------------------------ table
def explained(text):
    """Returns (pattern, why) for each row of the table in doc/support.md."""
    before, found, rest = text.partition(BEGIN)
    table, end, _ = rest.partition(END)
    if not (found and end):
        raise SystemExit(f"doc/support.md lacks {BEGIN} ... {END}")
    return ROW.findall(table)


def matches(pattern, name):
    """Returns true if a row covers a name. `a.b` covers a.b and all names below
    it; `*` matches any part."""
    regex = re.escape(pattern).replace(r"\*", "[^.]*")
    return re.fullmatch(regex + r"(\..*)?", name) is not None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--names", action="store_true")
    options = parser.parse_args()
    if options.names:
        for module in public_modules()[0]:
            for name, value in module.names():
                print(f"{ORBAX}.{module.path}.{name}".replace("..", "."),
                      signature_of(value) if callable(value) else "")
        return 0
    page = repository_root() / "doc" / "support.md"
    rows = explained(page.read_text("utf-8"))
    used, problems = set(), 0
    for name, what in gaps():
        row = next((row for row in rows if matches(row[0], name)), None)
        if row is None:
            problems += 1
            print(f"{name}: {what}")
            continue
        used.add(row[0])
        if options.all:
            print(f"{name}: {what} [{row[1]}]")
    for pattern, _ in rows:
        if pattern not in used:
            problems += 1
            print(f"doc/support.md: {pattern} explains nothing")
    print(f"{problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
