#!/usr/bin/env python3
"""Checks that every public name of three Orbax modules and one of Megatron Core
is in the C++ headers and in holdfast.orbax or holdfast.megatron.

usage: name_table.py [--cpp | --table | --write]

Without arguments, lists what is missing and reports whether the table in
doc/support.md is out of date; exit status 1 if anything is found. Needs the
Python package. --cpp checks only the headers and needs no package. --table
prints the table. --write writes it into doc/support.md.

The names are in tests/golden/published_names.json. A function is CamelCase in C++,
a constant kCamelCase, a class keeps its name, a method is CamelCase or
snake_case, and a keyword is the same word in the same header.
tools/name_spellings.json lists names that are spelled differently or make no
sense in C++, with the reason.
"""

import argparse
import importlib
import json
import sys

from name_checks import Headers, check_cpp, check_python
from source_files import repository_root

BEGIN = "<!-- names: written by tools/name_table.py -->"
END = "<!-- end of names -->"


def read_headers(root):
    folder = root / "include" / "holdfast"
    spellings = json.loads(
        (root / "tools" / "name_spellings.json").read_text("utf-8"))
    texts = {path.relative_to(folder).as_posix(): path.read_text("utf-8")
             for path in sorted(folder.rglob("*.h"))}
    return Headers(texts, spellings)


def check_all(names, headers, with_python):
    """Returns rows (module, entry, C++ finding, Python finding or None).

    Raises ImportError if the Python package itself is missing or broken.
    """
    if with_python:
        importlib.import_module("holdfast.orbax")
    rows = []
    for module in names["modules"]:
        for entry in module["names"]:
            python = None
            if with_python:
                python = check_python(module["python"], entry)
            cpp = check_cpp(headers, module["id"], entry)
            rows.append((module, entry, cpp, python))
    return rows


def problems_of(rows, headers):
    problems = []
    for module, entry, cpp, python in rows:
        for half, finding in (("C++", cpp), ("Python", python)):
            for what in finding.missing if finding else ():
                problems.append(f"{half}: {module['id']}.{entry['name']}: "
                                f"{what} is missing")
    unused = sorted(set(headers.spellings) - headers.used)
    problems += [f"tools/name_spellings.json: {key} is not needed"
                 for key in unused]
    return problems


def cell(finding):
    if finding.missing:
        listed = ", ".join(f"`{what}`" for what in finding.missing)
        return "**missing** " + listed.replace("|", "\\|")
    return finding.place.replace("|", "\\|")


def keyword_count(entry):
    functions = [entry, *entry.get("members", ())]
    return sum(len(f.get("parameters", ())) for f in functions)


def table_of(names, rows):
    """Returns the table in Markdown."""
    lines = []
    for module in names["modules"]:
        own = [row for row in rows if row[0] is module]
        whole = [sum(row[i].ok for row in own) for i in (2, 3)]
        lines += [f"### {module['origin']}", "",
                  f"{len(own)} names: {whole[0]} whole in C++, {whole[1]} in"
                  f" `{module['python']}`.", "",
                  "| name | keywords | C++ | Python |", "|---|--:|---|---|"]
        for _, entry, cpp, python in own:
            lines.append(f"| `{entry['name']}` | {keyword_count(entry) or ''}"
                         f" | {cell(cpp)} | {cell(python)} |")
        lines.append("")
    return "\n".join(lines)


def with_table(text, table):
    """Returns the document with the table between its markers."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"doc/support.md lacks {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{table}{END}{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--cpp", action="store_true")
    mode.add_argument("--table", action="store_true")
    mode.add_argument("--write", action="store_true")
    options = parser.parse_args()

    root = repository_root()
    names = json.loads(
        (root / "tests" / "golden" / "published_names.json").read_text("utf-8"))
    headers = read_headers(root)
    rows = check_all(names, headers, with_python=not options.cpp)
    problems = problems_of(rows, headers)
    if not options.cpp:
        page = root / "doc" / "support.md"
        text = page.read_text("utf-8")
        table = table_of(names, rows)
        if options.table:
            print(table)
            return 0
        if options.write:
            page.write_text(with_table(text, table), "utf-8")
        elif text != with_table(text, table):
            problems.append("doc/support.md: the table is stale: run"
                            " tools/name_table.py --write")
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems in {len(rows)} names")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
