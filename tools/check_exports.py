#!/usr/bin/env python3
"""Checks that a shared library of holdfast exports what public headers declare.

usage: check_exports.py LIBRARY [--root DIR]

Each exported symbol of namespace holdfast must consist of names that the public
headers declare, and the main functions (Save, Load, ...) must be exported.
Prints undeclared symbols and missing functions; exit status 1 if there are any.
"""

import argparse
import pathlib
import re
import subprocess
import sys

from source_files import cpp_files, repository_root

COMMENT = re.compile(r"//[^\n]*")
NAME = re.compile(r"[A-Za-z_]\w*")
# The words that a demangled symbol may have before its owner's name.
PREFIX = re.compile(r"^(?:(?:non-virtual |virtual |covariant return )?"
                    r"(?:thunk to|vtable for|VTT for|typeinfo name for|"
                    r"typeinfo for|guard variable for)|"
                    r"construction vtable for) ")
WANTED = ("holdfast::Save(", "holdfast::Load(", "holdfast::Open(",
          "holdfast::Verify(", "holdfast::Version(",
          "vtable for holdfast::Checkpoint")


def exported(library):
    """Returns the demangled names that a program may link against."""
    listed = subprocess.run(
        ["nm", "-D", "-C", "--defined-only", "--format=posix", str(library)],
        capture_output=True, text=True, check=True).stdout
    return [re.sub(r" \w( [0-9a-f]+){0,2}\s*$", "", line)
            for line in listed.splitlines()]


def declared_names(root):
    """Returns every name in the public headers."""
    names = set()
    for path in cpp_files(root, ("include",)):
        names.update(NAME.findall(COMMENT.sub("", path.read_text("utf-8"))))
    return names


def owner(symbol):
    """Extracts "holdfast::A::f" from "vtable for holdfast::A::f(int)"."""
    symbol = PREFIX.sub("", symbol.replace("[abi:cxx11]", ""))
    match = re.match(r"holdfast::(?:~?\w+(?:::)?)*", symbol)
    return match.group(0) if match else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path,
                        default=repository_root())
    arguments = parser.parse_args()
    names = declared_names(arguments.root)
    symbols = exported(arguments.library)
    undeclared = [symbol for symbol in symbols
                  if not names.issuperset(NAME.findall(owner(symbol)))]
    missing = [name for name in WANTED
               if not any(symbol.startswith(name) for symbol in symbols)]
    for symbol in undeclared:
        print(f"no public header declares it: {symbol}")
    for name in missing:
        print(f"not exported: {name}")
    print(f"{len(undeclared) + len(missing)} problems in {len(symbols)} symbols")
    return 1 if undeclared or missing else 0


if __name__ == "__main__":
    sys.exit(main())
