"""One rank of torch.distributed, which test_torch_state.py runs.

usage: torch_state_ranks.py RANK SIZE PORT SCENARIO FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import holdfast.torch as ht

RANK, SIZE, PORT = map(int, sys.argv[1:4])


def make(seed: int, device: str = "cpu", hidden: int = 10) -> Any:
    torch.manual_seed(seed)
    with torch.device(device):
        model = torch.nn.Sequential(
            torch.nn.Linear(6, hidden), torch.nn.Linear(hidden, 6)
        )
    mesh = init_device_mesh("cpu", (SIZE,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def step(model: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    model(torch.ones(4, 6)).square().sum().backward()
    optimizer.step()


def whole(tensor: Any) -> Any:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def contents(model: Any, optimizer: Any) -> dict[str, Any]:
    """Returns the complete state of a model and its optimizer. All ranks must
    call it."""
    states = optimizer.state_dict()["state"]
    return {
        "model": {k: whole(v) for k, v in model.state_dict().items()},
        "moments": [whole(states[i]["exp_avg"]) for i in sorted(states)],
    }


def save(folder: Path) -> None:
    model = make(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        step(model, optimizer)
    ht.save(folder / "c", model=model, optimizer=optimizer, step=2)
    state = contents(model, optimizer)
    if RANK == 0:
        torch.save(state, folder / "whole.pt")


def restore(folder: Path) -> None:
    want = torch.load(folder / "whole.pt", weights_only=True)
    model = make(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    rest = ht.restore(folder / "c", model=model, optimizer=optimizer)
    assert rest == {"step": 2}
    got = contents(model, optimizer)
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    moment = next(iter(optimizer.state.values()))["exp_avg"]
    assert isinstance(moment, DTensor)
    step(model, optimizer)
    # Large models are first made on the meta device.
    empty = make(2, device="meta")
    ht.restore(folder / "c", model=empty)
    for name, value in empty.state_dict().items():
        assert isinstance(value, DTensor) and not value.is_meta
        torch.testing.assert_close(whole(value), want["model"][name])
    made = torch.optim.AdamW(empty.parameters(), lr=0.1)
    ht.restore(folder / "c", optimizer=made)
    step(empty, made)
    for a, b in zip(model.parameters(), empty.parameters(), strict=True):
        torch.testing.assert_close(whole(a), whole(b))


def mismatch(folder: Path) -> None:
    try:
        ht.restore(folder / "c", model=make(0, hidden=8))
    except ValueError as error:
        assert "model.0.weight ((10, 6) in the checkpoint" in str(error)
        assert "model.1.weight" in str(error)
    else:
        raise AssertionError("it was restored")


def main() -> None:
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(PORT)
    dist.init_process_group("gloo", rank=RANK, world_size=SIZE)
    {"save": save, "restore": restore, "mismatch": mismatch}[sys.argv[4]](
        Path(sys.argv[5])
    )
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads sometimes abort a process that ends by itself


if __name__ == "__main__":
    main()
