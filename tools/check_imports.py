#!/usr/bin/env python3
"""Checks that no modules of python/holdfast import each other in a circle.

usage: check_imports.py [--root DIR]

Imports inside functions count, and so do strings that name a module of the
package in full, as importlib.import_module accepts them. Imports under
TYPE_CHECKING do not count, nor does the package that contains a module, unless
the module names it. Prints each circle, with the line of each import; exit
status 1 if there are any. Does not import the package.
"""

import argparse
import ast
import graphlib
import pathlib
import sys

from source_files import repository_root

PACKAGE = "holdfast"


def read_modules(folder):
    """Returns {module name: file} for the package in `folder`."""
    modules = {}
    for pattern in ("*.py", "*.pyi"):
        for path in sorted(folder.rglob(pattern)):
            parts = path.relative_to(folder).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            modules[".".join((folder.name, *parts))] = path
    return modules


def is_for_types(node):
    """Returns true for an `if TYPE_CHECKING:` node."""
    test = getattr(node, "test", None)
    name = getattr(test, "id", None) or getattr(test, "attr", None)
    return isinstance(node, ast.If) and name == "TYPE_CHECKING"


def walk(node):
    """Yields all nodes below, except those that only type checkers run."""
    children = node.orelse if is_for_types(node) else (
        ast.iter_child_nodes(node))
    for child in children:
        yield child
        yield from walk(child)


def imported(node):
    """Returns the names that a node may import, longer names first."""
    if isinstance(node, ast.Import):
        return [[alias.name] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [[f"{node.module}.{alias.name}", node.module]
                for alias in node.names]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [[node.value]] if "." in node.value else []
    return []


def imports_of(name, path, modules):
    """Returns {imported module: line of its first import} for one module."""
    found = {}
    for node in walk(ast.parse(path.read_text(encoding="utf-8"))):
        if getattr(node, "level", 0):
            sys.exit(f"{path}:{node.lineno}: a relative import")
        for candidates in imported(node):
            module = next((c for c in candidates if c in modules), name)
            if module != name:
                found.setdefault(module, node.lineno)
    return found


def find_circles(graph):
    """Yields one circle for each group of modules that import each other."""
    graph = {name: set(imports) for name, imports in graph.items()}
    while True:
        try:
            graphlib.TopologicalSorter(graph).prepare()
            return
        except graphlib.CycleError as error:
            circle = error.args[1][::-1]
        yield circle
        # The circle may hide other circles: drop one of its imports and
        # continue.
        graph[circle[0]].discard(circle[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=repository_root())
    root = parser.parse_args().root.resolve()
    modules = read_modules(root / "python" / PACKAGE)
    graph = {name: imports_of(name, path, modules)
             for name, path in modules.items()}
    circles = list(find_circles(graph))
    for circle in circles:
        print(f"{len(circle) - 1} modules import each other:")
        for name, target in zip(circle, circle[1:]):
            place = modules[name].relative_to(root)
            print(f"  {place}:{graph[name][target]}: {target}")
    print(f"{len(circles)} circles in {len(modules)} modules")
    return 1 if circles or not modules else 0


if __name__ == "__main__":
    sys.exit(main())
