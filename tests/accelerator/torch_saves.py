"""Saves of torch tensors on a CUDA device."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch_trees as trees
from checking import Context, Skipped, check

import holdfast
from holdfast import _device_arrays, _engine, errors

COMPRESSIONS: tuple[Any, ...] = ("planes", "zstd", "fast", None)


@check()
def driver_is_usable(ctx: Context) -> None:
    """The engine reads the device's memory itself; no copy to the host is made
    first."""
    ctx.needs_gpu()
    assert _engine.device_problem() == "", _engine.device_problem()
    assert _device_arrays.can_describe(torch.ones(3, device=ctx.device))


@check()
def layouts(ctx: Context) -> None:
    """Every dtype in every layout has the same bits after a save and a load."""
    tree = trees.layouts(ctx.device)
    want = trees.on_host(tree)
    for compression in COMPRESSIONS:
        path = ctx.scratch / str(compression)
        holdfast.save(path, tree, compression=compression)
        trees.same_tensors(holdfast.load(path, arrays="torch"), want)
        assert holdfast.verify(path)


@check()
def files_are_those_of_the_host(ctx: Context) -> None:
    """The files have the same bytes as those of the same tensors on the CPU."""
    for name, tree in (
        ("layouts", trees.layouts(ctx.device)),
        ("large", trees.large(ctx.device, ctx.pretend)),
    ):
        want = trees.on_host(tree)
        for compression in COMPRESSIONS:
            for zarr_format in (2, 3):
                ways: Any = {
                    "ocdbt": False,
                    "compression": compression,
                    "zarr_format": zarr_format,
                    "overwrite": True,
                    "durable": False,
                }
                mine = ctx.scratch / f"{name}-device"
                other = ctx.scratch / f"{name}-host"
                holdfast.save(mine, tree, **ways)
                holdfast.save(other, want, **ways)
                trees.same_files(mine, other)


_SAVE_LAYOUTS = """
import sys, holdfast, torch_trees
holdfast.save(sys.argv[1], torch_trees.layouts(sys.argv[2]), ocdbt=False)
"""


@check()
def files_without_devices(ctx: Context) -> None:
    """With HOLDFAST_DEVICES=0 the files are the same."""
    mine, other = ctx.scratch / "on", ctx.scratch / "off"
    holdfast.save(mine, trees.layouts(ctx.device), ocdbt=False)
    ctx.python(_SAVE_LAYOUTS, str(other), ctx.device, HOLDFAST_DEVICES="0")
    trees.same_files(mine, other)
    assert holdfast.digest(mine) == holdfast.digest(other)


@check()
def large_tensors(ctx: Context) -> None:
    """Tensors of many chunks, also small ones, and with few threads."""
    tree = trees.large(ctx.device, ctx.pretend)
    want = trees.on_host(tree)
    for options in (
        {},
        {"chunk_bytes": 1 << 20},
        {"chunk_bytes": 0},
        {"threads": 1},
        {"memory_bytes": 32 << 20},
        {"format": "orbax-v1"},
    ):
        path = ctx.scratch / "c"
        holdfast.save(path, tree, overwrite=True, **options)  # type: ignore[call-overload]
        got = holdfast.load(path, arrays="torch")
        trees.same_tensors(got, want)


@check()
def many_small_tensors(ctx: Context) -> None:
    """5000 small tensors, with values of their own."""
    count = 50 if ctx.pretend else 5000
    base = torch.arange(count * 7, device=ctx.device).reshape(count, 7)
    tree = {f"x{i}": base[i] for i in range(count)}
    holdfast.save(ctx.scratch / "c", tree)
    got = holdfast.load(ctx.scratch / "c", arrays="torch")
    trees.same_tensors(got, tree)


@check()
def empty_tensors(ctx: Context) -> None:
    """An empty tensor is refused, or saved, as one on the CPU is."""
    messages = []
    for name, device in (("device", ctx.device), ("host", "cpu")):
        tree = {"x": torch.empty((0, 3), device=device)}
        try:
            holdfast.save(ctx.scratch / name, tree)
            messages.append(str(holdfast.load(ctx.scratch / name)))
        except errors.InvalidArgumentError as error:
            messages.append(str(error))
    assert messages[0] == messages[1], messages


@check()
def refused_tensors(ctx: Context) -> None:
    """Sparse tensors are refused with the leaf's name."""
    tree = {"leaf": torch.eye(3, device=ctx.device).to_sparse()}
    error = trees.error_of(lambda: holdfast.save(ctx.scratch / "c", tree))
    assert isinstance(error, errors.InvalidArgumentError), repr(error)
    assert "leaf" in str(error)


@check()
def pinned_and_host_tensors(ctx: Context) -> None:
    """Pinned, ordinary and device tensors are saved side by side."""
    base = trees.elements(torch.float32, (257, 129), 3)
    tree = {
        "pinned": base.clone().pin_memory(),
        "host": base,
        "device": base.to(ctx.device),
        "numpy": base.numpy(),
        "number": 3,
    }
    holdfast.save(ctx.scratch / "c", tree)
    got = holdfast.load(ctx.scratch / "c", tree)
    for name in ("pinned", "host", "device"):
        assert torch.equal(trees.bits(got[name]), trees.bits(base)), name
    assert trees.as_numpy_bits(got["numpy"]) == trees.as_numpy_bits(base)
    assert got["number"] == 3


