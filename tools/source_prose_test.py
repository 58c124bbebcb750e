#!/usr/bin/env python3
"""Tests which texts of a source source_prose.py reads, and at which lines."""

import sys
import unittest

import source_prose

CPP = r'''// A contract
// of two lines.
#include "a/path.h"

constexpr char kName[] = "a name";
Status F(int n) {
  if (n < 0) return InvalidArgumentError("it is " + Text(n) +
                                         ", "
                                         "want 0");
  const char quote = '"';  // of one line
  return Log("no error", quote);
}
'''
PYTHON = '''"""A module."""


def f(x):
    """A function

    of two paragraphs.
    """
    # A comment
    # alone.
    text = "not read"
    raise ValueError(f"{x!r} is wrong" " here", text)  # at the end
'''


class SourceProse(unittest.TestCase):
    def test_cpp(self):
        self.assertEqual(list(source_prose.prose("src/a.cc", CPP)), [
            ("comment", 1, "A contract\nof two lines."),
            ("error", 7, "it is "),
            ("error", 8, ", want 0"),
            ("comment", 10, "of one line"),
        ])

    def test_every_literal_of_the_command_is_read(self):
        texts = [text for kind, _, text in source_prose.prose(
            "cli/a.cc", CPP) if kind == "error"]
        self.assertIn("no error", texts)
        self.assertIn("a name", texts)

    def test_python(self):
        self.assertEqual(sorted(source_prose.prose("a.py", PYTHON)), [
            ("comment", 9, "A comment\nalone."),
            ("comment", 12, "at the end"),
            ("docstring", 1, "A module."),
            ("docstring", 5, "A function\n\nof two paragraphs."),
            ("error", 12, "x is wrong here"),
        ])


if __name__ == "__main__":
    sys.exit(unittest.main())
