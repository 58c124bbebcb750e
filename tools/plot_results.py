#!/usr/bin/env python3
"""Draws the plots of doc/ from bench/results.

usage: plot_results.py [--check]

Writes doc/plots/*.svg. A row of times has a point for each round and a bar at
their median, on a logarithmic axis; a row of codecs has a mark for each codec.
--check writes nothing; exit status 1 when a plot differs from bench/results.
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
Row = tuple[str, list[float]]  # a label, and the seconds of each round

WIDTH, LABELS, VALUES, ROW, TOP = 760, 250, 80, 24, 44
OURS, THEIRS = "#00796b", "#78909c"
MARKS = {"planes": (OURS, "disc"), "fast": ("#66bb6a", "square"),
         "Orbax": (THEIRS, "disc"), "libzstd": (THEIRS, "disc"),
         "ZipNN": ("#ef6c00", "diamond"), "OpenZL": ("#8e24aa", "square")}
NAMES = {"Orbax": "Orbax (zstd 1)", "libzstd": "zstd 1"}  # in the legend


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
    """Returns the exponents of the powers of ten that enclose all values."""
    values = [value for _, rounds in rows for value in rounds]
    return (math.floor(math.log10(min(values))),
            math.ceil(math.log10(max(values))))


def head_of(title: str, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fafafa"/>',
        f'<text x="12" y="24" font-size="15" font-weight="bold" '
        f'fill="#263238">{escape(title)}</text>',
    ]


def svg_of(title: str, rows: list[Row]) -> str:
    first, last = axis_of(rows)
    height = TOP + ROW * len(rows) + 34

    def x(value: float) -> float:
        part = (math.log10(value) - first) / (last - first)
        return LABELS + part * (WIDTH - LABELS - VALUES)

    out = head_of(title, height)
    for power in range(first, last + 1):
        out += tick_at(x(10.0 ** power), tick_text(power), TOP, height)
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


def tick_at(at: float, text: str, top: int, height: int) -> list[str]:
    return [f'<path d="M{at:.1f} {top - 6}V{height - 28}" stroke="#cfd8dc"/>',
            f'<text x="{at:.1f}" y="{height - 10}" fill="#546e7a" '
            f'text-anchor="middle">{text}</text>']


def mark_of(kind: str, x: float, y: float) -> str:
    """Returns the SVG of one codec's mark."""
    if kind == "limit":
        return f'<path d="M{x:.1f} {y - 9}v18" stroke="#263238"/>'
    color, shape = MARKS[kind]
    drawn = {"disc": f'<circle cx="{x:.1f}" cy="{y}" r="5"',
             "square": f'<rect x="{x - 4:.1f}" y="{y - 4}" width="8" height="8"',
             "diamond": f'<path d="M{x - 6:.1f} {y}l6 -6 6 6 -6 6z"'}[shape]
    return f'{drawn} fill="{color}" opacity="0.85"/>'


def codecs_svg(title: str, rows: list[tuple[str, dict[str, float]]],
               step: float, first: float = 0.0) -> str:
    """Draws a row for each kind of array; the axis has a tick every `step`."""
    kinds = [kind for kind in ("limit", *MARKS) if kind in rows[0][1]]
    top = TOP + 26
    height = top + ROW * len(rows) + 34
    last = math.ceil(max(max(values.values()) for _, values in rows) / step)
    start = round(first / step)

    def x(value: float) -> float:
        part = (value / step - start) / (last - start)
        return 170 + part * (WIDTH - 170 - 30)

    out = head_of(title, height)
    for number, kind in enumerate(kinds):
        at = 20 + number * (WIDTH - 20) / len(kinds)
        out.append(mark_of(kind, at, 46))
        out.append(f'<text x="{at + 10:.1f}" y="50" fill="#263238">'
                   f'{escape(NAMES.get(kind, kind))}</text>')
    for number in range(start, last + 1):
        out += tick_at(x(number * step), f"{number * step:.3g}", top, height)
    for number, (label, values) in enumerate(rows):
        y = top + ROW * number + ROW / 2
        out.append(f'<text x="156" y="{y + 4:.1f}" fill="#263238" '
                   f'text-anchor="end">{escape(label)}</text>')
        out += [mark_of(kind, x(values[kind]), y) for kind in reversed(kinds)]
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


def codec_groups() -> list[Any]:
    """Returns the groups that are large enough to be timed."""
    return [group for group in results("codecs")["groups"]
            if group["raw_bytes"] >= 1 << 20]


def sizes_of_codecs() -> list[tuple[str, dict[str, float]]]:
    return [(group["name"],
             {codec: stored / group["raw_bytes"] for codec, stored in
              group["stored_bytes"].items()
              if codec in ("limit", *MARKS) and codec != "libzstd"})
            for group in codec_groups()]


def speeds_of_codecs(operation: str) -> list[tuple[str, dict[str, float]]]:
    return [(group["name"],
             {codec: statistics.median(rounds) for codec, rounds in
              group["gb_per_second"][operation].items() if codec in MARKS})
            for group in codec_groups()]


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
    made["codecs-size"] = codecs_svg(
        "stored over raw bytes (left is smaller)", sizes_of_codecs(), 0.1)
    for operation in ("encode", "decode"):
        made[f"codecs-{operation}"] = codecs_svg(
            f"{operation}: GB/s on one core (right is faster)",
            speeds_of_codecs(operation), 0.5)
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
