#!/usr/bin/env python3
"""Checks style rules that a compiler does not check.

usage: tidy.py [--root DIR]

C++: 80 columns, at most 1000 lines per file and 70 per function, no tabs; a
header opens with a comment and has #pragma once. All files: no trailing blanks,
a newline at the end, no forbidden words. Errors, help, comments, docstrings and
pages are in plain words (plain_words.py). CMake builds every *_test.cc. Names
in the unnamed namespaces of a folder's sources, and of its tests, are unique,
so that they do not clash under HOLDFAST_UNITY. A function may be longer only if
tools/long_functions.txt lists it, and no longer than listed there; the list
only shrinks. Prints file:line; exit status 1 when there is a problem.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

import plain_words
import source_prose
from source_files import (CPP_SUFFIXES, SOURCE_ROOTS, Problems, cpp_files,
                          repository_root)

COLUMNS_MAX = 80
FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
TEXT_SUFFIXES = CPP_SUFFIXES + (".py", ".md", ".cmake", ".txt", ".json", ".in",
                                ".sh")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "doc/*.md")
PAGES_OLD = {"architecture.md"}  # not yet checked for plain words
SKIPPED_FOLDERS = {".git", "build", ".venv", "golden", "seeds", "corpus",
                   "__pycache__", "results"}
# Spelled in halves so that this file passes its own rule.
FORBIDDEN = {
    "TO" + "DO": "do it, or leave it out",
    "FIX" + "ME": "fix it",
    "X" * 3: "say what is meant",
    "HA" + "CK": "say why instead",
    "black" + "list": "say denylist",
    "white" + "list": "say allowlist",
}
# The folders where each kind of prose (see source_prose) has to be plain.
PLAIN_ROOTS = {
    "error": ("cli", "include", "src", "python/src", "python/holdfast"),
    "comment": SOURCE_ROOTS + ("tools",),
    "docstring": SOURCE_ROOTS + ("tools",),
}
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
LITERALS = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)
DIRECTIVES = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
# The name that a line at the left margin declares, roughly.
DECLARED = re.compile(
    r"^(?=[a-zA-Z])(?:(?:struct|class|enum class|enum|union)\s+(\w+)|using (\w+) =|"
    r"(?!template|using|namespace)[\w:<>,&*\s\[\]]+?[\s&*>](\w+)"
    r"(?:\(|\[\]| =|\{|;|$))")
NOT_FUNCTIONS = re.compile(
    r"^\s*(?:inline\s+)?(?:namespace|class|struct|enum|union|extern)\b")


def blank(match):
    """Replaces a literal by spaces, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def functions(text):
    """Returns (name, first line, line count) of each function body, roughly:
    the outermost braces that no namespace, type or initializer opens."""
    text = LITERALS.sub(blank, RAW_STRING.sub(blank, text))
    text = DIRECTIVES.sub(blank, text)
    opened = []  # (is function, line number, head)
    head_start, line_number = 0, 1
    for index, char in enumerate(text):
        if char == "\n":
            line_number += 1
        if char == "{":
            head = text[head_start:index].strip()
            inside = any(is_function for is_function, _, _ in opened)
            is_function = (not inside and not NOT_FUNCTIONS.match(head) and
                           ")" in head and "=" not in head.split("(")[0])
            opened.append((is_function, line_number, head))
        elif char == "}" and opened:
            is_function, first, head = opened.pop()
            if is_function:
                found = re.search(r"([\w:~]+|operator\W+)\s*\(", head)
                first -= head.count("\n")
                yield (found.group(1) if found else "?", first,
                       line_number - first + 1)
        if char in "{};":
            head_start = index + 1


def read_long_functions(root):
    """Returns {(file, function): lines allowed} for the listed functions."""
    path = root / "tools" / "long_functions.txt"
    allowed = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                name, function, count = line.split()
                allowed[name, function] = int(count)
    return allowed


