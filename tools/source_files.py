"""Lists the project's own source files; helpers that the checks share."""

import pathlib

SOURCE_ROOTS = ("src", "include", "cli", "examples", "bench", "fuzz", "tests",
                "python")
CPP_SUFFIXES = (".h", ".cc")


def repository_root():
    return pathlib.Path(__file__).resolve().parent.parent


def cpp_files(root, folders=SOURCE_ROOTS):
    """Returns the C++ files below the given folders, sorted."""
    return sorted(path for folder in folders
                  for path in (root / folder).rglob("*")
                  if path.suffix in CPP_SUFFIXES and path.is_file())


class Problems:
    """Collects `file:line: what`, and prints them."""

    def __init__(self, root):
        self.root = root
        self.lines = []

    def add(self, path, line_number, what):
        self.lines.append(f"{path.relative_to(self.root)}:{line_number}: "
                          f"{what}")

    def report(self, checked):
        for line in self.lines:
            print(line)
        print(f"{len(self.lines)} problems in {checked}")
        return 1 if self.lines else 0
