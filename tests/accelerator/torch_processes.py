"""Processes whose CUDA is set up in an unusual way, one process for each."""

from __future__ import annotations

import os
import resource
from typing import Any

import torch
import torch_trees as trees
from checking import Context, check

import holdfast
from holdfast import errors


def _round_trip(ctx: Context, name: str) -> None:
    """Saves from the device and loads into it, also with copies."""
    tree = trees.large(ctx.device, ctx.pretend)
    path = ctx.scratch / name
    holdfast.save(path, tree)
    trees.same_tensors(holdfast.load(path, arrays="torch"), tree)
    for mode in ("device", "host"):
        holdfast.save(
            path, tree, overwrite=True, background=True, snapshot=mode
        ).result()
        trees.same_tensors(holdfast.load(path, arrays="torch"), tree)
    trees.same_tensors(trees.load_on(path, ctx.device), tree, ctx.device)


@check(env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
def expandable_segments(ctx: Context) -> None:
    """Memory that torch maps piece by piece, so that one tensor is in several
    of the driver's allocations."""
    grown = [torch.ones(30 << 18, device=ctx.device) for _ in range(4)]
    del grown
    _round_trip(ctx, "c")


@check(env={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})
def cuda_malloc_async(ctx: Context) -> None:
    """Memory of the driver's own pools, ordered by streams."""
    if not ctx.pretend:
        backend = torch.cuda.get_allocator_backend()
        assert backend == "cudaMallocAsync", backend
    _round_trip(ctx, "c")


@check(env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
def without_a_cache(ctx: Context) -> None:
    """Memory that is freed at once when a tensor goes."""
    _round_trip(ctx, "c")


@check(env={"CUDA_LAUNCH_BLOCKING": "1"})
def blocking_launches(ctx: Context) -> None:
    """Every launch waits for its kernel."""
    _round_trip(ctx, "c")


@check(env={"CUDA_VISIBLE_DEVICES": ""})
def no_visible_device(ctx: Context) -> None:
    """Without visible devices, arrays on the CPU are saved and loaded."""
    assert not torch.cuda.is_available()
    tree = trees.layouts("cpu")
    for background in (False, True):
        path = ctx.scratch / str(background)
        saved: Any = holdfast.save(path, tree, background=background)  # type: ignore[call-overload]
        if background:
            saved.result()
        trees.same_tensors(holdfast.load(path, arrays="torch"), tree)
    target = {"bool": {"one": torch.zeros(1, 1).bool()}}
    holdfast.load(
        path, {**tree, **{"bool": {**tree["bool"], **target["bool"]}}}
    )
    if not ctx.pretend:
        error = trees.error_of(lambda: trees.load_on(path, "cuda:0"))
        assert not isinstance(error, AssertionError), error


@check(env={"HOLDFAST_DEVICES": "0"})
def switched_off(ctx: Context) -> None:
    """With HOLDFAST_DEVICES=0, tensors on the device pass through the host."""
    _round_trip(ctx, "c")


@check(by_itself=True)
def little_pinned_memory(ctx: Context) -> None:
    """Where the system refuses page-locked memory, copies still work."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    _round_trip(ctx, "c")


@check(by_itself=True)
def during_a_capture(ctx: Context) -> None:
    """A save while a CUDA graph is captured is refused in words, the capture
    stays valid, and later saves work."""
    ctx.needs_gpu()
    tree = {"x": torch.ones(1000, device=ctx.device)}
    holdfast.save(ctx.scratch / "before", tree)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    failures: list[Exception] = []
    with torch.cuda.graph(graph):
        tree["x"].add_(1)
        failures.append(
            trees.error_of(lambda: holdfast.save(ctx.scratch / "c", tree))
        )
        tree["x"].add_(1)
    assert isinstance(failures[0], errors.FailedPreconditionError), failures
    assert "captured into a graph" in str(failures[0]), failures
    graph.replay()
    torch.cuda.synchronize()
    assert float(tree["x"][0]) == 3
    holdfast.save(ctx.scratch / "after", tree)
    got = holdfast.load(ctx.scratch / "after", arrays="torch")
    trees.same_tensors(got, tree)


@check(by_itself=True)
def while_another_thread_captures(ctx: Context) -> None:
    """A background save that runs while the program captures a graph is right,
    and does not break the capture."""
    ctx.needs_gpu()
    tree = trees.large(ctx.device, ctx.pretend)
    want = trees.on_host(tree)
    y = torch.zeros(1000, device=ctx.device)
    graph = torch.cuda.CUDAGraph()
    future = holdfast.save(
        ctx.scratch / "c", tree, background=True, snapshot="device"
    )
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(1000):
            y.add_(1)
    future.result()
    graph.replay()
    torch.cuda.synchronize()
    assert float(y[0]) == 1000
    trees.same_tensors(holdfast.load(ctx.scratch / "c", arrays="torch"), want)


def _in_forked_child(function: Any) -> str:
    """Returns the error of `function` in a forked process, or ""."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            function()
            text = ""
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


@check(by_itself=True)
def forked_after_cuda(ctx: Context) -> None:
    """A forked child cannot use the device, and says so; arrays on the CPU and
    the parent's saves work."""
    tree = {"x": torch.ones(100_000, device=ctx.device)}
    path = ctx.scratch
    holdfast.save(path / "before", tree)
    text = _in_forked_child(lambda: holdfast.save(path / "child", tree))
    if not ctx.pretend:
        assert "fork" in text, f"got {text!r}, want words about the fork"
    plain = {"x": torch.ones(100_000)}
    text = _in_forked_child(lambda: holdfast.save(path / "plain", plain))
    assert text == "", text
    trees.same_tensors(holdfast.load(path / "plain", arrays="torch"), plain)
    holdfast.save(path / "after", tree)
    trees.same_tensors(holdfast.load(path / "after", arrays="torch"), tree)


@check(by_itself=True)
def exit_during_a_background_save(ctx: Context) -> None:
    """A program that ends during a background save ends in peace, and what is
    at the path is complete or absent."""
    ctx.python(
        "import sys, torch_trees, holdfast\n"
        "tree = torch_trees.large(sys.argv[2], sys.argv[3] == 'True')\n"
        "holdfast.save(sys.argv[1], tree, background=True)\n",
        str(ctx.scratch / "c"),
        ctx.device,
        str(ctx.pretend),
    )
    if (ctx.scratch / "c").exists():
        tree = trees.large("cpu", ctx.pretend)
        got = holdfast.load(ctx.scratch / "c", arrays="torch")
        trees.same_tensors(got, tree)
