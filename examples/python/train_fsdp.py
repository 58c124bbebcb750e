"""A PyTorch training loop whose processes each hold a part of the model.

usage: train_fsdp.py FOLDER [--processes N] [--steps N] [--save-every N]

FSDP2 shards the parameters and the optimizer's state over the processes. Every
`--save-every` steps, all processes save together, each its own part. A new run
continues from the newest checkpoint, with any number of processes.

Rank 0 prints `step N loss X` for every step. A resumed run prints the same
losses as an uninterrupted run, except that sums may be added in another order.
"""

import argparse
import pathlib
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.checkpoint.state_dict import (
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import holdfast

BATCH = 64


def make_model(mesh):
    torch.manual_seed(0)  # all processes start with the same weights
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 33), torch.nn.Tanh(), torch.nn.Linear(33, 1))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def own_batch_of(step, rank, size):
    """Returns this process's share of the step's data."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 8, generator=generator)
    y = torch.sin(x.sum(dim=1, keepdim=True))
    share = BATCH // size
    return x[rank * share:][:share], y[rank * share:][:share]


def newest(folder):
    steps = [int(each.name) for each in folder.glob("*")
             if each.name.isdigit()]
    return folder / str(max(steps)) if steps else None


def state_of(model, optimizer, step):
    parameters, moments = get_state_dict(model, optimizer)
    return {"model": parameters, "optimizer": moments, "step": step}


def restore(path, model, optimizer):
    """Returns the step that was saved."""
    # The DTensors of the state determine which part each process reads.
    saved = holdfast.load(path, state_of(model, optimizer, 0))
    set_state_dict(model, optimizer, model_state_dict=saved["model"],
                   optim_state_dict=saved["optimizer"])
    return saved["step"]


def train(folder, steps, save_every):
    rank, size = dist.get_rank(), dist.get_world_size()
    model, optimizer = make_model(init_device_mesh("cpu", (size,)))
    first = 1
    if (path := newest(folder)) is not None:
        first = restore(path, model, optimizer) + 1
        if rank == 0:
            print(f"resumed from step {first - 1} with {size} processes")
    for step in range(first, steps + 1):
        x, y = own_batch_of(step, rank, size)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss := loss.detach())
        if rank == 0:
            print(f"step {step} loss {loss.item() / size:.9f}", flush=True)
        if step % save_every == 0:
            holdfast.save(folder / str(step), state_of(model, optimizer, step))
    dist.barrier()


def run_rank(rank, size, port, folder, steps, save_every):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}",
                            rank=rank, world_size=size)
    try:
        train(folder, steps, save_every)
    finally:
        dist.destroy_process_group()


def free_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=5)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.multiprocessing.spawn(
        run_rank, nprocs=args.processes,
        args=(args.processes, free_port(), args.folder, args.steps,
              args.save_every))


if __name__ == "__main__":
    main()
