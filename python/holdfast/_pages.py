"""Notebook displays of `open`, `stats`, `diff` and `verify`."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast import _engine, _notebook, _table
from holdfast._notebook import Row

if TYPE_CHECKING:
    from holdfast._results import (
        DiffResult,
        LeafDiff,
        LeafStats,
        LeafSummary,
        StatsResult,
        VerifyReport,
    )

__all__ = ["of_diff", "of_leaves", "of_stats", "of_text", "of_verify"]


def of_leaves(title: str, leaves: Sequence[_engine.LeafInfo]) -> str:
    """Returns a page of the leaves of an opened checkpoint."""
    rows = [
        Row(
            leaf.key,
            _table.cells(leaf),
            _parameters(leaf.kind, leaf.dtype, leaf.shape),
            leaf.decoded_bytes,
            int(leaf.problem is not None),
        )
        for leaf in leaves
    ]
    return _notebook.page(title, _table.HEADER[1:], rows, problem="unreadable")


def of_stats(result: StatsResult) -> str:
    """Returns a page of each tensor's statistics; tensors with NaNs or
    infinities come first."""
    columns = (
        *("dtype", "shape", "mean", "std", "min", "max", "absmax", "l2 norm"),
        *("zeros", "NaNs", "infinities"),
    )
    rows = [
        Row(
            _keys(leaf.name),
            _stats_cells(leaf),
            leaf.element_count if leaf.shape else 0,
            leaf.bytes,
            int(
                leaf.error is not None
                or leaf.nan_count > 0
                or leaf.infinity_count > 0
            ),
        )
        for leaf in result.leaves
    ]
    title = (
        f"all elements: l2 norm {result.l2_norm:.6g},"
        f" absmax {result.absmax:.6g}"
    )
    return _notebook.page(title, columns, rows, problem="not finite")


def of_diff(result: DiffResult) -> str:
    """Returns a page of the leaves of both sides, differing leaves first."""
    columns = (
        *("what", "a", "b", "different", "max abs error", "max rel error"),
        "note",
    )
    rows = []
    for leaf in result.leaves:
        side = leaf.a or leaf.b
        assert side is not None  # a leaf is on at least one side
        rows.append(
            Row(
                _keys(leaf.name),
                _diff_cells(leaf),
                _parameters(side.kind, side.dtype, side.shape),
                side.bytes,
                int(leaf.what != "same"),
            )
        )
    title = "the same" if result.same else "different"
    return _notebook.page(title, columns, rows, problem="different")


def of_verify(report: VerifyReport) -> str:
    """Returns a page of each damage, by leaf, and everything that is not
    supported."""
    rows = [
        Row(
            _keys(damage.leaf),
            (
                damage.file,
                "" if damage.offset is None else str(damage.offset),
                damage.message,
            ),
            problem_count=1,
        )
        for damage in [*report.damages, *report.not_supported]
    ]
    noun = "leaf" if report.leaf_count == 1 else "leaves"
    verdict = "damaged" if report.damages else "no damage"
    if report.not_supported:
        verdict += f", {len(report.not_supported)} not supported"
    return _notebook.page(
        f"{report.path}: {report.leaf_count} {noun} checked, {verdict}",
        ("file", "offset", "message"),
        rows,
        notes=[f"note: {note}" for note in report.notes],
        nouns=("damage", "damages"),
    )


def of_text(text: str) -> str:
    """Returns a paragraph."""
    return f"<p>{html.escape(text)}</p>"


def _keys(name: str) -> tuple[str, ...]:
    return tuple(name.split(".")) if name else ()


def _parameters(kind: str, dtype: str | None, shape: Sequence[int]) -> int:
    return math.prod(shape) if kind == "array" and dtype else 0


def _number(value: complex | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _stats_cells(leaf: LeafStats) -> tuple[str, ...]:
    if leaf.error is not None:
        return (leaf.dtype, str(leaf.shape), leaf.error)
    return (
        leaf.dtype,
        str(leaf.shape),
        *map(
            _number,
            (leaf.mean, leaf.std, leaf.min, leaf.max, leaf.absmax),
        ),
        _number(leaf.l2_norm),
        str(leaf.zero_count),
        str(leaf.nan_count),
        str(leaf.infinity_count),
    )


def _side(side: LeafSummary | None) -> str:
    if side is None:
        return "-"
    if side.kind == "array":
        return f"{side.dtype} {side.shape}"
    return side.kind if side.dtype is None else f"{side.kind} {side.dtype}"


def _diff_cells(leaf: LeafDiff) -> tuple[str, ...]:
    has_errors = leaf.different_count > 0
    count = f"{leaf.different_count} of {leaf.element_count}"
    return (
        leaf.what,
        _side(leaf.a),
        _side(leaf.b),
        count if leaf.element_count else "",
        _number(leaf.max_abs_error) if has_errors else "",
        _number(leaf.max_rel_error) if has_errors else "",
        _diff_note(leaf),
    )


def _diff_note(leaf: LeafDiff) -> str:
    if leaf.error is not None:
        return leaf.error
    if leaf.renamed is not None:
        return f"equals {'b' if leaf.a else 'a'}'s {leaf.renamed}"
    if leaf.first_byte is not None:
        return f"byte {leaf.first_byte}"
    if leaf.first_index is None:
        return ""
    index = list(leaf.first_index) if leaf.first_index else ""
    return f"{index} {leaf.first_a} != {leaf.first_b}".strip()
