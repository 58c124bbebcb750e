"""Finds phrases in English text that a new reader stumbles over.

The module's one public function is `problems(text, kind)`. CONTRIBUTING.md has
the rules: sentences start with their subject, and use the field's terms.
"""

import re

# Where a sentence starts: at the beginning of a paragraph, list entry, heading
# or table cell, or after the end of another sentence.
START = (r"(?:\A|\n\s*\n|\n(?=\s*(?:[-*+>|#]|\d+[.)]))|\||[.!?][*_\"')]*\s)"
         r"[\s>|#*_\"'(+-]*(?:\d+[.)]\s+)?[\s*_\"'(]*")

# (pattern, why, exception). The group `at` marks the problem, unless the
# exception matches the text that ends at the group.
PATTERNS = [
    (r"\b(?:is|are|was|were)\s+(?P<at>no)\s+"
     r"(?!longer\b|more\b|less\b|fewer\b|later\b|earlier\b|better\b|worse\b"
     r"|different\b|larger\b|smaller\b|slower\b|faster\b|older\b|newer\b)"
     r"[a-z`]",
     "`is no x`: say `is not a x`, or what it is", r"\b[Tt]here\s+\w+\s+"),
    (r"\b(?:is|are|was|were)\s+(?P<at>none)\b",
     "`is none`: say what is missing", None),
    (START + r"(?P<at>Of)\s", "begins with `Of`: begin with the subject", None),
    (START + r"(?P<at>Who(?:ever|m)?)\s",
     "begins with `Who`: name the person or the program", None),
    (START + r"(?P<at>What)\s", "begins with `What`: name the thing", None),
    (START + r"(?P<at>As)\s+`", "begins with As `x`: say `like`", None),
    (r"\b(?P<at>alone)\b", "`alone`: say `only`, or `by itself`",
     r"\b(?:let|leav(?:e|es|ing)|left)\b[^.;:!?]{0,60}"),
    (r"\b(?P<at>that\s+(?:is|are|was|were)\s+there)\b(?!\s+(?:to|for)\b)",
     "`that are there`: leave it out, or say `existing`", None),
]
COMPILED = [(re.compile(pattern), why, unless and re.compile(unless + r"\Z"))
            for pattern, why, unless in PATTERNS]
# Questions and headings may begin with these.
ASKING = ("Who", "Whoever", "Whom", "What")
SENTENCE_END = re.compile(r"[.!?](?=[\s*_\"')|]|\Z)|\n\s*\n")

GENERATED = re.compile(r"<!-- (names|gaps): .*?<!-- end of \1 -->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
FENCE = re.compile(r"^([ \t]*)(```|~~~).*?^[ \t]*\2[ \t]*$",
                   re.DOTALL | re.MULTILINE)
LINK_TARGET = re.compile(r"(?<=\])\([^)]*\)")
INLINE_CODE = re.compile(r"(`+)(?!`)((?:(?!\n\s*\n).)+?)(?<!`)\1(?!`)",
                         re.DOTALL)
HEADING = re.compile(r"[ \t]*#")


def blank(match):
    """Returns only the line ends of a match, to keep line numbers."""
    return "\n" * match.group(0).count("\n")


def mask_code(match):
    """Replaces inline code by a word of the same length, in backticks."""
    ticks, inside = match.group(1), match.group(2)
    return ticks + re.sub(r"[^\n]", "x", inside) + ticks


def prose_of(text):
    """Prepares text without markup: masks only its inline code."""
    return INLINE_CODE.sub(mask_code, text)


def page_of(text):
    """Returns the prose of a Markdown page; all else is blanked in place."""
    for unread in (GENERATED, FENCE, COMMENT, LINK_TARGET):
        text = unread.sub(blank, text)
    return prose_of(text)


KINDS = {"page": page_of, "prose": prose_of}


def is_question(text, start):
    end = SENTENCE_END.search(text, start)
    return end is not None and end.group(0) == "?"


def is_heading(text, start):
    line = text[text.rfind("\n", 0, start) + 1:start]
    return HEADING.match(line) is not None


def problems(text: str, kind: str = "page") -> list[tuple[int, str]]:
    """Returns (line number, why) of each phrase to reword, sorted by line.
    `kind` is one of KINDS; raises KeyError for any other."""
    text = KINDS[kind](text)
    found = []
    for pattern, why, unless in COMPILED:
        for match in pattern.finditer(text):
            start = match.start("at")
            if match.group("at") in ASKING and (is_question(text, start) or
                                                is_heading(text, start)):
                continue
            if unless and unless.search(text, max(0, start - 80), start):
                continue
            found.append((text.count("\n", 0, start) + 1, why))
    return sorted(found)
