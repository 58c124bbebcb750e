"""The text form of an opened checkpoint: a table of its leaves."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import _engine
from holdfast._stats import human_bytes

__all__ = ["HEADER", "as_text", "cells"]

HEADER = ("name", "kind", "dtype", "shape", "chunks", "stored", "decoded")
# If there are more rows, the middle ones are left out.
_ROWS_MAX = 40
_NAME_WIDTH_MAX = 60

Row = tuple[str, ...]


def as_text(title: str, leaves: Sequence[_engine.LeafInfo]) -> str:
    """Returns lines of columns; omits the middle of a long list."""
    rows, left_out = _rows(leaves)
    widths = [
        max(len(row[column]) for row in [HEADER, *rows])
        for column in range(len(HEADER))
    ]
    lines = [_line(row, widths) for row in [HEADER, *rows]]
    if left_out:
        middle = 1 + len(rows) // 2
        lines.insert(middle, f"... {left_out} more ...")
    return "\n".join([title, *lines, _totals(leaves)])


def _align(column: int) -> str:
    return "right" if column >= len(HEADER) - 2 else "left"


def _rows(leaves: Sequence[_engine.LeafInfo]) -> tuple[list[Row], int]:
    left_out = max(len(leaves) - _ROWS_MAX, 0)
    if left_out:
        half = _ROWS_MAX // 2
        shown = [*leaves[:half], *leaves[len(leaves) - half :]]
    else:
        shown = list(leaves)
    return [_row(leaf) for leaf in shown], left_out


def _row(leaf: _engine.LeafInfo) -> Row:
    name = leaf.name or "(root)"
    if len(name) > _NAME_WIDTH_MAX:
        half = (_NAME_WIDTH_MAX - 3) // 2
        name = f"{name[:half]}...{name[-half:]}"
    return (name, *cells(leaf))


def cells(leaf: _engine.LeafInfo) -> Row:
    """Returns the leaf's cells for the columns of HEADER after the name."""
    has_elements = leaf.kind in ("array", "scalar")
    chunks = ""
    if leaf.kind == "array" and leaf.chunk_count > 1:
        chunks = f"{leaf.chunk_count} of {leaf.chunk_shape}"
    kind = leaf.kind if leaf.problem is None else f"{leaf.kind} (unreadable)"
    return (
        f"{kind}, {leaf.prng_impl} key" if leaf.prng_impl else kind,
        leaf.dtype or "",
        str(leaf.shape) if has_elements else "",
        chunks,
        human_bytes(leaf.stored_bytes) if leaf.stored_bytes else "",
        human_bytes(leaf.decoded_bytes) if has_elements else "",
    )


def _line(row: Row, widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if _align(column) == "right" else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _totals(leaves: Sequence[_engine.LeafInfo]) -> str:
    stored = sum(leaf.stored_bytes for leaf in leaves)
    decoded = sum(leaf.decoded_bytes for leaf in leaves)
    noun = "leaf" if len(leaves) == 1 else "leaves"
    sizes = f"{human_bytes(decoded)} decoded"
    if stored:
        sizes = f"{human_bytes(stored)} stored, {sizes}"
    return f"{len(leaves)} {noun}, {sizes}"
