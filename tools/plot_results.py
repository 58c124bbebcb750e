#!/usr/bin/env python3
"""Draws the plots of doc/performance.md from bench/results.

usage: plot_results.py [--check]

Writes doc/plots/*.svg. A row has a point for each round and a bar at their
median, on a logarithmic axis. --check writes nothing: exit status 1 when a plot
is not what bench/results says.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import statistics
import sys
from html import escape
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PLOTS = ROOT / "doc" / "plots"
Row = tuple[str, list[float]]  # who, and the seconds of each round

WIDTH, LABELS, VALUES, ROW, TOP = 760, 250, 80, 24, 44
OURS, THEIRS = "#00796b", "#78909c"


def seconds_text(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 0.9995:
            value = seconds * scale
            digits = max(0, 2 - math.floor(math.log10(value)))
            return f"{value:.{digits}f} {unit}"
    return f"{seconds * 1e6:.2f} us"


def is_ours(label: str) -> bool:
    return label.startswith("holdfast")


def axis_of(rows: list[Row]) -> tuple[int, int]:
    """Powers of ten that enclose all values."""
    values = [value for _, rounds in rows for value in rounds]
    return (math.floor(math.log10(min(values))),
            math.ceil(math.log10(max(values))))


def svg_of(title: str, rows: list[Row]) -> str:
    first, last = axis_of(rows)
    height = TOP + ROW * len(rows) + 34
    bottom = height - 28

    def x(value: float) -> float:
        part = (math.log10(value) - first) / (last - first)
        return LABELS + part * (WIDTH - LABELS - VALUES)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fafafa"/>',
        f'<text x="12" y="24" font-size="15" font-weight="bold" '
        f'fill="#263238">{escape(title)}</text>',
    ]
    for power in range(first, last + 1):
        at = x(10.0 ** power)
        out.append(f'<path d="M{at:.1f} {TOP - 6}V{bottom}" stroke="#cfd8dc"/>')
        out.append(f'<text x="{at:.1f}" y="{height - 10}" fill="#546e7a" '
                   f'text-anchor="middle">{tick_text(power)}</text>')
    for number, (label, rounds) in enumerate(rows):
        y = TOP + ROW * number + ROW / 2
        color = OURS if is_ours(label) else THEIRS
        weight = "bold" if is_ours(label) else "normal"
        median = statistics.median(rounds)
        out.append(f'<text x="{LABELS - 14}" y="{y + 4:.1f}" fill="#263238" '
                   f'font-weight="{weight}" text-anchor="end">'
                   f'{escape(label)}</text>')
        out.append(f'<path d="M{x(min(rounds)):.1f} {y}H{x(max(rounds)):.1f}" '
                   f'stroke="{color}" opacity="0.4"/>')
        out += [f'<circle cx="{x(value):.1f}" cy="{y}" r="3.5" fill="{color}" '
                'opacity="0.45"/>' for value in rounds]
        out.append(f'<path d="M{x(median):.1f} {y - 8}v16" stroke="{color}" '
                   'stroke-width="3"/>')
        out.append(f'<text x="{WIDTH - 12}" y="{y + 4:.1f}" fill="#263238" '
                   f'text-anchor="end">{seconds_text(median)}</text>')
    return "\n".join([*out, "</svg>", ""])


def tick_text(power: int) -> str:
    value = 10.0 ** power
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 0.999:
            return f"{round(value * scale)} {unit}"
    return f"1e{power} s"


def results(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def peers(name: str, operation: str) -> list[Row]:
    return [(who, rounds[operation])
            for who, rounds in results(name)["seconds"].items()
            if rounds.get(operation) and not who.startswith("raw bytes")]


def async_rows(tree: str) -> list[Row]:
    return [(who, [each[0] for each in rounds])
            for who, rounds in results("async_saves")[tree].items()
            if who != "parallel memcpy"]


def remote_rows(name: str, operation: str) -> list[Row]:
    return [(f"{each['by']}, {each['latency']} ms",
             [one["seconds"] for one in each["rounds"]])
            for each in results(name) if each["operation"] == operation]


def megatron_rows() -> list[Row]:
    return [(f"{each['by']}: {each['operation']}",
             [one["seconds"] for one in each["rounds"]])
            for each in results("megatron")]


def plots() -> dict[str, str]:
    made = {}
    trees = {"llm": "183 leaves, 1024 MiB", "small": "20000 leaves, 5 MiB",
             "wide": "1 leaf, 1024 MiB"}
    for tree, what in trees.items():
        for operation in ("save", "restore"):
            made[f"{tree}-{operation}"] = svg_of(f"{operation}: {what}",
                                                 peers(tree, operation))
    made["wide-slice"] = svg_of("a slice of an array of 1024 MiB",
                                peers("wide", "slice"))
    made["async-small"] = svg_of(
        "until an async save returns: 20000 numpy leaves",
        async_rows("small, numpy"))
    made["async-large"] = svg_of(
        "until an async save returns: 512 MiB of numpy arrays",
        async_rows("large, numpy"))
    made["remote-save"] = svg_of(
        "save to S3 (Ceph), 183 leaves, 512 MiB, by added latency",
        remote_rows("remote-ceph-llm", "save"))
    made["megatron"] = svg_of("Megatron's zarr, 1024 MiB, 64 arrays",
                              megatron_rows())
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, svg in plots().items():
        path = PLOTS / f"{name}.svg"
        if path.exists() and path.read_text() == svg:
            continue
        stale.append(path.name)
        if not check:
            path.write_text(svg)
    if check and stale:
        print(f"doc/plots: stale: {', '.join(stale)}: run "
              "tools/plot_results.py")
        return 1
    print(f"doc/plots: {len(plots())} plots, {len(stale)} "
          + ("stale" if check else "written"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
