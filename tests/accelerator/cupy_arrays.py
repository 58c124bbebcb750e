"""Saves of cupy's arrays."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from checking import Context, check

import holdfast
from holdfast import errors


@check()
def layouts(ctx: Context) -> None:
    """Arrays of several dtypes and layouts are saved from the device."""
    tree: dict[str, Any] = {}
    for name in ("float32", "float16", "int8", "complex64", "bool", "int64"):
        base = cupy.arange(24 * 36).reshape(24, 36).astype(name)
        tree[name] = base
        tree[f"{name} transposed"] = base.T
        tree[f"{name} every second"] = base[::2, 1::3]
        tree[f"{name} scalar"] = base[3, 5]
    holdfast.save(ctx.scratch / "c", tree)
    got = holdfast.load(ctx.scratch / "c")
    for name, array in tree.items():
        want = cupy.asnumpy(array)
        assert got[name].dtype == want.dtype, name
        assert np.array_equal(got[name], want), name


@check()
def backwards(ctx: Context) -> None:
    """Negative strides are saved right, or refused in words."""
    base = cupy.arange(24 * 36).reshape(24, 36)
    want = cupy.asnumpy(base)[::-1, ::-1]
    try:
        holdfast.save(ctx.scratch / "c", {"x": base[::-1, ::-1]})
    except errors.InvalidArgumentError as error:
        assert "x" in str(error), error
    else:
        assert np.array_equal(holdfast.load(ctx.scratch / "c")["x"], want)


@check()
def streams(ctx: Context) -> None:
    """A save on a busy stream stores what the queued work writes."""
    x = cupy.zeros((4096, 4096), "float32")
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True):
        y = cupy.ones((4096, 4096), "float32")
        for _ in range(30):
            y = y @ y / 4096
        x.fill(7)
        holdfast.save(ctx.scratch / "c", {"x": x})
    got = holdfast.load(ctx.scratch / "c")["x"]
    assert (got.min(), got.max()) == (7, 7)
