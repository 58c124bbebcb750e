#!/usr/bin/env python3
"""Runs the code of Markdown pages.

usage: run_blocks.py [--holdfast COMMAND] [--list] [PAGE...]

PAGE is by default README.md and the pages of doc/ named below (PAGES).

A page's `python` and `sh` blocks run in their order, in an empty directory. Its
Python blocks share one process and one namespace. Folders of the directory
replace `/checkpoints` and `/ckpt` at the beginning of a path. A comment on the
line before a block changes how it runs:

    <!-- not run: REASON -->    the block is skipped, and counted
    <!-- exit status: N -->     the commands exit with N instead of 0
    <!-- raises: CLASS -->      the Python block raises CLASS; the exception's
                                message counts as printed
    <!-- prints -->             the block is what the block before it prints;
                                `...` matches anything

A page of snippets has a before/PAGE.py, which runs before each block. Each of
its blocks has its own directory and process.

`cpp` and `c` blocks are compiled but not run. Each becomes the body of a
function, after before/PAGE.cpp or before/PAGE.c, which declares what it uses.

A page that imports torch is left out if torch is missing, and the page on
prove-crash is left out on systems where no program may trace another.

The blocks run in the Python that runs this script; `import holdfast` must work
in it (PYTHONPATH). The command is --holdfast, else $HOLDFAST, else the one on
PATH. Exit status 1 when a block failed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGES = (
    "README.md", "doc/index.md", "doc/migrating-orbax.md",
    "doc/migrating-torch.md", "doc/migrating-megatron.md",
    "doc/comparison.md", "doc/performance.md", "doc/compression.md",
    "doc/troubleshooting.md", "doc/support.md", "doc/install-cpp.md",
    "doc/views.md", "doc/deltas.md", "doc/fingerprints.md", "doc/rescue.md", "doc/prove-crash.md", "doc/history.md",
    "doc/managers.md", "doc/c.md", "doc/clients.md", "doc/remote.md",
)
# Packages that not every machine has.
OPTIONAL = ("torch",)
COMPILERS = {"cpp": ["c++", "-std=c++20"], "c": ["cc", "-std=c11"]}
COMMENT = re.compile(
    r"<!-- (not run|exit status|raises|prints)(?:: (.*?))? -->")
ABSOLUTE = re.compile(r"(?<![\w./:-])/(?=(?:checkpoints|ckpt)\b)")


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int
    language: str
    text: str
    comments: dict[str, str]

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def is_run(self) -> bool:
        return (self.language in ("python", "sh", *COMPILERS)
                and "prints" not in self.comments)


def blocks_of(page: pathlib.Path) -> list[Block]:
    blocks: list[Block] = []
    comments: dict[str, str] = {}
    inside: Block | None = None
    indent = 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = re.match(r"\s*```(.*)", line)
        if inside is None and fence:
            inside = Block(page, number + 1, fence[1].strip(), "", comments)
            indent = len(line) - len(line.lstrip())
            comments = {}
        elif inside is not None and fence:
            blocks.append(inside)
            inside = None
        elif inside is not None:
            inside.text += line[indent:] + "\n"
        elif found := COMMENT.fullmatch(line.strip()):
            comments[found[1]] = found[2] or ""
        elif line.strip():
            comments = {}
    return blocks


def missing_packages(blocks: list[Block]) -> list[str]:
    """Returns the optional packages that the page imports and this Python does
    not have."""
    text = "\n".join(block.text for block in blocks)
    return [name for name in OPTIONAL
            if re.search(rf"^\s*(?:import|from) {name}\b", text, re.M)
            and importlib.util.find_spec(name) is None]


def may_trace(command: str) -> bool:
    """Whether this system allows the tracing that `prove-crash` needs."""
    done = subprocess.run([command, "prove-crash", "--", "true"], text=True,
                          stderr=subprocess.PIPE, check=False)
    return "does not let a program trace" not in done.stderr


def matches(wanted: str, got: str) -> bool:
    pattern = re.escape(wanted.rstrip()).replace(re.escape("..."), ".*?")
    return re.fullmatch(pattern, got.rstrip(), re.S) is not None


def run_python(block: Block, text: str, names: dict[str, object]) -> str:
    """Runs a block and returns its output; raises what the block raises."""
    code = compile("\n" * (block.line - 1) + text, str(block.page), "exec")
    wanted = block.comments.get("raises")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, names)
    except Exception as error:
        if wanted is None or type(error).__name__ != wanted:
            raise
        return printed.getvalue() + f"{type(error).__name__}: {error}\n"
    if wanted is not None:
        raise AssertionError(f"want {wanted}; nothing was raised")
    return printed.getvalue()


def run_commands(block: Block, text: str) -> str:
    text = re.sub(r"^\$ ", "", text, flags=re.M)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)
    wanted = int(block.comments.get("exit status", 0))
    if done.returncode != wanted:
        raise AssertionError(f"exit status {done.returncode}, want {wanted}\n"
                             + done.stdout)
    return done.stdout


def compile_snippet(block: Block, text: str) -> str:
    before = HERE / "before" / f"{block.page.stem}.{block.language}"
    lines = before.read_text().splitlines() + ["", "void Block(void) {"]
    lines.append(f'#line {block.line} "{block.page}"')
    for line in text.splitlines():
        # Moves includes out of the function. An empty line takes the place of
        # each, so that compiler messages have the page's line numbers.
        if line.startswith("#include"):
            lines.insert(0, line)
            line = ""
        lines.append(line)
    done = subprocess.run(
        [*COMPILERS[block.language], "-fsyntax-only", "-Wall", "-Werror",
         "-Wno-unused-variable", "-I", ROOT / "include", "-x",
         {"cpp": "c++"}.get(block.language, block.language), "-"],
        input="\n".join([*lines, "}", ""]), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stdout)
    return done.stdout


RUNNERS = {"sh": run_commands, "cpp": compile_snippet, "c": compile_snippet}


def run_here(page: pathlib.Path, numbers: range) -> int:
    """Runs the page's blocks with these numbers in this process and directory;
    returns the number of failures."""
    names: dict[str, object] = {"__name__": "__main__"}
    before = HERE / "before" / (page.stem + ".py")
    if before.exists():
        exec(compile(before.read_text(), str(before), "exec"), names)
    blocks = blocks_of(page)
    printed, failures, has_run = "", 0, False
    root = os.getcwd() + "/"
    for block in (blocks[number] for number in numbers):
        if "prints" in block.comments and has_run:
            if not matches(block.text.replace("/scratch/", root), printed):
                failures += 1
                print(f"FAILED {block.where}: the page says\n{block.text}"
                      f"and it prints\n{printed}")
        if not block.is_run:
            continue
        has_run = "not run" not in block.comments
        if not has_run:
            continue
        text = ABSOLUTE.sub(root, block.text)
        try:
            printed = (run_python(block, text, names)
                       if block.language == "python"
                       else RUNNERS[block.language](block, text))
        except Exception:
            failures += 1
            print(f"FAILED {block.where}\n{traceback.format_exc()}")
    return failures


def run_page(page: pathlib.Path, command: str) -> int:
    """Runs the page in separate processes; returns how many of them failed."""
    count = len(blocks_of(page))
    is_of_snippets = (HERE / "before" / (page.stem + ".py")).exists()
    parts = ([f"{i}:{i + 1}" for i, block in enumerate(blocks_of(page))
              if block.is_run] if is_of_snippets else [f"0:{count}"])
    failures = 0
    for part in parts:
        with tempfile.TemporaryDirectory() as scratch:
            bin_folder = pathlib.Path(scratch, "bin")
            bin_folder.mkdir()
            (bin_folder / "holdfast").symlink_to(command)
            (bin_folder / "python").write_text(
                f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            (bin_folder / "python").chmod(0o755)
            work = pathlib.Path(scratch, "work")
            work.mkdir()
            done = subprocess.run(
                [sys.executable, str(HERE / "run_blocks.py"), "--part", part,
                 str(page)],
                cwd=work, check=False,
                env={**os.environ,
                     "PATH": f"{bin_folder}:{os.environ['PATH']}"})
            failures += done.returncode != 0
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=pathlib.Path,
                        default=[ROOT / page for page in PAGES])
    parser.add_argument("--holdfast", default=os.environ.get(
        "HOLDFAST", shutil.which("holdfast")))
    parser.add_argument("--list", action="store_true",
                        help="say which blocks would run, and run none")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        first, last = args.part.split(":")
        return int(run_here(args.pages[0], range(int(first), int(last))) > 0)
    if not args.holdfast:
        parser.error("no command holdfast: --holdfast, HOLDFAST or PATH")
    run = skipped = failures = 0
    for page in (each.resolve() for each in args.pages):
        code = [block for block in blocks_of(page) if block.is_run]
        lacks = missing_packages(code)
        if page.stem == "prove-crash" and not may_trace(args.holdfast):
            lacks.append("leave to trace programs")
        if lacks:
            print(f"{page.name}: not run, there is no {' and no '.join(lacks)}")
            skipped += len(code)
            continue
        left = [block for block in code if "not run" in block.comments]
        run += len(code) - len(left)
        skipped += len(left)
        print(f"{page.name}: {len(code) - len(left)} blocks"
              + "".join(f"\n  {block.where} not run: "
                        + block.comments["not run"] for block in left),
              flush=True)
        if not args.list:
            failures += run_page(page, os.path.abspath(args.holdfast))
    print(f"{run} blocks of {len(args.pages)} pages run, {skipped} not run: "
          f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
