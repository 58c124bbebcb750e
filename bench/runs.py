"""Arguments, turns and results, shared by the programs in bench/."""

import argparse
import json
import os
import pathlib
import platform
import sys

import trees


def parser_of(about, rounds=5, *, has_tree=True):
    """Returns the parser of a program that runs in rounds. With `has_tree`, it
    also has the arguments for a tree."""
    parser = argparse.ArgumentParser(
        description=about.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    if has_tree:
        parser.add_argument("--tree", choices=sorted(trees.TREES),
                            default="llm")
        parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--dir", help="scratch folder, on the disk to test")
    parser.add_argument("--out", help="name of the files in bench/results/")
    return parser


def in_turns(items, rounds):
    """Yields (whether it counts, item) for each item in each round. The first
    round only warms up. Each round begins with a different item."""
    items = list(items)
    for number in range(rounds + 1):
        turn = number % len(items)
        for item in items[turn:] + items[:turn]:
            yield number > 0, item
        print(f"round {number} done", file=sys.stderr, flush=True)


def machine_facts(scratch):
    def first(path, key):
        try:
            for line in open(path, encoding="utf-8"):
                if line.startswith(key):
                    return line.split(":", 1)[1].strip()
        except OSError:
            pass
        return "unknown"

    memory = first("/proc/meminfo", "MemTotal").split()
    best = ("", "unknown")
    for line in open("/proc/mounts", encoding="utf-8"):
        _, mount, kind, *_ = line.split()
        inside = mount == "/" or f"{scratch}/".startswith(mount + "/")
        if inside and len(mount) > len(best[0]):
            best = (mount, kind)
    return {
        "cpu": first("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "ram_gib": (round(int(memory[0]) / 2**20, 1)
                    if memory[0].isdigit() else None),
        "file_system": best[1],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def machine_text(machine, with_python=True):
    """Returns a machine's facts as a line to put below a table."""
    python = f", Python {machine['python']}" if with_python else ""
    return (f"Machine: {machine['cores']} cores of {machine['cpu']}, "
            f"{machine['ram_gib']} GiB RAM, {machine['file_system']}{python}.")


def write_results(name, text, facts, indent=1):
    """Writes NAME.md and, unless `facts` is None, NAME.json to
    bench/results/."""
    results = pathlib.Path(__file__).resolve().parent / "results"
    (results / f"{name}.md").write_text(text, encoding="utf-8")
    if facts is not None:
        (results / f"{name}.json").write_text(
            json.dumps(facts, indent=indent) + "\n", encoding="utf-8")
