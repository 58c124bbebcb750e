#!/usr/bin/env python3
"""Makes the tables of doc/cli.md from tools/options.json, and checks that the
file tells the truth about Python's keywords and C++'s fields.

usage: options.py [--write]

Without arguments, lists what is stale or wrong; exit status 1 if anything is
found. --write writes the tables between their markers in doc/cli.md. The page
has one marker for the verbs, and one for each group of options, because its
headings and the texts below them are written by hand.

tools/options.json describes itself in "about". Every keyword of a listed call
and every field of a listed struct needs a row, unless "apart" names it as a
part of the call: CALL(KEYWORD), STRUCT.FIELD, or STRUCT.* for all others.
"""

import argparse
import ast
import json
import re
import sys

from source_files import repository_root

MARKER = re.compile(
    r"(<!-- (verbs|options)(?: of ([\w-]+))?: written by tools/options.py -->)"
    r".*?(<!-- end of \2 -->)", re.DOTALL)
# Sets of verbs that are named on the page instead of listed.
SETS = {"all": "all", "reporting": "all that report",
        "reaching": "all that take URLs"}
# Words of a help text that are code: 'quoted' ones, options, schemes of URLs,
# and words with a character that prose lacks.
CODE = re.compile(
    r"'[^' ][^']*'(?![a-z])|(?<![\w'-])--[a-z]+(?:-[a-z]+)*|[a-z0-9]+://"
    r"|(?<=[\s(])[^\s()]*[$*\\{=_<>|%][^\s()]*(?<![,;:.])"
    r"|(?<=\s)-(?=\s)|(?<=\s)\.[a-z]+")


def words_of(table, names):
    """Returns the verbs that the names, of verbs or of sets, stand for."""
    found = []
    for name in names:
        inside = table["sets"].get(name)
        found += words_of(table, inside) if inside else [name]
    return found


def flag_of(option):
    negated = option["type"] == "bool" and option["default"] is True
    name = ("no-" if negated else "") + option["name"].replace("_", "-")
    return "--" + option.get("flag", name)


def markdown(text):
    """Returns a help text as Markdown for the cell of a table."""
    marked = CODE.sub(lambda match: f"`{match[0].strip(chr(39))}`", text)
    return marked.replace("|", "\\|")


def sentences(text, entry):
    """Returns a text and what the entry adds to it as one cell."""
    parts = [markdown(text) + "."]
    for verb, own in entry.get("help_by_verb", ()):
        parts.append(f"`{verb}`: {markdown(own)}.")
    if "page" in entry:
        parts.append(entry["page"])
    if "shown" in entry:
        shown, _, when = markdown(entry["shown"]).partition(": ")
        parts.append(f"Default: {shown} ({when})." if when else
                     f"Default: {shown}.")
    return " ".join(parts)


def verb_rows(table):
    # Help and its like come last.
    groups = [name for name, _ in table["verb_groups"]] + [""]
    verbs = sorted(table["verbs"], key=lambda row: groups.index(row["group"]))
    return ["| verb | does |", "|---|---|"] + [
        f"| `holdfast {verb['name']}{' ' + verb.get('operands', '')}".rstrip()
        + f"` | {sentences(verb['summary'], verb)} |" for verb in verbs]


def option_rows(table, group):
    lines = ["| option | verbs | does |", "|---|---|---|"]
    for option in table["options"]:
        if option["group"] == group and "verbs" in option:
            lines.append(option_row(table, option))
    return lines


def option_row(table, option):
    value = "|".join(option.get("choices", ())) or option.get("value", "")
    names = [f"{flag_of(option)} {value}".strip()]
    if "short" in option:
        names.append("-" + option["short"])
    cell = ", ".join(f"`{name}`" for name in names).replace("|", "\\|")
    verbs = SETS.get(option["verbs"][0])
    if not verbs or len(option["verbs"]) > 1:
        verbs = ", ".join(words_of(table, option["verbs"]))
    return f"| {cell} | {verbs} | {sentences(option['help'], option)} |"


def with_tables(text, table):
    """Returns the page with the tables of its markers, and the groups whose
    options it lacks."""
    groups = {option["group"] for option in table["options"]
              if "verbs" in option}

    def filled(match):
        begin, kind, group, end = match.groups()
        groups.discard(group)
        rows = (verb_rows(table) if kind == "verbs" else
                option_rows(table, group))
        return "\n".join([begin, "", *rows, "", end])

    return MARKER.sub(filled, text), sorted(groups)


