"""Runs Orbax's guide to its format with `holdfast.orbax` in place of
`orbax.checkpoint`, but with stock TensorStore."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GUIDE = Path(__file__).parent / "format_guide.txt"


def cells(root: Path) -> list[ast.stmt]:
    """Returns the guide's statements, changed to save below `root`."""
    text = GUIDE.read_text("utf-8")
    assert "import orbax.checkpoint as ocp" in text
    text = text.replace(
        "import orbax.checkpoint as ocp", "import holdfast.orbax as ocp"
    )
    return ast.parse(text.replace("/tmp/checkpoint", str(root))).body  # noqa: S108


def run(root: Path) -> tuple[dict[str, Any], list[Any], list[str]]:
    """Runs the guide; returns its variables, the values that a notebook would
    show, and the lines that it prints."""
    names: dict[str, Any] = {"__name__": "guide"}
    shown = []
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for statement in cells(root):
            is_shown = isinstance(statement, ast.Expr)
            code: Any = ast.Module([statement], [])
            if is_shown:
                code = ast.Expression(statement.value)  # type: ignore[attr-defined]
            compiled = compile(code, "guide", "eval" if is_shown else "exec")
            value = eval(compiled, names)  # noqa: S307 - our own file
            if is_shown and value is not None:
                shown.append(value)
    return names, shown, printed.getvalue().splitlines()


@pytest.mark.filterwarnings("ignore")
def test_the_guide(tmp_path: Path) -> None:
    for package in ("jax", "etils", "tensorstore"):
        pytest.importorskip(package)
    root = tmp_path / "checkpoint"
    names, shown, printed = run(root)
    state, metadata, spec, keys, result = shown
    # TensorStore read these elements.
    np.testing.assert_array_equal(result, np.arange(16))
    np.testing.assert_array_equal(names["t"].read().result(), state["a"])
    assert {b"a/.zarray", b"a/0", b"b/.zarray", b"d/0"} <= set(keys)
    assert spec["kvstore"]["path"] == "a" and spec["driver"] == "zarr3"
    # `_METADATA` has every leaf with its kind, as the guide explains.
    kinds = {
        key: leaf["value_metadata"]["value_type"]
        for key, leaf in metadata["tree_metadata"].items()
    }
    assert kinds == {
        "('a',)": "jax.Array",
        "('b',)": "jax.Array",
        "('c',)": "np.ndarray",
        "('d',)": "scalar",
        "('e',)": "string",
    }
    # The files that the guide mentions exist.
    assert printed[0] == f"Printing directory tree: {root}/"
    for line in (
        "..metadata/",
        "...._ROOT_METADATA",
        "..0/",
        "...._CHECKPOINT_METADATA",
        "....state/",
        "....custom_data/",
        "......_METADATA",
        "......_sharding",
        "......manifest.ocdbt",
        "......ocdbt.process_0/",
        "......d/",
    ):
        assert line in printed, line
    custom = json.loads((root / "metadata" / "_ROOT_METADATA").read_text())
    assert custom["custom_metadata"] == {"global_property": "foo"}
