"""Options that several folders of tests have, and what cannot run here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Tests with an environment of their own, which has the package: not collected
# anywhere else, so that a run of nothing but them fails without it.
collect_ignore = [
    path
    for path, package in (
        ("clients/test_grain.py", "grain"),
        ("recipes/test_recipes.py", "transformers"),
    )
    if importlib.util.find_spec(package) is None
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the head."""
    parser.addoption(
        "--cli",
        default=str(ROOT / "build/dev/cli/holdfast"),
        help="the holdfast command of tests/remote and tests/terminal",
    )
    parser.addoption(
        "--long",
        action="store_true",
        help="what takes minutes, Ceph, and every page of the site",
    )