class Package:
    """The sources of a Python package, read but not imported."""

    def __init__(self, folder):
        self.folder = folder
        self.modules = {}

    def module(self, name):
        """Returns the module's statements, or None if there is no such."""
        if name not in self.modules:
            base = self.folder.joinpath(*name.split("."))
            paths = [p for p in (base.with_suffix(".py"),
                                 base / "__init__.py") if p.exists()]
            self.modules[name] = (
                ast.parse(paths[0].read_text("utf-8")).body if paths else None)
        return self.modules[name]

    def find(self, module, name):
        """Returns (module, definition) of a name in a module, or None."""
        found = None
        for statement in self.module(module) or ():
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    if (alias.asname or alias.name) == name:
                        found = self.find(statement.module, alias.name)
            elif getattr(statement, "name", None) == name:
                found = module, statement
        return found

    def method(self, module, definition, name):
        """Returns a method of a class or of its bases, or None."""
        for statement in reversed(definition.body):
            if getattr(statement, "name", None) == name:
                return statement
        for base in definition.bases:
            found = self.find(module, ast.unparse(base))
            if found and (inherited := self.method(*found, name)):
                return inherited
        return None

    def call(self, path):
        """Returns the function that `holdfast.PATH` calls, or None."""
        *modules, name = path.split(".")
        module = "holdfast"
        while modules and self.module(f"{module}.{modules[0]}") is not None:
            module += "." + modules.pop(0)
        found = self.find(module, modules[0] if modules else name)
        if not found or isinstance(found[1], ast.FunctionDef):
            return found and found[1]
        return self.method(*found, name if modules else "__init__")


def keywords_of(function):
    """Returns the default of each parameter that may be given by name, as
    text; of parameters without one, None."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    return {arg.arg: default and ast.unparse(default)
            for arg, default in zip([*positional, *args.kwonlyargs],
                                    [*defaults, *args.kw_defaults],
                                    strict=True)}


def check_python(table, package):
    """Returns what the rows say wrongly about the package's calls."""
    problems = []
    listed = {}
    for option in table["options"]:
        for text, calls in option.get("python", {}).items():
            for call in calls:
                name, _, default = text.partition("=")
                listed.setdefault(call, {})[name] = default or None
    for call, wanted in listed.items():
        function = package.call(call)
        if function is None:
            problems.append(f"holdfast.{call}: not found")
            continue
        found = keywords_of(function)
        for name, default in wanted.items():
            if name not in found or found[name] != default:
                problems.append(
                    f"holdfast.{call}: {name}: the default is"
                    f" {found.get(name, 'missing')}, the table has {default}")
        problems += [
            f"holdfast.{call}: {name} has no row"
            for name, default in found.items()
            if default is not None and name not in wanted
            and f"{call}({name})" not in table["apart"]]
    return problems


def fields_of(text):
    """Returns {struct: {field: type}} of a header."""
    text = re.sub(r"//.*", "", text)
    structs = {}
    for match in re.finditer(r"\bstruct (\w+) \{", text):
        end, depth = match.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        body, count = text[match.end():end - 1], 1
        while count:  # initializers, functions and nested structs
            body, count = re.subn(r"(struct \w+ )?\{[^{}]*\}", "", body)
        structs.setdefault(match[1], {}).update(
            (name, kind) for kind, name in
            re.findall(r"([\w>*&)]+)\s+\*?(\w+)\s*(?:=[^;]*)?;", body))
    return structs


def check_cpp(table, structs):
    """Returns what the rows say wrongly about the fields of structs."""
    listed = {field for option in table["options"]
              for field in option.get("cpp", ())}
    names = {field.split(".")[0] for field in listed}
    found = {f"{name}.{field}": kind for name in names
             for field, kind in structs.get(name, {}).items()}
    problems = [f"{field}: no such field" for field in listed - set(found)]
    problems += [
        f"{field} has no row" for field, kind in found.items()
        if field not in listed and kind not in names
        and not {field, field.split(".")[0] + ".*"} & set(table["apart"])]
    return sorted(problems)


def check_apart(table, package, structs):
    """Returns the entries of "apart" that name nothing."""
    problems = []
    for entry in table["apart"]:
        call, _, name = entry.rstrip(")").partition("(")
        if name:
            function = package.call(call)
            is_there = function and name in keywords_of(function)
        else:
            struct, _, field = entry.partition(".")
            is_there = field in (*structs.get(struct, ()), "*")
        if not is_there:
            problems.append(f'"apart" has {entry}, which does not exist')
    return problems


def read_structs(root):
    structs = {}
    folder = root / "include" / "holdfast"
    for path in sorted(folder.rglob("*.h")):
        if "orbax" not in path.relative_to(folder).parts:
            for name, fields in fields_of(path.read_text("utf-8")).items():
                structs.setdefault(name, {}).update(fields)
    return structs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    root = repository_root()
    table = json.loads(
        (root / "tools" / "options.json").read_text("utf-8"))
    page = root / "doc" / "cli.md"
    text = page.read_text("utf-8")
    wanted, absent = with_tables(text, table)
    problems = [f"doc/cli.md: no marker for the options of {group}"
                for group in absent]
    if options.write:
        page.write_text(wanted, "utf-8")
    elif text != wanted:
        problems.append("doc/cli.md: a table is stale: run tools/options.py"
                        " --write")
    package = Package(root / "python")
    structs = read_structs(root)
    problems += check_python(table, package) + check_cpp(table, structs)
    problems += check_apart(table, package, structs)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems in {len(table['options'])} options")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
