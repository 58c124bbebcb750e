"""Fixtures and functions that all tests of the package share."""

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

# Gives jax eight devices to shard over. Must be set before jax starts.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# A shell starts background processes with Ctrl-C ignored, which their children
# inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Checkpoints that many versions of Orbax wrote.
CORPUS = Path(__file__).parents[2] / "tests/golden/corpus/open.tar.xz"
Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ckpt(tmp_path: Path) -> Path:
    """Returns a path to save to, which does not exist yet."""
    return tmp_path / "ckpt"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the unpacked corpus. Tests must not change it."""
    directory = tmp_path_factory.mktemp("corpus")
    with tarfile.open(CORPUS) as archive:
        archive.extractall(directory)
    return directory / "open"


@pytest.fixture
def wide_types() -> Iterator[None]:
    """Turns on jax's 64-bit types, with which the corpus was recorded."""
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
    """Runs a program in a new interpreter. Fails with its output unless its
    exit status is `code`."""
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
    """Returns `run_program` with the test's temporary directory as `cwd`."""
    return functools.partial(run_program, cwd=tmp_path)
