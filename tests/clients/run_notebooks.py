#!/usr/bin/env python3
"""Runs notebooks that use orbax.checkpoint, with Orbax and with holdfast.

usage: run_notebooks.py DIR [--only GLOB] [--show N]

DIR holds .ipynb files at any depth, such as Orbax's docs/guides/checkpoint.
Each notebook runs twice, each time in a new process and an empty directory:
unchanged, and with `orbax.checkpoint` replaced by `holdfast.orbax` in the text
of its cells. The empty directory also takes the place of /tmp.
Shell lines and magics (`!`, `%`) are left out. A cell that raises does not end
its notebook. Exit status 1 when a cell runs with Orbax but not with holdfast.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

OURS = "holdfast.orbax"
SECONDS_MAX = 900


def cells_of(notebook: Path, package: str) -> list[str]:
    """Returns the code of each code cell that is not empty."""
    found = []
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        lines = "".join(cell["source"]).splitlines()
        kept = [x for x in lines if not x.lstrip().startswith(("!", "%"))]
        text = "\n".join(kept)
        if text.strip():
            text = text.replace("/tmp/", f"{Path.cwd()}/")
            text = text.replace("orbax.checkpoint", package)
            if package == OURS:
                text = text.replace(
                    "from orbax import checkpoint", "from holdfast import orbax"
                )
            found.append(text)
    return found


def run_cell(text: str, names: dict[str, Any], name: str) -> None:
    """Runs a cell as a notebook does: it may use `await` at the top level."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    result = eval(compile(text, name, "exec", flags=flags), names)
    if asyncio.iscoroutine(result):
        asyncio.get_event_loop().run_until_complete(result)


def run(notebook: Path, package: str) -> None:
    """Runs a notebook; writes a JSON list with each cell's error to stdout.

    The error of a cell that succeeds is "".
    """
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.set_event_loop(asyncio.new_event_loop())
    names: dict[str, Any] = {"__name__": "__main__"}
    errors = []
    for i, text in enumerate(cells_of(notebook, package)):
        try:
            run_cell(text, names, f"cell {i}")
            errors.append("")
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            errors.append(
                f"{type(error).__name__}: {error} ({last.filename}:"
                f"{last.lineno})"[:400]
            )
    json.dump(errors, told)
    told.flush()
    os._exit(0)


def outcome(notebook: Path, package: str) -> list[str]:
    flags = "--xla_force_host_platform_device_count=8"
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [sys.executable, __file__, str(notebook), "--package", package],
            cwd=scratch,
            env={
                **os.environ,
                "XLA_FLAGS": flags,
                "JAX_PLATFORMS": "cpu",
                "TMPDIR": scratch,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS_MAX,
            check=False,
        )
    try:
        return list(json.loads(done.stdout))
    except ValueError:
        return [f"the process ended with {done.returncode}"]


def told(counts: list[int]) -> str:
    cells, theirs, ours = counts
    return f"{cells:4} cells, orbax {theirs:3}, holdfast {ours:3}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--show", type=int, default=100)
    parser.add_argument("--package", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.package:
        run(args.directory, args.package)
    totals = [0, 0, 0]
    lost = 0
    for notebook in sorted(args.directory.resolve().rglob("*.ipynb")):
        name = str(notebook.relative_to(args.directory.resolve()))
        if not fnmatch.fnmatch(name, args.only):
            continue
        theirs = outcome(notebook, "orbax.checkpoint")
        ours = outcome(notebook, OURS)
        counts = [len(theirs), theirs.count(""), ours.count("")]
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        print(f"{name:52}" + told(counts), flush=True)
        for i, (a, b) in enumerate(zip(theirs, ours, strict=False)):
            if not a and b and lost < args.show:
                print(f"  cell {i}: {b}")
            lost += bool(not a and b)
    print(f"{told(totals)}; {lost} run with Orbax alone")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
