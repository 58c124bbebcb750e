#!/usr/bin/env python3
"""Tests that plain_words.py finds each pattern and accepts good English."""

import sys
import unittest

import plain_words

BAD = (
    "A file that is no cache stays.",
    "The pipes are no\nterminals.",
    "Leaves that are none are skipped.",
    "It works. Of two steps one stays.",
    "- Of two steps one stays.",
    "| name | Of two steps one. |",
    "**Of one array**, a slice.",
    "See [this](a.md). Who comes first wins.",
    "Whoever comes first wins.",
    "What is damaged is listed.",
    "It ends.\n\nWhat is damaged is listed. Is it?",
    "It ends.\n\n```\ncode\n```\nWhat is damaged is listed.",
    "1. What is damaged is listed.",
    "As `save`, but later.",
    "It reads metadata alone.",
    "Files that are there are kept.",
    "A file that\nis there is kept.",
)
GOOD = (
    "There is no release yet, and the default is no longer 3.",
    "A limit is no more than a guess.",
    "It waits until there\n  is no room.",
    "What is damaged?",
    "Who reads it? Everybody.",
    "### What it runs on",
    "One of two steps stays, as `save` does, and what is left is read.",
    "A file is `no` cache: `What is x`, `alone`.",
    "They leave it alone, and what they left in it alone; let alone this.",
    "Files that are there for a reason.",
    "```\nWhat is damaged is listed.\n```",
    "    ```sh\n    # What is it\n    ```",
    "<!-- names: x -->\n| What it is alone |\n<!-- end of names -->",
    "<!-- What is damaged -->",
    "See [this](What-is alone.md).",
)


class PlainWordsTest(unittest.TestCase):
    def test_finds_each(self):
        for text in BAD:
            with self.subTest(text):
                self.assertEqual(len(plain_words.problems(text)), 1)

    def test_passes_good_english(self):
        for text in GOOD:
            with self.subTest(text):
                self.assertEqual(plain_words.problems(text), [])

    def test_every_pattern_is_tested(self):
        whys = {why for text in BAD for _, why in plain_words.problems(text)}
        self.assertEqual(whys, {why for _, why, _ in plain_words.PATTERNS})

    def test_says_the_line(self):
        text = "<!--\n-->\n\n```\nx\n```\n\nIt\nis said alone.\n"
        self.assertEqual([line for line, _ in plain_words.problems(text)], [9])

    def test_prose_reads_fences(self):
        self.assertEqual(
            len(plain_words.problems("```\nx alone\n", "prose")), 1)

    def test_other_kinds_are_errors(self):
        with self.assertRaises(KeyError):
            plain_words.problems("x", "poem")


if __name__ == "__main__":
    sys.exit(unittest.main())
