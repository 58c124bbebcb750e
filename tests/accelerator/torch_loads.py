"""Loads of torch tensors into the memory of a CUDA device."""

from __future__ import annotations

import pathlib
import threading
from typing import Any

import torch
import torch_trees as trees
from checking import Context, check

import holdfast
import holdfast.torch
from holdfast import errors

COMPRESSIONS: tuple[Any, ...] = ("planes", "zstd", "fast", None)


def _saved(ctx: Context, **options: Any) -> tuple[pathlib.Path, Any]:
    """Saves tensors on the CPU; returns the path and the tree."""
    tree = {
        "layouts": trees.layouts("cpu"),
        "large": trees.large("cpu", ctx.pretend),
    }
    path = ctx.scratch / "saved"
    holdfast.save(path, tree, overwrite=True, **options)
    return path, tree


def _zeros(tree: Any, device: str) -> Any:
    if isinstance(tree, dict):
        return {key: _zeros(value, device) for key, value in tree.items()}
    return torch.zeros(tree.shape, dtype=tree.dtype, device=device)


@check()
def without_a_target(ctx: Context) -> None:
    """`load(path, arrays="torch", device=...)` of every dtype and layout."""
    for compression in COMPRESSIONS:
        path, tree = _saved(ctx, compression=compression)
        got = trees.load_on(path, ctx.device)
        trees.same_tensors(got, tree, ctx.device)


@check()
def into_a_target(ctx: Context) -> None:
    """A target of tensors on the device gives tensors there."""
    for compression in COMPRESSIONS:
        path, tree = _saved(ctx, compression=compression)
        got = holdfast.load(path, _zeros(tree, ctx.device))
        trees.same_tensors(got, tree, ctx.device)


@check()
def through_holdfast_torch(ctx: Context) -> None:
    """`holdfast.torch.load(path, device=...)`."""
    path, tree = _saved(ctx)
    try:
        got = holdfast.torch.load(path, device=ctx.device)  # type: ignore[call-arg]
    except TypeError as error:
        assert "device" not in str(error), (
            "not there: holdfast.torch.load has no argument `device`"
        )
        raise
    trees.same_tensors(got, tree, ctx.device)


@check()
def chunks_and_threads(ctx: Context) -> None:
    """Chunks of any size, with few threads and little memory."""
    for options in ({"chunk_bytes": 1 << 18}, {"chunk_bytes": 0}):
        path, tree = _saved(ctx, **options)
        for limits in ({"threads": 1}, {"memory_bytes": 16 << 20}, {}):
            got = trees.load_on(path, ctx.device, **limits)
            trees.same_tensors(got, tree, ctx.device)


@check()
def formats(ctx: Context) -> None:
    """zarr 2 and 3, with and without a database, and Orbax v1's layout."""
    for options in (
        {"zarr_format": 2, "ocdbt": False},
        {"zarr_format": 3, "ocdbt": False},
        {"zarr_format": 3},
        {"format": "orbax-v1"},
    ):
        path, tree = _saved(ctx, **options)
        got = trees.load_on(path, ctx.device)
        trees.same_tensors(got, tree, ctx.device)


@check()
def foreign_files(ctx: Context) -> None:
    """Files of torch.save, and of safetensors if it is installed."""
    tree = {f"x{i}": trees.elements(torch.bfloat16, (300, 200), i)
            for i in range(5)}  # fmt: skip
    paths = [ctx.scratch / "saved.pt"]
    torch.save(tree, paths[0])
    try:
        import safetensors.torch
    except ImportError:
        pass
    else:
        paths.append(ctx.scratch / "saved.safetensors")
        safetensors.torch.save_file(tree, paths[1])
    for path in paths:
        got = trees.load_on(path, ctx.device)
        trees.same_tensors(got, tree, ctx.device)


@check()
def parts_of_the_tree(ctx: Context) -> None:
    """`select` reads what it names; `cast=True` casts."""
    path, tree = _saved(ctx)
    got = trees.load_on(path, ctx.device, select="large.plain")
    trees.same_tensors(
        got, {"large": {"plain": tree["large"]["plain"]}}, ctx.device
    )
    want = tree["large"]["float32"].nan_to_num(0, 1, -1).clamp(-9, 9)
    holdfast.save(path, {"x": want}, overwrite=True)
    target = {"x": torch.zeros(want.shape, device=ctx.device).half()}
    got = holdfast.load(path, target, cast=True)
    trees.same_tensors(got, {"x": want.half()}, ctx.device)


