"""One rank of torch.distributed, which test_tier_ranks.py runs.

usage: tier_ranks.py RANK SIZE PORT SCENARIO FOLDER
"""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch_world import RANK, SIZE, in_group, leave_together

import holdfast
from holdfast import errors

VICTIM = 2


def numbers(name: str, step: int, *shape: int) -> np.ndarray[Any, Any]:
    seed = step * 1000 + sum(map(ord, name))
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def state(step: int) -> dict[str, Any]:
    """Returns a state that is equal on all ranks, except for each rank's part
    of `spread`."""
    mesh = init_device_mesh("cpu", (SIZE,))
    spread = torch.from_numpy(numbers("spread", step, 19, 40))
    half = torch.from_numpy(numbers("half", step, 300, 50)).to(torch.bfloat16)
    return {
        "spread": distribute_tensor(spread, mesh, [Shard(0)]),
        "copied": distribute_tensor(
            torch.from_numpy(numbers("copied", step, 12)), mesh, [Replicate()]
        ),
        "half": half,
        "plain": numbers("plain", step, 500, 30),
        "step": step,
        "name": f"step {step}",
    }


def own_state(step: int) -> dict[str, Any]:
    """Returns a state that differs between ranks, as Megatron's do."""
    shape = (RANK + 2, 300)
    return {"w": torch.from_numpy(numbers("own", step, *shape)), "rank": RANK}


def own_files(step: int) -> dict[str, Any]:
    content = io.BytesIO()
    torch.save(own_state(step), content)
    return {f"ranks/{RANK}.pt": content.getbuffer()}


def check_own_file(tiers: Any, step: int) -> None:
    content = io.BytesIO(tiers.read_file(f"ranks/{RANK}.pt"))
    got, wanted = torch.load(content), own_state(step)
    assert torch.equal(got["w"], wanted["w"]) and got["rank"] == RANK


def check(got: dict[str, Any], step: int) -> None:
    """Checks that a restored state is that of `step`, bit for bit."""
    wanted = state(step)
    assert got.keys() == wanted.keys()
    for name in ("spread", "copied"):
        local, own = got[name].to_local(), wanted[name].to_local()
        assert got[name].placements == wanted[name].placements
        assert torch.equal(local.view(torch.int32), own.view(torch.int32))
    assert torch.equal(
        got["half"].view(torch.int16), wanted["half"].view(torch.int16)
    )
    assert got["plain"].tobytes() == wanted["plain"].tobytes()
    assert (got["step"], got["name"]) == (step, f"step {step}")


def manager(folder: Path, *, of_torch: bool = False, **more: Any) -> Any:
    kind: Any = holdfast.TieredManager
    if of_torch:
        kind = holdfast.torch.TieredManager
    return kind(
        holdfast.LocalTierOptions(folder / f"host{RANK}"),
        shared=holdfast.SharedTierOptions(folder / "shared", save_every=2),
        parity=holdfast.ParityOptions(
            data_shards=3, failure_domain=f"host{RANK}", block_bytes=4096
        ),
        chunk_bytes=4096,  # so that all ranks have a share
        host="127.0.0.1",
        listen_address="127.0.0.1",
        timeout_seconds=60,
        answer_seconds_max=20,
        **more,
    )


def save(folder: Path) -> None:
    """Saves steps 1 to 3; one rank dies during the save of step 4."""
    tiers = manager(folder)
    try:
        tiers.restore()
    except errors.NotFoundError as error:
        assert "no step can be restored" in str(error)
    for step in (1, 2, 3):
        tree = state(step)
        assert tiers.save(step, tree, files=own_files(step))
        # Overwrites the state, as the next training step does.
        tree["plain"] += 1
        tree["half"] += 1
        tree["spread"].to_local().add_(1)
    tiers.wait()
    newest = tiers.steps()[0]
    assert newest == holdfast.TierStep(3, newest.epoch, True, True, False)
    assert tiers.stats().data_bytes > 0 and tiers.stats().parity_bytes > 0
    tree = state(4)
    dist.barrier()
    if RANK == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    store = dist.distributed_c10d._get_default_store()
    if RANK == 3:
        # Rank 3 is late: the other ranks have given up already.
        store.wait(["failed 0", "failed 1"])
    assert tiers.save(4, tree)
    try:
        tiers.wait_protected()
    except (errors.UnavailableError, errors.DeadlineExceededError) as error:
        assert f"rank {VICTIM}" in str(error), error
    else:
        raise AssertionError("step 4 was protected without a rank")
    store.set(f"failed {RANK}", "")
    store.wait(["failed 3"])
    tiers.close()
    print("others went on", flush=True)
    leave_together({0, 1, 3})


