"""The `holdfast` command of a wheel: the engine's own, run in this process.

A package beside `holdfast`, because importing that one takes numpy along, and
`holdfast ls` is to answer at once.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import sys

__all__ = ["main"]


def _engine_file() -> str:
    """Where the compiled module is, without importing it."""
    package = importlib.util.find_spec("holdfast")
    folders = package.submodule_search_locations if package else None
    for folder in folders or []:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = os.path.join(folder, f"_engine{suffix}")
            if os.path.exists(path):
                return path
    from holdfast import _engine  # an editable installation has it elsewhere

    return str(_engine.__file__)


def main() -> int:
    """Runs the command with the words of `sys.argv`.

    Returns:
        The exit status.
    """
    if sys.argv[1:2] == ["check"]:  # which imports the user's program
        from holdfast._check import main as check

        return check(sys.argv[2:])
    words = [os.fsencode(word) for word in ["holdfast", *sys.argv[1:]]]
    run = ctypes.CDLL(_engine_file()).holdfast_command
    status: int = run(len(words), (ctypes.c_char_p * len(words))(*words))
    return status
