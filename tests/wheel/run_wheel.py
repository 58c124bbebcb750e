#!/usr/bin/env python3
"""Installs the wheel in an environment with only numpy, and uses it.

usage: run_wheel.py [WHEEL]     without WHEEL, scripts/wheel makes one

Checks what the wheel contains, that the module finds its libraries in the wheel
and not in the system, that a load returns what a save has saved, and that the
command lists the checkpoint.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The program that runs in the clean environment, outside the repository.
USE = """
import sys
import numpy as np
import holdfast

assert "site-packages" in holdfast.__file__, holdfast.__file__
from holdfast import _engine
flags = open("/proc/cpuinfo").read()
for flag, feature in ((" sse4_2", "crc32c"), (" bmi2", "bmi2")):
    assert (flag in flags) == (feature in _engine.processor_features), (
        f"{feature}: got {_engine.processor_features!r}")
tree = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "n": [1, 2.5, "text", None],
}
for compression in ("planes", "zstd", "fast", None):
    path = f"{sys.argv[1]}/{compression}"
    holdfast.save(path, tree, compression=compression)
    loaded = holdfast.load(path)
    assert (loaded["w"] == tree["w"]).all() and loaded["n"] == tree["n"]
    assert holdfast.open(path)["w"][1].tolist() == [4, 5, 6, 7]
    assert holdfast.verify(path)
"""
PROGRAM = USE + """
maps = open("/proc/self/maps").read()
for library in ("libblosc", "libzstd", "libcrypto"):
    paths = {line.split()[-1] for line in maps.splitlines()
             if f"/{library}" in line}
    assert all("holdfast.libs" in path for path in paths), paths
assert not {"jax", "torch", "ml_dtypes"} & set(sys.modules)
from importlib.metadata import entry_points
door, = entry_points(group="fsspec.specs")
assert door.value == "holdfast.fsspec:HoldfastFileSystem", door
try:
    import jax
except ImportError:
    print("ok", holdfast.__version__)
"""


def build() -> Path:
    out = ROOT / "dist"
    subprocess.run([ROOT / "scripts" / "wheel", "--out", out], check=True)
    wheels = out.glob("holdfast-*.whl")
    return max(wheels, key=lambda path: path.stat().st_mtime)


def check_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("__init__.py", "py.typed", "_engine.pyi", "errors.py"):
        assert f"holdfast/{wanted}" in names, wanted
    modules = [n for n in names if n.startswith("holdfast/_engine.")]
    assert len(modules) == 2, modules  # the module and its stub
    manual = "data/share/man/man1/holdfast.1"
    assert [n for n in names if n.endswith(f".data/{manual}")], manual
    odd = [n for n in names if not n.startswith(("holdfast", "_holdfast_"))]
    assert not odd, odd
    assert not [n for n in names if n.endswith((".cc", ".h", ".dev"))]


def main() -> None:
    wheel = Path(sys.argv[1]).resolve() if sys.argv[1:] else build()
    check_contents(wheel)
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "venv"
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", wheel], check=True
        )
        done = subprocess.run(
            [python, "-I", "-c", PROGRAM, scratch],
            cwd=scratch,
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout.startswith("ok "), done.stdout + done.stderr
        listed = subprocess.run(
            [environment / "bin" / "holdfast", "ls", f"{scratch}/zstd"],
            check=True, capture_output=True, text=True,
        )
        assert "float32" in listed.stdout, listed.stdout
    print(f"{wheel.name}: installs, imports, saves and loads")


if __name__ == "__main__":
    main()
