#!/usr/bin/env python3
"""Prints how many bytes resident memory rises during one save or restore.

usage: python_peak.py save|restore MODULE MODE TREE SCALE PATH

MODULE is holdfast (MODE: zstd, fast, none) or holdfast.orbax (MODE ignored).
This is a separate program because a process can measure a peak only if nothing
larger happened before.
"""

import gc
import pathlib
import sys

import trees


def status_bytes(key):
    for line in open("/proc/self/status", encoding="ascii"):
        if line.startswith(key + ":"):
            return int(line.split()[1]) << 10
    raise SystemExit(f"the kernel does not report {key}")


def calls(module, mode, path, tree):
    """Returns (save, restore) as functions without arguments."""
    if module == "holdfast":
        import holdfast
        compression = None if mode == "none" else mode
        return (lambda: holdfast.save(path, tree, compression=compression),
                lambda: holdfast.load(path))
    import holdfast.orbax as ocp
    checkpointer = ocp.PyTreeCheckpointer()
    return (lambda: checkpointer.save(path, tree),
            lambda: checkpointer.restore(path))


def main():
    operation, module, mode, tree_name, scale, path = sys.argv[1:]
    tree = None
    if operation == "save":
        tree = trees.nested(trees.TREES[tree_name](float(scale)))
    save, restore = calls(module, mode, pathlib.Path(path), tree)
    gc.collect()
    pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status_bytes("VmRSS")
    kept = save() if operation == "save" else restore()
    print(status_bytes("VmHWM") - before)
    del kept


if __name__ == "__main__":
    main()
