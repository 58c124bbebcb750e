#!/usr/bin/env python3
"""Tests that each check of name_checks.py finds what is missing."""

import dataclasses
import sys
import types
import unittest

import name_checks

HEADER = """
// BuildKvstoreTspec(directory, ghost) is only spoken of here.
inline constexpr std::string_view kFileDriver = "file";
inline constexpr std::string_view kDefaultDriver = kFileDriver;
inline constexpr int kLimit = 96;
struct OpenOptions { bool use_ocdbt = true; };
Status OpenStore(const std::string& directory, OpenOptions options);
class ReadSpec {
 public:
  const std::string& json() const;
  Status Close(int code);
};
class Declared;
"""


def function(name, *words):
    return {"name": name, "kind": "function",
            "parameters": [{"name": word, "kind": "keyword"}
                           for word in words]}


def constant(name, value):
    return {"name": name, "kind": "constant", "value": value}


class CppTest(unittest.TestCase):
    def missing(self, entry, spellings=None):
        headers = name_checks.Headers({"a.h": HEADER}, spellings or {})
        return name_checks.check_cpp(headers, "m", entry).missing

    def test_function_with_keywords(self):
        self.assertEqual(
            self.missing(function("open_store", "directory", "use_ocdbt")), [])
        self.assertEqual(self.missing(function("open_store", "process_id")),
                         ["open_store(process_id)"])

    def test_comments_do_not_count(self):
        self.assertEqual(self.missing(function("build_kvstore_tspec")),
                         ["BuildKvstoreTspec"])
        self.assertEqual(self.missing(function("open_store", "ghost")),
                         ["open_store(ghost)"])

    def test_constants(self):
        for name, value in (("FILE_DRIVER", "'file'"), ("LIMIT", "96"),
                            ("DEFAULT_DRIVER", "'file'")):
            self.assertEqual(self.missing(constant(name, value)), [])
        self.assertEqual(self.missing(constant("FILE_DRIVER", "'s3'")),
                         ['kFileDriver = "s3"'])
        self.assertEqual(self.missing(constant("OTHER", "1")), ["kOther"])

    def test_class_with_members(self):
        members = [{"name": "json", "kind": "property"},
                   {**function("close", "code"), "kind": "method"}]
        entry = {"name": "ReadSpec", "kind": "class", "members": members}
        self.assertEqual(self.missing(entry), [])
        members += [{"name": "reopen", "kind": "method"}]
        self.assertEqual(self.missing(entry), [".reopen"])

    def test_declaring_a_class_is_not_enough(self):
        self.assertEqual(self.missing({"name": "Declared", "kind": "class"}),
                         ["Declared"])

    def test_spellings(self):
        spellings = {"m.open": {"cpp": "OpenStore", "why": "a reason"},
                     "m.open(path)": {"cpp": "directory", "why": "a reason"},
                     "m.Json": {"cpp": None, "why": "a reason"}}
        self.assertEqual(self.missing(function("open", "path"), spellings), [])
        self.assertEqual(
            self.missing({"name": "Json", "kind": "alias"}, spellings), [])
        self.assertNotEqual(self.missing(function("open", "path")), [])


class Options:
    pass


@dataclasses.dataclass
class Args:
    kind: type = dataclasses.field(default_factory=lambda: Options)


def save(path, *, limit=96, options=None, **rest):
    pass


class PythonTest(unittest.TestCase):
    def setUp(self):
        module = types.ModuleType("names_under_test")
        module.save, module.Args, module.LIMIT = save, Args, 96
        sys.modules[module.__name__] = module
        self.addCleanup(sys.modules.pop, module.__name__)

    def missing(self, entry):
        return name_checks.check_python("names_under_test", entry).missing

    def with_default(self, name, default):
        return {"name": "save", "kind": "function", "parameters": [
            {"name": name, "kind": "keyword", "default": default}]}

    def test_keywords(self):
        self.assertEqual(self.missing(function("save", "path", "limit")), [])
        self.assertEqual(self.missing(function("save", "other")),
                         ["save(other)"])
        self.assertEqual(self.missing(function("load")), ["load"])

    def test_defaults(self):
        for name, default in (("limit", "96"), ("options", "Options()"),
                              ("options", "None")):
            self.assertEqual(self.missing(self.with_default(name, default)),
                             [])
        for name, default in (("limit", "True"), ("limit", "95"),
                              ("limit", "None"), ("path", "None")):
            self.assertNotEqual(self.missing(self.with_default(name, default)),
                                [])

    def test_default_that_a_factory_makes(self):
        entry = {"name": "Args", "kind": "class", "parameters": [
            {"name": "kind", "kind": "positional", "default": "a.Options"}]}
        self.assertEqual(self.missing(entry), [])
        entry["parameters"][0]["default"] = "a.Other"
        self.assertNotEqual(self.missing(entry), [])

    def test_constants(self):
        self.assertEqual(self.missing(constant("LIMIT", "96")), [])
        self.assertEqual(self.missing(constant("LIMIT", "95")),
                         ["LIMIT = 95 (is 96)"])

    def test_missing_module(self):
        finding = name_checks.check_python("no_such_module", constant("A", "1"))
        self.assertEqual(finding.missing, ["A"])


if __name__ == "__main__":
    unittest.main()
