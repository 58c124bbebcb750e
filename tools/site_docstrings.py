"""A griffe extension for mkdocs.yml that lets `a, b: text` describe both names.

griffe's own parser of Google style accepts only one name per line.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

BOTH = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +.*)*)", re.M)


def one_a_line(text: str) -> str:
    return BOTH.sub(
        lambda found: "\n".join(f"{found[1]}{name}: {found[3]}"
                                for name in found[2].split(", ")), text)


class OneNameALine(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = one_a_line(obj.docstring.value)
