#!/usr/bin/env python3
"""Makes pages of the public headers: contracts as text, declarations as code.

usage: header_pages.py [HEADER]

Without HEADER, lists the pages; with it, prints that header's page.
tools/site_hooks.py adds all pages to the site.
"""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include" / "holdfast"
# A label that may begin a paragraph of a contract. Pages show it in bold.
LABEL = re.compile(r"^([A-Z][\w-]+(?: [a-z]+)?): ")
SPECIAL = re.compile(r"([\\*_\[\]<>#|])")
TIERS = {
    "": "The root: save, load, open, and what they speak of",
    "orbax": "Orbax: managers, handlers, transforms, specs",
    "megatron": "Megatron Core",
    "tools": "Tools: convert, compare, copy",
    "c": "C",
}


def headers() -> list[pathlib.Path]:
    return sorted(INCLUDE.rglob("*.h"))


def split_header(text: str) -> tuple[list[str], str]:
    """Splits a header into the lines of its contract and its declarations."""
    lines = text.splitlines()
    count = next(i for i, line in enumerate(lines)
                 if not line.startswith("//"))
    contract = [line[2:].removeprefix(" ") for line in lines[:count]]
    code = "\n".join(line for line in lines[count:]
                     if line != "#pragma once").strip("\n")
    return contract, code + "\n"


def escaped(line: str) -> str:
    """Escapes plain text for Markdown, except between backticks."""
    parts = line.split("`")
    return "`".join(SPECIAL.sub(r"\\\1", part) if i % 2 == 0 else part
                    for i, part in enumerate(parts))


def contract_markdown(lines: list[str]) -> str:
    """Turns indented lines into code and other lines into paragraphs. A label
    starts a new paragraph."""
    out: list[str] = []
    in_code = False
    for line in lines:
        is_code = line.startswith("  ") or (in_code and not line)
        if is_code != in_code:
            out += ["", "```cpp"] if is_code else ["```", ""]
            in_code = is_code
        if is_code:
            out.append(line.removeprefix("  "))
        elif out and LABEL.match(line):
            out += ["", LABEL.sub(r"**\1:** ", escaped(line))]
        else:
            out.append(escaped(line))
    if in_code:
        out.append("```")
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(out))
    return text.replace("\n\n```\n", "\n```\n") + "\n"


def first_sentence(lines: list[str]) -> str:
    text = " ".join(lines).split("  ")[0]
    return escaped(re.split(r"(?<=\.)\s", text)[0].rstrip(".:;"))


def page_of(header: pathlib.Path) -> str:
    contract, code = split_header(header.read_text())
    name = header.relative_to(INCLUDE.parent).as_posix()
    return (f"# {name}\n\n{contract_markdown(contract)}\n"
            f"## Declarations\n\n```cpp\n{code}```\n")


def index() -> str:
    out = ["# The headers", "",
           "Public headers use only standard types, and each compiles alone. A "
           "page has the header's contract, then its declarations.", ""]
    for tier, title in TIERS.items():
        out += [f"## {title}", "", "| header | what |", "|---|---|"]
        for header in headers():
            if header.parent != INCLUDE / tier:
                continue
            inside = header.relative_to(INCLUDE).as_posix()
            contract, _ = split_header(header.read_text())
            what = first_sentence(contract).replace("\\|", "&#124;")
            out.append(f"| [{header.name}]({page_path(inside)}) | {what} |")
        out.append("")
    return "\n".join(out)


def page_path(inside: str) -> str:
    return inside.removesuffix(".h").replace("/", "-") + ".md"


def pages() -> dict[str, str]:
    """Returns {path below reference/cpp/: text} for each page."""
    made = {page_path(header.relative_to(INCLUDE).as_posix()): page_of(header)
            for header in headers()}
    return {"index.md": index(), **made}


def main() -> int:
    if len(sys.argv) > 1:
        print(page_of(pathlib.Path(sys.argv[1]).resolve()), end="")
    else:
        print("\n".join(pages()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
