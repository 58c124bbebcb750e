#!/usr/bin/env python3
"""Tests that each check of options.py finds what is wrong, in copies."""

import copy
import json
import pathlib
import shutil
import tempfile
import unittest

import options
from source_files import repository_root

ROOT = repository_root()
TABLE = json.loads((ROOT / "tools" / "options.json").read_text("utf-8"))
PAGE = (ROOT / "doc" / "cli.md").read_text("utf-8")
MODULE = """
from holdfast.inside import Base, work as task

class Job(Base):
    def run(self, *, size=1 << 20): ...
"""
INSIDE = """
class Base:
    def __init__(self, path, *, name="x", wait): ...

def work(tree, *, deep=False): ...
"""
HEADER = """
struct RunOptions {
  int threads = 0;  // not a field: int ghost = 1;
};
struct SaveOptions {
  RunOptions run;
  struct Part { std::string inner; };
  std::vector<Part> parts{};
  std::optional<uint64_t> chunk_bytes;
  std::function<void(int done)> on_done = nullptr;
  bool is_small() const { int local = 0; return local == 0; }
};
"""


def row(**members):
    return {"name": "size", "type": "int", "default": 0, "group": "run",
            "help": "Size", **members}


def table(*rows, apart=()):
    return {"options": list(rows), "apart": list(apart)}


class PageTest(unittest.TestCase):
    def test_is_as_the_table_says(self):
        self.assertEqual(options.with_tables(PAGE, TABLE), (PAGE, []))

    def test_edited_row_is_stale(self):
        edited = PAGE.replace("| `--depth N` | tree |", "| `--depth` | ls |")
        self.assertNotEqual(edited, PAGE)
        self.assertEqual(options.with_tables(edited, TABLE)[0], PAGE)

    def test_changed_table_is_noticed(self):
        for member in ("help", "shown", "value"):
            changed = copy.deepcopy(TABLE)
            for option in changed["options"]:
                if option["name"] == "depth":
                    option[member] += "!"
            self.assertNotEqual(options.with_tables(PAGE, changed)[0], PAGE)

    def test_every_group_needs_a_marker(self):
        page = PAGE.replace("options of mesh:", "options of other:")
        self.assertEqual(options.with_tables(page, TABLE)[1], ["mesh"])

    def test_sets_of_verbs_are_expanded(self):
        sets = {"sets": {"all": ["both", "cp"], "both": ["ls", "tree"]}}
        self.assertEqual(options.words_of(sets, ["all", "du"]),
                         ["ls", "tree", "cp", "du"])

    def test_flags(self):
        for members, flag in (
                ({}, "--size"), ({"name": "keep_all"}, "--keep-all"),
                ({"type": "bool", "default": True}, "--no-size"),
                ({"type": "bool", "default": True, "flag": "big"}, "--big")):
            self.assertEqual(options.flag_of(row(**members)), flag)

    def test_code_in_help(self):
        for text, marked in (
                ("Ask it, or --no-pager, twice", "Ask it, or `--no-pager`,"
                 " twice"),
                ("such as 'a(b.*) > 9': yes", "such as `a(b.*) > 9`: yes"),
                ("of s3:// ($HOME), Amazon's", "of `s3://` (`$HOME`),"
                 " Amazon's"),
                ("data=4,model=2. Or", "`data=4,model=2`. Or"),
                ("a|b or - or .npy files", "`a\\|b` or `-` or `.npy` files"),
        ):
            self.assertEqual(options.markdown("x " + text)[2:], marked)


class PythonTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "holdfast").mkdir()
        (folder / "holdfast" / "__init__.py").write_text(MODULE)
        (folder / "holdfast" / "inside.py").write_text(INSIDE)
        self.package = options.Package(folder)

    def problems(self, python, apart=()):
        rows = table(row(python=python), apart=apart)
        return options.check_python(rows, self.package)

    def test_right_rows(self):
        self.assertEqual(self.problems({
            "deep=False": ["task", "inside.work"], "name='x'": ["Job"],
            "size=1 << 20": ["Job.run"], "wait": ["Job"]}), [])

    def test_wrong_default(self):
        self.assertEqual(len(self.problems({"deep=True": ["task"]})), 1)
        self.assertEqual(len(self.problems({"deep": ["task"]})), 1)

    def test_wrong_name(self):
        self.assertEqual(len(self.problems(
            {"deep=False": ["task"], "depth=1": ["task"]})), 1)
        self.assertEqual(len(self.problems({"deep=False": ["gone"]})), 1)
        self.assertEqual(len(self.problems({"deep=False": ["Job.gone"]})), 1)

    def test_missing_row(self):
        self.assertEqual(self.problems({"wait": ["Job"]}),
                         ["holdfast.Job: name has no row"])
        self.assertEqual(self.problems({"wait": ["Job"]}, ["Job(name)"]), [])

    def test_this_tree(self):
        package = options.Package(ROOT / "python")
        self.assertEqual(options.check_python(TABLE, package), [])
        self.assertEqual(len(options.check_python(
            table(row(python={"force=True": ["torch.TieredManager.save"]}),
                  apart=["torch.TieredManager.save(files)"]), package)), 4)


class CppTest(unittest.TestCase):
    STRUCTS = options.fields_of(HEADER)

    def problems(self, *cpp, apart=()):
        return options.check_cpp(table(row(cpp=cpp), apart=apart),
                                 self.STRUCTS)

    def test_fields(self):
        self.assertEqual(
            {name: sorted(each) for name, each in self.STRUCTS.items()},
            {"RunOptions": ["threads"], "Part": ["inner"],
             "SaveOptions": ["chunk_bytes", "on_done", "parts", "run"]})

    def test_rows(self):
        fields = ["RunOptions.threads", "SaveOptions.chunk_bytes",
                  "SaveOptions.parts"]
        self.assertEqual(self.problems(*fields),
                         ["SaveOptions.on_done has no row"])
        for apart in ("SaveOptions.on_done", "SaveOptions.*"):
            self.assertEqual(self.problems(*fields, apart=[apart]), [])
        self.assertEqual(self.problems("RunOptions.threads",
                                       "RunOptions.ghost"),
                         ["RunOptions.ghost: no such field"])

    def test_apart_names_what_exists(self):
        package = options.Package(ROOT / "python")
        entries = ["SaveOptions.run", "SaveOptions.*", "load(target)",
                   "SaveOptions.gone", "load(gone)", "gone(target)"]
        self.assertEqual(len(options.check_apart(
            table(apart=entries), package, self.STRUCTS)), 3)


if __name__ == "__main__":
    unittest.main()
