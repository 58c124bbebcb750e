"""Pytest fixtures for servers, and for the programs under test.

    python -m pytest tests/remote --cli build/dev/cli/holdfast
        [--long]      adds Ceph, and tests that take minutes (tests/conftest.py)
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import servers  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker `long`."""
    config.addinivalue_line("markers", "long: only with --long")


def pytest_collection_modifyitems(config: pytest.Config,
                                  items: list[pytest.Item]) -> None:
    """Skips the long tests unless they are asked for."""
    if config.getoption("--long"):
        return
    kept = [item for item in items if "long" not in item.keywords]
    left_out = [item for item in items if "long" in item.keywords]
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.fixture(scope="session")
def cli(request: pytest.FixtureRequest) -> str:
    """Returns the path of the holdfast command."""
    return str(Path(request.config.getoption("--cli")).resolve())


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run(cli: str) -> Run:
    """Returns run(server, *words, **variables), which runs the command with the
    environment for that server."""
    def run_cli(server: servers.Server, *words: str,
                **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([cli, *words], capture_output=True, text=True,
                              check=False, timeout=120,
                              env=server.environment(**variables))
    return run_cli


@pytest.fixture(scope="session")
def moto() -> Iterator[servers.Server]:
    """Runs moto's S3, which checks signatures."""
    with servers.moto() as server:
        yield server


@pytest.fixture(scope="session")
def lax_moto() -> Iterator[servers.Server]:
    """Runs moto's S3 without checks, for proxies that change signed parts."""
    with servers.moto(checks_signatures=False) as server:
        yield server


@pytest.fixture(scope="session")
def ceph() -> Iterator[servers.Ceph]:
    """Runs Ceph's S3 gateway."""
    with servers.ceph() as server:
        yield server


@pytest.fixture(scope="session")
def gcs() -> Iterator[servers.Server]:
    """Runs holdfast's fake of Google's store."""
    with servers.gcs() as server:
        yield server


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """Runs a plain web server that serves server.folder."""
    with servers.files(tmp_path_factory.mktemp("files")) as server:
        yield server
