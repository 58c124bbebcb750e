"""Finds the libcurl in the package pycurl, for systems without libcurl.

The package is found by its files; pycurl is never imported. The engine uses the
libcurl that HOLDFAST_LIBCURL names, or else the system's libcurl, or else the
one in pycurl.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys

from holdfast import _engine, errors


def find_pycurls() -> str | None:
    """Returns the path of the library in `pycurl.libs/`, if it is installed."""
    for entry in sys.path:
        directory = pathlib.Path(entry or ".", "pycurl.libs")
        found = sorted(directory.glob("libcurl*.so*"))
        if found:
            return str(found[0].resolve())
    return None


def tell_engine() -> None:
    """Tells the engine where pycurl's libcurl is, if it is installed."""
    path = find_pycurls()
    if path is not None:
        with contextlib.suppress(errors.HoldfastError):  # already loaded
            _engine.set_libcurl_path(path)
