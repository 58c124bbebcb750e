#!/usr/bin/env python3
"""Checks every #include against the include law of tools/layers.json.

usage: check_layers.py [--root DIR] [--write]

A folder of src/ may include only the folders that it stands on, directly or
through others. These must be in its own district or in a district that its own
stands on. A third-party header may be included only where the table says so.
Public headers include only standard headers (in c/ only C's) and each other,
and open with a comment. cli/, examples/ and the consumers in tests/ see only
public headers. Only tests may include the twins (tests/twins), and only if
their folder may see every header that the twin includes. Also refuses cycles in
the table, rows that list a folder again that they already stand on through
another, and a doc/architecture.md whose tables differ from this table; --write
generates them.

Prints file:line for each problem; exit status 1 if there are any.
"""

import argparse
import json
import pathlib
import re
import sys

from source_files import Problems, cpp_files, repository_root

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


class Law:
    """The parsed table."""

    def __init__(self, root):
        self.root = root
        table = json.loads(
            (root / "tools" / "layers.json").read_text(encoding="utf-8"))
        self.districts = table["districts"]
        self.rows = {name: row for district in self.districts.values()
                     for name, row in district["folders"].items()}
        self.folders = {name: self.below(name) for name in self.rows}
        self.public_only = table["public_only"]
        self.outside = table["outside"]
        self.third_party = table["third_party"]
        self.any_third_party = table["any_third_party"]
        self.public_headers = table["public_headers"]
        self.twins = table["twins"]

    def folder_of(self, name):
        """Returns the innermost src folder that contains `name`, or None."""
        found = None
        for folder in self.folders:
            if name.startswith(folder + "/"):
                if found is None or len(folder) > len(found):
                    found = folder
        return found

    def below(self, name):
        """Returns all folders that the folder stands on, directly or not.
        Includes the folder itself if there is a cycle."""
        reached, pending = set(), list(self.rows[name]["on"])
        while pending:
            folder = pending.pop()
            if folder not in reached:
                reached.add(folder)
                pending += self.rows[folder]["on"]
        return reached

    def below_district(self, name):
        """Returns all districts that the district stands on, directly or
        not."""
        reached, pending = set(), list(self.districts[name]["on"])
        while pending:
            district = pending.pop()
            if district not in reached:
                reached.add(district)
                pending += self.districts[district]["on"]
        return reached

    def lawless(self):
        """Yields (folder, why) for rows that break the rules of districts."""
        for district, row in self.districts.items():
            allowed = self.below_district(district) | {district}
            for name, folder in row["folders"].items():
                if name.split("/")[0] != district:
                    yield name, f"stands in the rows of {district}"
                for other in folder["on"]:
                    if other.split("/")[0] not in allowed:
                        yield name, (f"stands on {other}, which {district} "
                                     "may not see")

    def cycle(self):
        """Returns a folder that stands on itself, or None."""
        return next((name for name, below in self.folders.items()
                     if name in below), None)

    def said_twice(self):
        """Yields (folder, other) if a row lists `other`, which it already
        stands on through a third folder."""
        for name, row in self.rows.items():
            for direct in row["on"]:
                if any(direct in self.folders[other] for other in row["on"]):
                    yield name, direct

    def document(self):
        """Returns the tables of doc/architecture.md, one per district."""
        parts = []
        for district, row in self.districts.items():
            on = ", ".join(row["on"]) or "std"
            parts.append(f"**`src/{district}/`**: {row['idea']}. Stands on "
                         f"{on}.\n")
            lines = ["| folder | one idea | stands on |", "|---|---|---|"]
            for name, folder in row["folders"].items():
                on = ", ".join(self.short(name, other)
                               for other in folder["on"]) or "std"
                lines.append(f"| `{name}/` | {folder['idea']} | {on} |")
            parts.append("\n".join(lines) + "\n")
        return "\n".join(parts)

    @staticmethod
    def short(name, other):
        """Returns the name by which a folder of the same district refers to
        `other`."""
        district = name.split("/")[0] + "/"
        return other.removeprefix(district)


