#!/usr/bin/env python3
"""Checks that a built library contains no class of tests/twins.

usage: check_twins.py LIBRARY
"""

import mmap
import pathlib
import re
import sys

from source_files import repository_root

CLASS = re.compile(r"^(?:class|struct) (\w+)(?: :.*)? \{", re.M)


def mangled(name):
    return f"8holdfast{len(name)}{name}".encode()


def main():
    twins = set()
    for header in (repository_root() / "tests" / "twins").glob("*.h"):
        twins.update(CLASS.findall(header.read_text(encoding="utf-8")))
    with pathlib.Path(sys.argv[1]).open("rb") as file:
        library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        found = [name for name in sorted(twins | {"MemoryStore"})
                 if library.find(mangled(name)) >= 0]
    # MemoryStore must be found: that shows that the search would find the
    # others.
    if found != ["MemoryStore"] or "FaultBucket" not in twins:
        print(f"{sys.argv[1]}: has {found} (want ['MemoryStore'] alone)")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
