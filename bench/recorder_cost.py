#!/usr/bin/env python3
"""Measures the recorder's share of the instructions of a save and a load.

usage: bench/recorder_cost.py BUILD_DIRECTORY

Runs holdfast_driver under callgrind: a tree of 2,000 leaves of 4 KiB and 4 of
8 MiB, saved and loaded with one thread. Counts the functions of
src/ground/record/ and everything they call.
"""

import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

SMALL = 2000
LARGE = 4
FUNCTIONS = re.compile(
    r"holdfast::(PhaseScope::~?PhaseScope|CallRecord::(CallRecord|End|AddDone|"
    r"StartPhase|Publish\(|SetRank|OfThread)|OnCall::~?OnCall|"
    r"MeetScope::~?MeetScope|BeginCallRecord)")


def write_tree(folder):
    """Writes float32 leaves of a normal distribution, like weights."""
    numbers = random.Random(0)
    block = struct.pack(
        "<1048576f", *(numbers.gauss(0, 0.02) for _ in range(1 << 20)))
    data, lines = bytearray(), []
    for i in range(SMALL):
        lines.append(f"layer{i // 10}.w{i % 10} float32 {len(data)} 32 32")
        start = i * 1024 % (len(block) - 4096)
        data += block[start:start + 4096]
    for i in range(LARGE):
        lines.append(f"big{i} float32 {len(data)} 2048 1024")
        data += block + block
    (folder / "t.lines").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "t.data").write_bytes(data)


def counted(driver, folder, requests):
    out = folder / "callgrind.out"
    subprocess.run(
        ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}",
         driver], input="\n".join(requests) + "\n", encoding="utf-8",
        stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE, check=True)
    text = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", out],
        stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    total = recorder = 0
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+)\s*\(\s*[\d.]+%\)\s+(.*)", line)
        if not found:
            continue
        count = int(found[1].replace(",", ""))
        if "PROGRAM TOTALS" in found[2]:
            total = count
        elif FUNCTIONS.search(found[2]) and "InCall" not in found[2]:
            recorder += count
    return total, recorder


def main():
    driver = pathlib.Path(sys.argv[1]) / "bench" / "holdfast_driver"
    print("| | instructions | the recorder's | of all |")
    print("|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_tree(folder)
        tree = f"tree {folder}/t.lines {folder}/t.data"
        base, _ = counted(driver, folder, [tree])
        for what, requests in (
                ("save", [tree, f"save {folder}/c threads=1"]),
                ("load", [f"load {folder}/c threads=1"])):
            total, recorder = counted(driver, folder, requests)
            if what == "save":
                total -= base
            print(f"| {what} | {total:,} | {recorder:,} |"
                  f" {100 * recorder / total:.2f} % |")


if __name__ == "__main__":
    main()