def unnamed_names(text):
    """Returns (name, line number) of names in unnamed namespaces, roughly."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("namespace {"):
            inside = True
        elif line.startswith("}  // namespace"):
            inside = False
        elif inside and (match := DECLARED.match(line)):
            yield next(name for name in match.groups() if name), number


class Tidy:
    """Applies the rules, and collects what it finds in `problems`."""

    def __init__(self, root):
        self.root = root
        self.problems = Problems(root)
        self.allowed = read_long_functions(root)

    def check_text(self, path):
        text = path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            self.problems.add(path, text.count("\n") + 1, "no newline at end")
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                self.problems.add(path, number, "trailing blanks")
            for word, why in FORBIDDEN.items():
                if re.search(rf"\b{word}\b", line):
                    self.problems.add(path, number, f"{word}: {why}")

    def check_pages(self):
        paths = [path for page in PAGES for path in self.root.glob(page)]
        for path in sorted(paths):
            if path.name in PAGES_OLD:
                continue
            for number, why in plain_words.problems(
                    path.read_text(encoding="utf-8")):
                self.problems.add(path, number, why)

    def check_plain_words(self, path):
        name = path.relative_to(self.root).as_posix()
        kinds = {kind for kind, roots in PLAIN_ROOTS.items()
                 if name.startswith(tuple(f"{root}/" for root in roots))}
        text = path.read_text(encoding="utf-8")
        if name.endswith("_test.cc"):
            kinds.discard("error")  # fakes repeat other programs' messages
        if not kinds or not source_prose.SUSPECT.search(text):
            return
        for kind, first, prose in source_prose.prose(name, text):
            if kind in kinds and source_prose.SUSPECT.search(prose):
                for number, why in plain_words.problems(prose, "prose"):
                    self.problems.add(path, first + number - 1, why)

    def check_cpp(self, path):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        if len(lines) > FILE_LINES_MAX:
            self.problems.add(path, len(lines),
                              f"{len(lines)} lines (at most "
                              f"{FILE_LINES_MAX})")
        for number, line in enumerate(lines, 1):
            if "\t" in line:
                self.problems.add(path, number, "a tab")
            if len(line) > COLUMNS_MAX and not re.search(
                    r"https?://|^#include|R\"", line):
                self.problems.add(path, number, f"{len(line)} columns (at "
                                                f"most {COLUMNS_MAX})")
        if path.suffix == ".h":
            if not text.startswith("//"):
                self.problems.add(path, 1, "a header opens with its contract")
            if "#pragma once" not in text:
                self.problems.add(path, 1, "no #pragma once")
        self.check_functions(path, text)

    def check_functions(self, path, text):
        name = path.relative_to(self.root).as_posix()
        for function, first, count in functions(text):
            limit = self.allowed.get((name, function), FUNCTION_LINES_MAX)
            if count > limit:
                self.problems.add(path, first, f"{function}: {count} lines "
                                               f"(at most {limit})")

    def check_unnamed_names(self):
        """Checks that names are unique in each HOLDFAST_UNITY unit."""
        first = {}  # by (folder, whether tests, name)
        for path in cpp_files(self.root):
            top = path.relative_to(self.root).parts[0]
            if path.suffix != ".cc" or top not in ("src", "cli", "python"):
                continue
            is_test = path.name.endswith("_test.cc")
            text = path.read_text(encoding="utf-8")
            for name, number in unnamed_names(text):
                other = first.setdefault((path.parent, is_test, name), path)
                if other != path:
                    self.problems.add(path, number, f"{name}: also in the "
                                                    f"unnamed namespace of "
                                                    f"{other.name}")

    def check_tests_known(self):
        """Checks that CMake builds every test. Tests in src/ are globbed by
        folder, so each folder must be a row of tools/layers.json. Other tests
        must be named in a CMakeLists."""
        table = json.loads((self.root / "tools" / "layers.json").read_text(
            encoding="utf-8"))
        folders = {folder for district in table["districts"].values()
                   for folder in district["folders"]}
        for path in sorted((self.root / "src").rglob("*_test.cc")):
            folder = path.parent.relative_to(self.root / "src").as_posix()
            if folder not in folders:
                self.problems.add(path, 1, f"{folder} is not in layers.json")
        for top in ("tests", "cli", "bench", "fuzz"):
            for path in sorted((self.root / top).rglob("*_test.cc")):
                if not self.is_named(path):
                    self.problems.add(path, 1, "in no CMakeLists.txt")

    def is_named(self, path):
        for folder in path.parents:
            lists = folder / "CMakeLists.txt"
            if lists.exists():
                text = lists.read_text(encoding="utf-8")
                if path.stem in text or "GLOB" in text:
                    return True
            if folder == self.root:
                return False
        return False


def text_files(root):
    """Returns the files that git tracks or would track; without git, all
    files."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], capture_output=True, check=True).stdout
        paths = [root / name for name in listed.decode("utf-8").split("\0")
                 if name]
    except (OSError, subprocess.CalledProcessError):
        paths = list(root.rglob("*"))
    return sorted(
        path for path in set(paths)
        if path.is_file() and path.suffix in TEXT_SUFFIXES and
        not SKIPPED_FOLDERS.intersection(path.relative_to(root).parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=repository_root())
    root = parser.parse_args().root.resolve()
    tidy = Tidy(root)
    files = text_files(root)
    for path in files:
        tidy.check_text(path)
    for path in cpp_files(root):
        tidy.check_cpp(path)
    tidy.check_pages()
    for path in files:
        if path.suffix in CPP_SUFFIXES + (".py",):
            tidy.check_plain_words(path)
    tidy.check_unnamed_names()
    tidy.check_tests_known()
    return tidy.problems.report(f"{len(files)} files")


if __name__ == "__main__":
    sys.exit(main())
