"""Each check of this folder as a test, in a process of its own.

Skipped where torch sees no CUDA device. `scripts/accelerator` runs the same
checks in minutes; see README.md.
"""

from __future__ import annotations

import ast
import json
import pathlib

import pytest
import run_accelerator
import run_checks

NO_DEVICE = run_accelerator.no_device()


def _checks() -> list[str]:
    """Returns the names of all checks, without importing their modules."""
    names = []
    for module in run_checks.MODULES:
        source = (run_checks.HERE / f"{module}.py").read_text()
        names += [
            f"{module}.{node.name}"
            for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef) and node.decorator_list
        ]
    return names


@pytest.mark.skipif(bool(NO_DEVICE), reason=f"no device: {NO_DEVICE}")
@pytest.mark.parametrize("name", _checks())
def test_check(name: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "checks.json"
    checks = run_checks.Checks(out, 300, pretend=False, facts={})
    checks.run([name])
    (result,) = json.loads(out.read_text())["checks"]
    if result["skipped"]:
        pytest.skip(result["message"])
    assert result["ok"], result["message"]