class Checker:
    """Checks files, one include at a time."""

    def __init__(self, root):
        self.root = root
        self.law = Law(root)
        self.problems = Problems(root)

    def check_file(self, path):
        name = path.relative_to(self.root).as_posix()
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                why = self.refusal(name, match.group(1), match.group(2))
                if why:
                    self.problems.add(path, number, f"includes "
                                      f"{match.group(2)}: {why}")
        if name.startswith(self.law.public_headers):
            if not text.startswith("//"):
                self.problems.add(path, 1, "a public header opens with a "
                                           "comment that says its contract")
            if "#pragma once" not in text:
                self.problems.add(path, 1, "no #pragma once")

    def refusal(self, name, mark, included):
        """Returns why file `name` may not include `included`, or None."""
        if included.startswith("holdfast/"):
            header = self.root / "include" / included
            return None if header.exists() else "no such public header"
        if name.startswith(self.law.public_headers):
            in_c = name.startswith(self.law.public_headers + "/c/")
            if in_c and included in ("stddef.h", "stdint.h"):
                return None
            if mark == '"' or not is_standard(included):
                return "public headers include only std and each other"
            return None
        third_party = self.third_party_rule(included)
        if third_party is not None:
            return self.third_party_refusal(name, third_party)
        if mark == "<":
            return (None if is_standard(included) or is_system(included) else
                    "not std and not in the table's third_party")
        return self.own_refusal(name, included)

    def third_party_rule(self, included):
        for prefix, folders in self.law.third_party.items():
            if included.startswith(prefix):
                return folders
        return None

    def third_party_refusal(self, name, folders):
        top = name.split("/")[0]
        if ("*" in folders or self.home(name) in folders or top in folders or
                top in self.law.any_third_party or name.endswith("_test.cc")):
            return None
        return f"only {', '.join(folders)} may"

    def home(self, name):
        """Returns the src folder of a file, or None outside src/."""
        if not name.startswith("src/"):
            return None
        return self.law.folder_of(name[len("src/"):])

    def own_refusal(self, name, included):
        target = self.law.folder_of(included)
        if name.startswith("src/"):
            home = self.home(name)
            if home is None:
                return "the file lies in no folder of the table"
            if target is None and (self.root / "tests" / included).exists():
                return self.tests_refusal(name, home, included)
            if target is None:
                return "the included file lies in no folder of src/"
            if target != home and target not in self.law.folders[home]:
                return f"{home} may not see {target}"
            return None
        return self.outside_refusal(name, included, target)

    def tests_refusal(self, name, home, included):
        """Returns why file `name` of folder `home` may not include a file in
        tests/, or None."""
        if not name.endswith(("_test.cc", "_test_util.h")):
            return "only tests may"
        path = self.root / "tests" / included
        if path.is_relative_to(self.root / self.law.twins):
            for floor in sorted(self.floors(path)):
                if floor != home and floor not in self.law.folders[home]:
                    return f"{home} may not see {floor}, which it includes"
        return None

    def floors(self, twin):
        """Returns the src folders whose headers a twin's header includes."""
        found = set()
        for line in twin.read_text(encoding="utf-8").splitlines():
            match = INCLUDE.match(line)
            if not match or match.group(1) == "<":
                continue
            path = self.root / "tests" / match.group(2)
            if path.exists():
                found |= self.floors(path)
            elif not match.group(2).startswith("holdfast/"):
                found.add(self.law.folder_of(match.group(2)))
        return found - {None}

    def outside_refusal(self, name, included, target):
        if any(name.startswith(folder + "/")
               for folder in self.law.public_only):
            if target is not None:
                return "only public headers and its own folder"
        top = name.split("/")[0]
        rule = self.law.outside.get(top, {"own": []})
        beside = (self.root / name).parent / included
        own = any((self.root / included).is_relative_to(self.root / folder)
                  for folder in rule["own"])
        if beside.exists() or (own and (self.root / included).exists()):
            return None
        if any((self.root / folder / included).exists()
               for folder in rule["own"]):
            return None
        if target is not None and rule.get("src"):
            return None
        return "neither beside it nor a public header"


TABLE = re.compile(r"(?<=^<!-- districts: written by tools/check_layers.py -->\n)"
                   r".*?(?=^<!-- end of districts -->)", re.M | re.S)


def check_document(law, problems, write):
    path = law.root / "doc" / "architecture.md"
    text = path.read_text(encoding="utf-8")
    wanted = TABLE.sub(lambda _: "\n" + law.document() + "\n", text, count=1)
    if text == wanted and TABLE.search(text):
        return
    if write:
        path.write_text(wanted, encoding="utf-8")
    else:
        problems.add(path, 1, "its tables are not those of "
                     "tools/layers.json; run tools/check_layers.py --write")


def is_standard(included):
    """Returns true for a C++ standard header: no dot and no slash."""
    return re.fullmatch(r"[a-z0-9_]+", included) is not None


def is_system(included):
    """Returns true for a POSIX or Linux header."""
    return re.match(r"(sys/|linux/|arpa/|netinet/|netdb\.h|unistd\.h|fcntl\.h|dirent\.h|signal\.h|"
                    r"spawn\.h|"
                    r"pthread\.h|sched\.h|dlfcn\.h|poll\.h|termios\.h|"
                    r"immintrin\.h|nmmintrin\.h|arm_acle\.h|stdlib\.h|"
                    r"limits\.h|langinfo\.h|stdio\.h|string\.h|errno\.h|malloc\.h|fnmatch\.h|"
                    r"ftw\.h|time\.h|wchar\.h|locale\.h|endian\.h|"
                    r"cpuid\.h|x86intrin\.h|arm_neon\.h|getopt\.h)",
                    included) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=repository_root())
    parser.add_argument("--write", action="store_true",
                        help="write the tables of doc/architecture.md")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    checker = Checker(root)
    cycle = checker.law.cycle()
    if cycle:
        checker.problems.add(root / "tools" / "layers.json", 1,
                             f"{cycle} reaches itself")
    for name, direct in checker.law.said_twice():
        checker.problems.add(root / "tools" / "layers.json", 1,
                             f"{name} stands on {direct} twice")
    for name, why in checker.law.lawless():
        checker.problems.add(root / "tools" / "layers.json", 1,
                             f"{name} {why}")
    check_document(checker.law, checker.problems, arguments.write)
    files = cpp_files(root)
    for path in files:
        checker.check_file(path)
    return checker.problems.report(f"{len(files)} files")


if __name__ == "__main__":
    sys.exit(main())