@check()
def numbers_and_arrays_together(ctx: Context) -> None:
    """Leaves of other kinds stay what they are."""
    path = ctx.scratch / "c"
    w = trees.elements(torch.float32, (64, 64), 1)
    tree = {"w": w, "step": 3, "name": "x", "none": None, "list": [1.5, w]}
    holdfast.save(path, tree)
    target = {**tree, "w": torch.zeros(64, 64, device=ctx.device)}
    got = holdfast.load(path, target)
    trees.same_tensors({"w": got["w"]}, {"w": w}, ctx.device)
    assert (got["step"], got["name"], got["none"]) == (3, "x", None)
    assert got["list"][0] == 1.5 and got["list"][1].device.type == "cpu"


@check()
def planes_on_the_device(ctx: Context) -> None:
    """Byte planes are decoded on the device, once its kernels are compiled."""
    options = {"compression": "planes", "overwrite": True}
    w = trees.elements(torch.float32, (64, 64), 1)
    holdfast.save(ctx.scratch / "f", {"w": w}, fingerprints=True, **options)
    trees.load_on(ctx.scratch / "f", ctx.device, fingerprints=True)
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        shape = (1536, 4096 // dtype.itemsize)
        weights = torch.randn(*shape, dtype=torch.float64).mul(0.02).to(dtype)
        holdfast.save(ctx.scratch / "p", {"w": weights}, **options)
        got = trees.load_on(ctx.scratch / "p", ctx.device)
        trees.same_tensors(got, {"w": weights}, ctx.device)
        stats = holdfast.last_stats()
        assert stats is not None
        if not ctx.pretend:
            assert stats.device_decoded_bytes == stats.decoded_bytes, stats


@check()
def damaged_files(ctx: Context) -> None:
    """Damage is reported in the same words as on the CPU."""
    for options in (
        {"compression": None},
        {"compression": "planes"},
        {"compression": None, "ocdbt": False},
    ):
        path, tree = _saved(ctx, **options)
        trees.damage(path)
        want = trees.error_of(lambda path=path: holdfast.load(path))
        assert isinstance(want, errors.DataLossError), repr(want)
        for load in (
            lambda path=path: trees.load_on(path, ctx.device),
            lambda path=path, tree=tree: holdfast.load(
                path, _zeros(tree, ctx.device)
            ),
        ):
            got = trees.error_of(load)
            assert type(got) is type(want), repr(got)
            assert str(got) == str(want), f"{got} instead of {want}"


@check()
def unverified(ctx: Context) -> None:
    """`verify=False` loads the same."""
    path, tree = _saved(ctx, compression=None)
    got = trees.load_on(path, ctx.device, verify=False)
    trees.same_tensors(got, tree, ctx.device)


@check()
def unknown_device(ctx: Context) -> None:
    """A device that does not exist is refused in words."""
    path, _ = _saved(ctx)
    error = trees.error_of(lambda: trees.load_on(path, "cuda:99"))
    assert not isinstance(error, AssertionError), error
    assert "99" in str(error) or "cuda" in str(error).lower(), repr(error)


@check()
def used_at_once_on_any_stream(ctx: Context) -> None:
    """The values are there when the call returns, for work on any stream."""
    path, tree = _saved(ctx)
    want = tree["large"]["plain"].to(ctx.device).view(torch.int16).sum()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream(priority=-1)):
        got = trees.load_on(path, ctx.device)
        with torch.cuda.stream(stream):
            sums = got["large"]["plain"].view(torch.int16).sum()
        stream.synchronize()
        assert sums == want


@check()
def on_a_busy_stream(ctx: Context) -> None:
    """Memory that the program's queued work still uses is not filled early."""
    path, tree = _saved(ctx)
    plain = tree["large"]["plain"]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        before = torch.full(plain.shape, 1.0, device=ctx.device).bfloat16()
        torch.cuda._sleep(1_000_000_000)
        copy = before.clone()
        del before  # torch may now give its memory to the load
        got = trees.load_on(path, ctx.device)
    torch.cuda.synchronize()
    assert bool((copy == 1).all()), "the load has overwritten memory in use"
    trees.same_tensors(got, tree, ctx.device)


@check()
def from_fresh_threads(ctx: Context) -> None:
    """Three threads that never used CUDA load at once."""
    path, tree = _saved(ctx)
    results: list[Any] = []

    def load() -> None:
        try:
            results.append(trees.load_on(path, ctx.device))
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for got in results:
        assert not isinstance(got, BaseException), repr(got)
        trees.same_tensors(got, tree, ctx.device)


@check()
def saved_again(ctx: Context) -> None:
    """Tensors that were loaded are saved again, with the same digests."""
    path, _ = _saved(ctx)
    again = ctx.scratch / "again"
    holdfast.save(again, trees.load_on(path, ctx.device))
    assert holdfast.digest(again) == holdfast.digest(path)