def restore(folder: Path) -> None:
    """Restores; the lost rank has an empty directory."""
    with manager(folder) as tiers:
        check(tiers.restore(state(0)), 3)
        assert tiers.restored is not None
        assert tiers.restored.step == 3
        assert tiers.restored.source == "parity"
        assert tiers.restored.rebuilt_ranks == [VICTIM]
        check_own_file(tiers, 3)
        # The restore has written the lost files again.
        check(tiers.restore(state(0), 3), 3)
        assert tiers.restored.source == "local"


def fewer(folder: Path) -> None:
    """Restores on another number of ranks."""
    with manager(folder) as tiers:
        check(tiers.restore(state(0)), 3)
        assert tiers.restored is not None
        assert tiers.restored.source == "local"
        assert tiers.save(5, state(5))
        tiers.wait_protected()
        check(tiers.restore(state(0)), 5)


def faults(folder: Path) -> None:
    """Saves and restores with a value, on only one rank, that cannot be saved
    or does not fit."""
    with manager(folder) as tiers:
        assert tiers.save(1, state(1))
        tree: dict[str, Any] = state(3)
        if RANK == 1:
            tree["plain"] = object()
        try:
            begun = tiers.save(3, tree)
        except errors.InvalidArgumentError as error:
            assert RANK == 1 and "'plain'" in str(error)
        else:
            assert begun and RANK != 1
        try:
            tiers.save(4, state(4))
        except errors.InvalidArgumentError as error:
            assert "rank 1" in str(error) or RANK == 1, error
        else:
            raise AssertionError("the failure was lost")
        target = state(0)
        if RANK == 3:
            target["more"] = 0
        try:
            tiers.restore(target)
        except errors.InvalidArgumentError as error:
            assert "more" in str(error)
        else:
            raise AssertionError("a target that does not fit was taken")
        check(tiers.restore(state(0)), 1)
        assert tiers.save(6, state(6))
        tiers.wait()
        check(tiers.restore(state(0)), 6)


def replicas(folder: Path) -> None:
    """Saves when one rank's copy differs by a bit: the error names the rank,
    and nothing is saved."""
    with manager(folder, check_replicas=True, fingerprints=True) as tiers:
        assert tiers.save(1, state(1))
        tiers.wait()
        tree: dict[str, Any] = state(3)
        if RANK == 2:
            tree["plain"].view(np.uint8)[5] ^= 1
        try:
            tiers.save(3, tree)
        except errors.DataLossError as error:
            assert "tensor plain: rank 2 differs" in str(error), error
        else:
            raise AssertionError("a replica that differs was saved")
        if RANK == 1:
            tree["plain"] = object()
        try:
            tiers.save(4, tree)
        except errors.HoldfastError as error:
            assert "rank 1" in str(error) or RANK == 1, error
        else:
            raise AssertionError("a failure was lost")
        check(tiers.restore(state(0)), 1)
        assert tiers.save(6, state(6))
        tiers.wait()
        check(tiers.restore(state(0)), 6)


def training(folder: Path) -> None:
    """Restores models in place: a DDP model, which is complete on all ranks,
    and an FSDP2 model, which is sharded."""
    from torch.distributed.fsdp import fully_shard

    def make(is_spread: bool, seed: int) -> tuple[Any, Any]:
        torch.manual_seed(seed)
        model: Any = torch.nn.Sequential(
            torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
        )
        if is_spread:
            fully_shard(model)
        else:
            model = torch.nn.parallel.DistributedDataParallel(model)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def train(model: Any, optimizer: Any, step: int) -> None:
        torch.manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(4, 6)).square().sum().backward()
        optimizer.step()

    def weights(model: Any) -> list[Any]:
        return [
            (p.to_local() if is_spread else p).detach().clone()
            for p in model.parameters()
        ]

    for is_spread in (False, True):
        own = folder / f"spread{int(is_spread)}"
        model, optimizer = make(is_spread, 0)
        with manager(own, of_torch=True) as tiers:
            assert tiers.restore(model=model, optimizer=optimizer) == {}
            assert tiers.next_step == 0
            for step in range(3):
                train(model, optimizer, step)
                tiers.save(step, model=model, optimizer=optimizer, epoch=step)
        train(model, optimizer, 3)
        wanted = weights(model)
        model, optimizer = make(is_spread, 1)
        with manager(own, of_torch=True) as tiers:
            rest = tiers.restore(model=model, optimizer=optimizer, epoch=0)
            assert rest == {"epoch": 2} and tiers.next_step == 3
        train(model, optimizer, 3)
        for ours, theirs in zip(weights(model), wanted, strict=True):
            assert torch.equal(ours, theirs)


def main() -> None:
    with in_group():
        globals()[sys.argv[4]](Path(sys.argv[5]))
        dist.barrier()


if __name__ == "__main__":
    main()
