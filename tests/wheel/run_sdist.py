#!/usr/bin/env python3
"""Makes the sdist, and installs it with pip in a new environment.

usage: run_sdist.py [SDIST]     without SDIST, makes a new one

pip unpacks the sdist in a temporary folder and compiles it there. It makes the
same compiler calls as scripts/wheel, so if that has run, ccache has the results
(else it takes minutes). Then a save, a load and the command must work. Needs
what scripts/setup installs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

from run_wheel import ROOT, USE

AS_THE_WHEEL = ("--config-settings=build-dir=build/wheel-objects",
                "--config-settings=cmake.define.HOLDFAST_WERROR=ON")


def make_environment(folder: Path, *packages: str) -> Path:
    """Makes a virtual environment with these packages; returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    if packages:
        install(python, *packages)
    return python


def install(python: Path, *packages: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "--quiet",
                    "--disable-pip-version-check", *packages], check=True)


def build(scratch: Path) -> Path:
    python = make_environment(scratch / "build", "build")
    subprocess.run([python, "-m", "build", "--sdist", "--outdir", scratch,
                    ROOT], check=True, stdout=subprocess.DEVNULL)
    (sdist,) = scratch.glob("holdfast-*.tar.gz")
    return sdist


def check_contents(sdist: Path) -> None:
    """Checks that the sdist has the files that a build needs, and no file that
    was built or downloaded."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    for wanted in ("pyproject.toml", "PKG-INFO", "LICENSE", "CMakeLists.txt",
                   "include/holdfast/holdfast.h", "python/holdfast/_api.py"):
        assert wanted in names, wanted
    odd = [name for name in names
           if name.startswith(("build/", ".venv", ".git/", "dist/"))
           or name.endswith((".so", ".o", ".pyc"))]
    assert not odd, odd[:10]


def main() -> None:
    # ccache treats paths below this folder, where pip unpacks, as relative.
    os.environ["CCACHE_BASEDIR"] = tempfile.gettempdir()
    os.environ["CCACHE_NOHASHDIR"] = "true"
    os.environ.setdefault("CXX", "c++")  # the default of scripts/wheel
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        sdist = (Path(sys.argv[1]).resolve() if sys.argv[1:]
                 else build(scratch))
        check_contents(sdist)
        python = make_environment(scratch / "environment")
        install(python, *AS_THE_WHEEL, str(sdist))
        subprocess.run([python, "-c", USE, scratch / "saved"], check=True,
                       cwd=scratch)
        listed = subprocess.run(
            [python.parent / "holdfast", "ls", scratch / "saved" / "zstd"],
            check=True, capture_output=True, text=True, cwd=scratch).stdout
        assert "float32[3,4]" in listed, listed
        print(f"ok {sdist.name}: {sdist.stat().st_size} bytes")


if __name__ == "__main__":
    main()
