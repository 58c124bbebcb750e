"""Layouts, models and the default group of the torch.distributed ranks.

The first arguments of each program that imports this are RANK SIZE PORT.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard

RANK, SIZE, PORT = map(int, sys.argv[1:4])

SHAPES = {"even": (8, 12), "uneven": (5, 7), "tall": (13, 2), "thin": (3,)}
MODELS = ["fsdp", "tp", "both"]


def layouts() -> dict[str, Any]:
    """Returns {name: (mesh of all ranks, placements)}."""
    line = init_device_mesh("cpu", (SIZE,))
    square = init_device_mesh("cpu", (2, SIZE // 2))
    return {
        "fsdp": (line, [Shard(0)]),
        "tp": (line, [Shard(-1)]),
        "replicated": (line, [Replicate()]),
        "hsdp": (square, [Replicate(), Shard(0)]),
        "2d": (square, [Shard(0), Shard(-1)]),
        "twice": (square, [Shard(0), Shard(0)]),
    }


def fitting(name: str, placements: list[Any]) -> list[Any]:
    """Returns the placements, changed to axes that the tensor `name` has."""
    rank = len(SHAPES[name])
    return [
        Shard(p.dim % rank) if isinstance(p, Shard) else p for p in placements
    ]


def model_of(kind: str, seed: int) -> Any:
    """Returns a model with FSDP2, tensor parallelism, or both."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Linear(12, 7))
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
    if kind == "fsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (SIZE,)))
    elif kind == "tp":
        parallelize_module(model, init_device_mesh("cpu", (SIZE,)), plan)
    else:
        mesh = init_device_mesh(
            "cpu", (2, SIZE // 2), mesh_dim_names=("dp", "tp")
        )
        parallelize_module(model, mesh["tp"], plan)
        fully_shard(model, mesh=mesh["dp"])
    return model


@contextmanager
def in_group() -> Iterator[None]:
    """Makes the group of all ranks, and destroys it at the end."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{PORT}",
        rank=RANK,
        world_size=SIZE,
    )
    yield
    dist.destroy_process_group()


def leave() -> None:
    """Ends the process at once, because gloo's connections are broken."""
    sys.stdout.flush()
    os._exit(0)


def leave_together(ranks: set[int]) -> None:
    """Ends the process at once; rank 0, which has torch's store, ends last."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"done {RANK}", "")
    if RANK == 0:
        store.wait([f"done {rank}" for rank in ranks - {0}])
    leave()
