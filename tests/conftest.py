"""Options of several test folders, and the tests that cannot run here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# These tests need an environment that has the package. Elsewhere they are not
# collected, rather than skipped, so that a run of only these tests fails.
collect_ignore = [
    path
    for path, package in (
        ("clients/test_grain.py", "grain"),
        ("recipes/test_recipes.py", "transformers"),
    )
    if importlib.util.find_spec(package) is None
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    parser.addoption(
        "--cli",
        default=str(ROOT / "build/dev/cli/holdfast"),
        help="the holdfast command of tests/{cli,remote,terminal}",
    )
    parser.addoption(
        "--long",
        action="store_true",
        help="what takes minutes, Ceph, and every page of the site",
    )
