#!/usr/bin/env python3
"""Times opening a model for serving, until torch tensors exist and are touched.

usage: serving.py [--mebibytes N] [--rounds N] [--dir SCRATCH] [--out NAME]

The model is 32 bf16 tensors, as one safetensors file and as a raw checkpoint in
Orbax's format. Each opening has its own process; the methods take turns, and
the page cache is warm. Imports are not timed. "open" ends when all tensors
exist, and "touch" when one byte of each page has been read. Prints how much the
process's memory has grown by then, and how much of it is private and not page
cache.

--out writes NAME.md and NAME.json to bench/results/.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import runs

WAYS = {
    "holdfast, mmap, safetensors":
        "holdfast.torch.load(model, mmap='require')",
    "holdfast, mmap, raw Orbax":
        "holdfast.torch.load(raw, mmap='require')",
    "holdfast, mmap and verify, raw Orbax":
        "holdfast.torch.load(raw, mmap='require', verify=True)",
    "safetensors, safe_open": "by_safe_open(model)",
    "safetensors, load_file": "safetensors.torch.load_file(model)",
    "holdfast, read, safetensors": "holdfast.torch.load(model)",
    "holdfast, read, raw Orbax": "holdfast.torch.load(raw)",
}

OPEN = """
import json, sys, time
import holdfast.torch, safetensors, safetensors.torch, torch
model, raw, way = sys.argv[1:]
def by_safe_open(path):
    with safetensors.safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}
def memory(kind):
    for line in open("/proc/self/status"):
        if line.startswith(kind):
            return int(line.split()[1]) / 1024
rss, own = memory("VmRSS"), memory("RssAnon")
start = time.perf_counter()
tensors = eval(way)
opened = time.perf_counter()
total = sum(int(t.view(torch.uint8).flatten()[::4096].sum())
            for t in tensors.values())
touched = time.perf_counter()
print(json.dumps({"open": opened - start, "touch": touched - opened,
                  "rss_mib": memory("VmRSS") - rss,
                  "own_mib": memory("RssAnon") - own, "total": total}))
"""


def write_models(scratch, mebibytes):
    import torch
    from safetensors.torch import save_file

    import holdfast

    rows = mebibytes * 2**20 // 32 // 8192
    torch.manual_seed(0)
    tensors = {f"w{i:02}": torch.randn(rows, 4096).bfloat16()
               for i in range(32)}
    save_file(tensors, scratch / "model.safetensors")
    holdfast.save(scratch / "raw", tensors, compression=None)
    return scratch / "model.safetensors", scratch / "raw"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir")
    parser.add_argument("--out")
    args = parser.parse_args()
    results = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(dir=args.dir) as scratch:
        model, raw = write_models(pathlib.Path(scratch), args.mebibytes)
        machine = runs.machine_facts(scratch)
        for number in range(args.rounds + 1):
            for way, call in WAYS.items():
                done = subprocess.run(
                    [sys.executable, "-c", OPEN, str(model), str(raw), call],
                    check=True, capture_output=True, text=True)
                if number > 0:
                    results[way].append(json.loads(done.stdout))
    assert len({r["total"] for rounds in results.values() for r in rounds}) == 1
    lines = [f"# Serving: {args.mebibytes} MiB of bf16", "",
             f"Medians of {args.rounds} rounds, each opening in its own "
             "process:", "",
             "| way | open, ms | touch, ms | memory, MiB | of its own, MiB |",
             "|---|--:|--:|--:|--:|"]
    for way, rounds in results.items():
        open_s, touch_s, rss, own = (
            statistics.median(r[key] for r in rounds)
            for key in ("open", "touch", "rss_mib", "own_mib"))
        lines.append(f"| {way} | {open_s * 1e3:.1f} | {touch_s * 1e3:.0f} |"
                     f" {rss:.0f} | {own:.0f} |")
    lines += ["", runs.machine_text(machine, with_python=False), "",
              f"    python3 bench/serving.py --mebibytes {args.mebibytes}"
              f" --rounds {args.rounds}"]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        runs.write_results(args.out, text,
                           {"machine": machine, "rounds": results})


if __name__ == "__main__":
    main()
