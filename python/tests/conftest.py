"""Shared by all tests of the package."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Eight devices to shard over; must be said before jax starts.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# A shell starts what runs in the background with Ctrl-C ignored, and children
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Checkpoints that Orbax wrote, of many versions.
CORPUS = Path(__file__).parents[2] / "tests/golden/corpus/open.tar.xz"
Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ckpt(tmp_path: Path) -> Path:
    """Where a test may save: does not exist yet."""
    return tmp_path / "ckpt"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, unpacked; not to be written to."""
    directory = tmp_path_factory.mktemp("corpus")
    with tarfile.open(CORPUS) as archive:
        archive.extractall(directory)
    return directory / "open"


@pytest.fixture
def wide_types() -> Iterator[None]:
    """jax with 64-bit types, as the corpus was recorded."""
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def run_program(
    program: str,
    *arguments: object,
    code: int = 0,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fresh interpreter; fails with its output unless it
    ends with that code."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def run_python(tmp_path: Path) -> Script:
    """`run_program` in a directory of the test's own."""
    return functools.partial(run_program, cwd=tmp_path)
