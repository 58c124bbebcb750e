"""The .pth file that lets an environment variable turn holdfast on."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

VARIABLE = "HOLDFAST_AS_ORBAX"

# Python runs a line that begins with `import` at startup.
_LINE = (
    f'import os; os.environ.get("{VARIABLE}") == "1"'
    ' and __import__("holdfast.as_orbax")\n'
)


def pth_path() -> Path:
    """Returns the file's path in this Python's site-packages, whether or not
    the file exists."""
    return Path(sysconfig.get_path("purelib")) / "holdfast_as_orbax.pth"


def add_pth() -> str:
    """Writes the file.

    Returns:
        What was written and where, for the user.

    Raises:
        OSError: site-packages cannot be written.
    """
    path = pth_path()
    path.write_text(_LINE)
    return (
        f"wrote {path}: programs of {sys.executable} that are started with"
        f" {VARIABLE}=1 find holdfast where they import orbax.checkpoint."
        " Remove it with `python -m holdfast.as_orbax --uninstall`"
    )


def remove_pth() -> str:
    """Removes the file.

    Returns:
        What was removed, for the user.

    Raises:
        OSError: the file cannot be removed.
    """
    path = pth_path()
    if not path.exists():
        return f"nothing to remove: {path} does not exist"
    path.unlink()
    return f"removed {path}"
