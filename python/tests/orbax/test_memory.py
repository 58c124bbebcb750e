"""Memory use of saves and restores with a byte budget smaller than the tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Saves or restores in a separate interpreter with only numpy. Prints the peak
# of resident bytes during the call.
_PROGRAM = """
import pathlib
import sys

import numpy as np

import holdfast.orbax as ocp

MB = 1 << 20
path, call, data = sys.argv[1:4]
use_ocdbt, use_zarr3 = (word == "True" for word in sys.argv[4:6])
budget_bytes = int(sys.argv[6])
# One leaf of twice the budget, and others of less.
LEAF_BYTES = {"large": 2 * budget_bytes, "a": budget_bytes // 2,
              "b": budget_bytes - 5 * 4096, "c": budget_bytes // 2 + 5 * 4096}
assert sum(LEAF_BYTES.values()) == 4 * budget_bytes


def leaf(name):
    count = LEAF_BYTES[name] // 4
    if data == "random":
        generator = np.random.default_rng(len(name) * ord(name[0]))
        values = np.empty(count, np.float32)
        # Made in place, a piece at a time.
        for start in range(0, count, MB):
            piece = values[start:start + MB]
            piece.view(np.uint8)[:] = np.frombuffer(
                generator.bytes(piece.nbytes), np.uint8)
        return values.reshape(-1, 1024)
    values = np.arange(count, dtype=np.int32)
    values //= 7
    return values.reshape(-1, 1024)


def peak_bytes():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024


def reset_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")


handler = ocp.PyTreeCheckpointHandler(
    use_ocdbt=use_ocdbt, use_zarr3=use_zarr3,
    save_concurrent_gb=budget_bytes / 1e9,
    restore_concurrent_gb=budget_bytes / 1e9)
with ocp.Checkpointer(handler) as checkpointer:
    if call == "save":
        tree = {name: leaf(name) for name in LEAF_BYTES}
        reset_peak()
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
        print(peak_bytes())
    else:
        reset_peak()
        tree = checkpointer.restore(path)
        print(peak_bytes())
        for name in LEAF_BYTES:
            want = leaf(name)
            assert want.dtype == tree[name].dtype, name
            assert want.shape == tree[name].shape, name
            assert want.tobytes() == tree.pop(name).tobytes(), name
"""

_MB = 1 << 20
_BUDGET_BYTES = 64 * _MB
_TREE_BYTES = 4 * _BUDGET_BYTES
# Memory of the interpreter, numpy, and all that does not grow with the tree.
_OTHER_BYTES = 64 * _MB


@pytest.mark.parametrize("data", ["random", "counting"])
@pytest.mark.parametrize("use_zarr3", [False, True])
@pytest.mark.parametrize("use_ocdbt", [True, False])
def test_peak_stays_within_the_budget(
    tmp_path: Path,
    run_python: Callable[..., Any],
    use_ocdbt: bool,
    use_zarr3: bool,
    data: str,
) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the kernel does not keep peaks")
    peaks = {}
    for call in ("save", "restore"):
        done = run_python(
            _PROGRAM,
            tmp_path / "ckpt",
            call,
            data,
            use_ocdbt,
            use_zarr3,
            _BUDGET_BYTES,
        )
        peaks[call] = int(done.stdout)
    limit = _TREE_BYTES + _BUDGET_BYTES + _OTHER_BYTES
    over = {
        call: f"{peak / _MB:.0f} MiB, want at most {limit / _MB:.0f}"
        for call, peak in peaks.items()
        if peak > limit
    }
    assert over == {}
