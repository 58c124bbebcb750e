"""Runs a program, with holdfast in the place of Orbax.

usage: python -m holdfast.as_orbax SCRIPT [ARGUMENT...]
       python -m holdfast.as_orbax -m MODULE [ARGUMENT...]
       python -m holdfast.as_orbax -c CODE [ARGUMENT...]
       python -m holdfast.as_orbax --install | --uninstall

--install writes a .pth file into this Python's site-packages. Every program
that this Python then runs with HOLDFAST_AS_ORBAX=1 in its environment uses
holdfast, and so do the processes that it starts. --uninstall removes the file.
"""

from __future__ import annotations

import os
import runpy
import sys
import types

from holdfast.as_orbax._pth import VARIABLE, add_pth, remove_pth


def main(arguments: list[str]) -> str | int:
    """Runs the command line.

    Returns:
        The exit status: 0, or an error message.
    """
    match arguments:
        case [("-h" | "--help")]:
            print((__doc__ or "").strip())
        case ["--install"]:
            print(add_pth())
        case ["--uninstall"]:
            print(remove_pth())
        case ["-m", module, *rest]:
            _start(module, rest)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            _start("-c", rest)
            _run_code(code)
        case [script, *rest] if not script.startswith("-"):
            _start(script, rest)
            _run_script(script)
        case _:
            return (__doc__ or "").strip()
    return 0


def _start(name: str, arguments: list[str]) -> None:
    sys.argv[:] = [name, *arguments]
    # With the .pth file, processes that the program starts also use holdfast.
    os.environ[VARIABLE] = "1"


def _run_script(path: str) -> None:
    is_file = os.path.isfile(path)
    # sys.path[0] is the working directory, because of `-m`.
    if is_file and not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    runpy.run_path(path, run_name="__main__")


def _run_code(code: str) -> None:
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    exec(compile(code, "<string>", "exec"), module.__dict__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