@check()
def fingerprints_and_deltas(ctx: Context) -> None:
    """Fingerprints are those of the host; a delta stores what has changed."""
    tree = {"a": trees.elements(torch.float32, (512, 512), 4).to(ctx.device)}
    tree["b"] = tree["a"].clone()
    holdfast.save(ctx.scratch / "1", tree, fingerprints=True)
    got = holdfast.load(ctx.scratch / "1", arrays="torch", fingerprints=True)
    trees.same_tensors(got, tree)
    tree["b"][3] += 1
    holdfast.save(ctx.scratch / "2", tree, base=ctx.scratch / "1")
    got = holdfast.load(ctx.scratch / "2", arrays="torch")
    trees.same_tensors(got, tree)


@check()
def from_a_fresh_thread(ctx: Context) -> None:
    """A thread that never used CUDA saves, also several at once."""
    tree = trees.large(ctx.device, ctx.pretend)
    want = trees.on_host(tree)
    problems: list[BaseException] = []

    def save(index: int) -> None:
        try:
            holdfast.save(ctx.scratch / str(index), tree)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=save, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
    for i in range(3):
        got = holdfast.load(ctx.scratch / str(i), arrays="torch")
        trees.same_tensors(got, want)


@check()
def second_device(ctx: Context) -> None:
    """Tensors on the second device, and on both, are saved and restored."""
    if torch.cuda.device_count() < 2:
        raise Skipped("one device")
    tree = {
        f"x{i}": trees.elements(torch.bfloat16, (999, 777), i).to(f"cuda:{i}")
        for i in range(2)
    }
    holdfast.save(ctx.scratch / "c", tree)
    got = holdfast.load(ctx.scratch / "c", tree)
    trees.same_tensors(got, tree)
    for name, tensor in tree.items():
        assert got[name].device == tensor.device, name
    trees.same_tensors(
        trees.load_on(ctx.scratch / "c", "cuda:1"), tree, "cuda:1"
    )


_RANK = """
import os, sys
import torch, torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
import torch_trees as trees
import holdfast

path, kind = sys.argv[1:]
dist.init_process_group("gloo")
rank = dist.get_rank()
device = "cpu"
if kind == "cuda":
    device = f"cuda:{rank % torch.cuda.device_count()}"
    torch.cuda.set_device(device)
mesh = DeviceMesh(kind, [0, 1])
whole = trees.elements(torch.bfloat16, (640, 384), 5).to(device)

def spread(local, placement):
    return DTensor.from_local(local, mesh, [placement], run_check=False)

rows = 320 * rank
tree = {
    "rows": spread(whole[rows:rows + 320].clone(), Shard(0)),
    "columns": spread(whole[:, 192 * rank:192 * rank + 192].clone(), Shard(1)),
    "same": spread(whole.clone(), Replicate()),
}
holdfast.save(path, tree, check_replicas=True)
target = {
    name: spread(torch.zeros_like(x.to_local()), x.placements[0])
    for name, x in tree.items()
}
got = holdfast.load(path, target)
for name, x in tree.items():
    local = got[name].to_local()
    assert local.device == torch.device(device), (name, local.device)
    assert torch.equal(trees.bits(local), trees.bits(x.to_local())), name
if rank == 0:
    plain = holdfast.load(path, arrays="torch", group=None)
    trees.same_tensors(plain, {name: whole for name in tree})
dist.barrier()
dist.destroy_process_group()
"""


@check(seconds=120)
def dtensors_of_two_ranks(ctx: Context) -> None:
    """Two processes save and restore DTensors, on two devices if there are
    two."""
    import concurrent.futures
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kind = torch.device(ctx.device).type

    def run(rank: int) -> None:
        ctx.python(
            _RANK,
            str(ctx.scratch / "c"),
            kind,
            RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
        )

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))


@check()
def module_and_optimizer(ctx: Context) -> None:
    """`holdfast.torch.save` and `restore` of a model and its optimizer."""
    import holdfast.torch

    def parts() -> tuple[Any, Any]:
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)
        ).to(ctx.device)
        return model, torch.optim.AdamW(model.parameters())

    model, optimizer = parts()
    model(torch.randn(5, 64, device=ctx.device)).sum().backward()
    optimizer.step()
    path = ctx.scratch / "c"
    holdfast.torch.save(path, model=model, optimizer=optimizer, epoch=3)
    other, its_optimizer = parts()
    rest = holdfast.torch.restore(path, model=other, optimizer=its_optimizer)
    assert rest["epoch"] == 3
    trees.same_tensors(other.state_dict(), model.state_dict(), ctx.device)
    mine, its = (
        trees.flat(each.state_dict()["state"])
        for each in (optimizer, its_optimizer)
    )
    assert len(its) == 12
    trees.same_tensors(its, mine)


@check()
def torch_distributed_checkpoint(ctx: Context) -> None:
    """torch.distributed.checkpoint saves and loads through the package's
    storage."""
    import torch.distributed.checkpoint as dcp

    import holdfast.torch as storage

    state = trees.layouts(ctx.device)["bfloat16"]
    path = ctx.scratch / "c"
    dcp.save(dict(state), storage_writer=storage.StorageWriter(path))
    target = {
        name: torch.zeros(x.shape, dtype=x.dtype, device=x.device)
        for name, x in state.items()
    }
    dcp.load(target, storage_reader=storage.StorageReader(path))
    trees.same_tensors(target, state, ctx.device)
