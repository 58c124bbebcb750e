"""An extension of griffe for mkdocs.yml: `a, b: text` describes both names.

griffe's parser of Google's style takes one name a line.
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
