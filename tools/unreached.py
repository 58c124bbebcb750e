#!/usr/bin/env python3
"""Finds names of src/ that no binding, verb, public header or example reaches.

usage: tools/unreached.py

Lists functions, classes and constants that a header of src/ declares, that no
public header declares, and that product code (src/ without tests, cli/,
python/src/, mpi/, examples/) mentions only where they are declared and defined.
Code that only dead code uses is not listed until that dead code is removed.
Exit status 1 when there are any.
"""

from __future__ import annotations

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "cli", "python/src", "mpi", "include", "examples")
PUBLIC = ROOT / "include"
# Names that only tests use, and a symbol that is found by its name at run time.
KNOWN = {
    "ExtendCrc32cSlow",  # the slow version that the fast one is compared with
    "Register",  # registers buckets in memory under their own schemes
    "SetLeaseSleepForTest",
    "SetSayLateForTest",
    "holdfast_mpi_calls",
    "peak_buffered_bytes",  # shows that uploads keep to their budget
}
IGNORED = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"')
WORD = re.compile(r"[A-Za-z_]\w*")
FUNCTION = re.compile(r"\b([A-Z]\w*|[a-z_]\w*_[a-z]\w*)\s*\(")
TYPE = re.compile(r"\b(?:class|struct|enum class)\s+([A-Z]\w*)\s*[^;\w]")
CONSTANT = re.compile(r"\bconstexpr\s[^=;(]*?\b(k[A-Z]\w*)")


def product_files() -> list[pathlib.Path]:
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".h", ".cc", ".c")
        and not re.search(r"_test(_util)?\.(cc|h)$|_(for_test|testdata)\.h$", path.name)
    ]


def declared(text: str) -> set[str]:
    """Returns the names that a header, stripped of comments and strings,
    declares."""
    names = set(TYPE.findall(text)) | set(CONSTANT.findall(text))
    for match in FUNCTION.finditer(text):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        # A declaration has a type before the name; a call does not.
        if re.search(r"[\w>&*]\s*[&*]?$", line) and "return" not in line:
            names.add(match[1])
    return names


def uses(name: str, text: str) -> int:
    """Counts mentions of a name that neither declare nor define it."""
    found = 0
    for match in re.finditer(rf"(?<![\w~])~?{name}\b", text):
        start = text.rfind("\n", 0, match.start()) + 1
        before = text[start : match.start()]
        # A declaration follows one of these characters. A line that continues a
        # statement follows another character.
        is_start = text[:start].rstrip()[-1:] in ("", ";", "{", "}", ":", ">")
        after = text[match.end() :].lstrip()
        defines = re.fullmatch(
            r"\s*(?:[\w:<>,&*\[\] ]+[\s&*>])?(?:\w+::)*", before
        ) and after.startswith("(")
        is_call = re.search(r"\breturn\b|[=(!.]|->|\bco_", before)
        of_type = re.search(r"\b(class|struct)\s+(?:\w+\s+)?$", before)
        of_itself = before.endswith("~") or match[0].startswith("~")
        own = before.rstrip().endswith(f"{name}::") or after.startswith("::" + name)
        constant = re.search(r"\bconstexpr\b", before) and after[:1] in "=[{"
        if (defines and is_start and not is_call and before.strip()) or of_type:
            continue
        if of_itself or own or constant:
            continue
        found += 1
    return found


def main() -> int:
    texts = {
        path: IGNORED.sub(" ", path.read_text()) for path in product_files()
    }
    where = collections.defaultdict(set)
    for path, text in texts.items():
        for word in set(WORD.findall(text)):
            where[word].add(path)
    found = 0
    for path, text in texts.items():
        if path.suffix != ".h" or not path.is_relative_to(ROOT / "src"):
            continue
        for name in sorted(declared(text) - KNOWN):
            if any(user.is_relative_to(PUBLIC) for user in where[name]):
                continue
            if not any(uses(name, texts[user]) for user in where[name]):
                print(f"{path.relative_to(ROOT)}: {name}")
                found += 1
    print(f"{found} names of src/ are not reached")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
