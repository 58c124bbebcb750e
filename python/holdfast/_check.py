"""`holdfast check PATH --target MODULE:FUNCTION`: does a checkpoint still fit?

This is for continuous integration: the function builds the tree that the
program would load into, from `jax.eval_shape` or arrays. No tensor is read.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import holdfast

__all__ = ["main"]

_FITS, _DIFFERS, _USAGE, _FAILED = 0, 1, 2, 3


def _target_of(name: str) -> Any:
    """Returns the result of calling FUNCTION of MODULE.

    Also finds modules in the working directory.
    """
    module_name, _, function = name.partition(":")
    if not module_name or not function:
        raise ValueError(f"--target: got {name!r}, want MODULE:FUNCTION")
    sys.path.insert(0, os.getcwd())
    made: Any = importlib.import_module(module_name)
    for part in function.split("."):
        made = getattr(made, part)
    return made()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast check",
        description="Compares a checkpoint with the tree that a program would"
        " load it into: names, kinds, shapes, dtypes. No tensor is read. Exit"
        " status: 0 it fits, 1 it does not, 2 usage, 3 any other failure.",
    )
    parser.add_argument("path", help="a checkpoint, a step or a root; a URL")
    parser.add_argument(
        "--target",
        required=True,
        metavar="MODULE:FUNCTION",
        help="called without arguments, returns the tree",
    )
    parser.add_argument(
        "--step", type=int, help="step of a root; default: newest"
    )
    parser.add_argument(
        "--item", default="", help="item of a composite checkpoint"
    )
    parser.add_argument(
        "--cast", action="store_true", help="ignore differences of dtype"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object"
    )
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command `holdfast check`.

    Args:
      words: the arguments after `check`; None takes them from `sys.argv`.

    Returns:
      The exit status.
    """
    args = _parser().parse_args(words)
    try:
        target = _target_of(args.target)
    except (ValueError, ImportError, AttributeError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return _USAGE
    try:
        checkpoint = holdfast.open(args.path, step=args.step, item=args.item)
        lines = checkpoint.explain(target, cast=args.cast)
    except (OSError, ValueError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return _FAILED
    if args.json:
        answer = {
            "path": checkpoint.path,
            "fits": not lines,
            "differences": lines,
        }
        print(json.dumps(answer))
    else:
        fits = f"{checkpoint.path} fits {args.target}"
        print("\n".join(lines) if lines else fits)
    return _DIFFERS if lines else _FITS
