"""One rank of torch.distributed, which test_torch_dcp_ranks.py runs.

usage: torch_dcp_ranks.py RANK SIZE PORT SCENARIO FOLDER
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.state_dict import (
    get_state_dict,
    set_state_dict,
)
from torch.distributed.tensor import DTensor, distribute_tensor
from torch_world import (
    MODELS,
    RANK,
    SHAPES,
    SIZE,
    fitting,
    in_group,
    layouts,
    leave,
    model_of,
)

import holdfast
from holdfast import _engine, errors
from holdfast.torch import StorageReader, StorageWriter

DTYPES = {
    "even": torch.float32,
    "uneven": torch.bfloat16,
    "tall": torch.int64,
    "thin": torch.float8_e4m3fn,
}


def values(name: str) -> Any:
    """Returns the complete values of the tensor `name`."""
    shape = SHAPES[name]
    count = torch.Size(shape).numel()
    base = torch.arange(count).reshape(shape)
    return base.to(torch.float32).to(DTYPES[name])


def on(name: str, layout: Any, value: Any) -> Any:
    mesh, placements = layout
    axes = fitting(name, placements)
    # gloo does not scatter every dtype.
    wide = distribute_tensor(value.to(torch.float32), mesh, axes)
    return wide.to(value.dtype)


def state(layout: Any, *, empty: bool = False) -> dict[str, Any]:
    made = {
        "params": {
            name: on(
                name,
                layout,
                torch.zeros_like(values(name)) if empty else values(name),
            )
            for name in SHAPES
        },
        "plain": torch.zeros(3) if empty else torch.arange(3.0),
        "step": 0 if empty else 7,
        "groups": [{"lr": 0.0 if empty else 0.5, "betas": (0.9, 0.99)}],
        "note": "" if empty else "same on all",
        f"of_rank_{RANK}": torch.full((2,), 0.0 if empty else float(RANK)),
        f"object_{RANK}": None if empty else {1, RANK + 2},
    }
    return made


def local(tensor: Any) -> Any:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def check(got: dict[str, Any], layout: Any, what: str) -> None:
    wanted = state(layout)
    for name, tensor in got["params"].items():
        mine, theirs = local(tensor), local(wanted["params"][name])
        assert mine.dtype == theirs.dtype and torch.equal(
            mine.to(torch.float32), theirs.to(torch.float32)
        ), (what, name, RANK)
    assert torch.equal(got["plain"], wanted["plain"]), what
    for key in ("step", "groups", "note"):
        assert got[key] == wanted[key], (what, key, got[key])


def save_all(folder: Path) -> None:
    for name, layout in layouts().items():
        dcp.save(
            state(layout),
            storage_writer=StorageWriter(folder / "trees" / f"{SIZE}-{name}"),
        )
    dcp.save(
        state(layouts()["2d"]),
        storage_writer=StorageWriter(
            folder / "trees" / f"{SIZE}-files", ocdbt=False, zarr_format=3
        ),
    )


def load_all(folder: Path) -> None:
    for path in sorted((folder / "trees").iterdir()):
        saved_by = int(path.name.split("-")[0])
        for name in ("tp", "hsdp", "2d"):
            layout = layouts()[name]
            got = state(layout, empty=True)
            if saved_by <= RANK:
                del got[f"of_rank_{RANK}"], got[f"object_{RANK}"]
            dcp.load(got, storage_reader=StorageReader(path))
            check(got, layout, f"{path.name} as {name}")
            if RANK < saved_by:
                assert got[f"of_rank_{RANK}"].tolist() == [RANK, RANK]
                assert got[f"object_{RANK}"] == {1, RANK + 2}


def trained(kind: str, seed: int) -> tuple[Any, Any]:
    """Returns a model and its optimizer after a training step."""
    model = model_of(kind, seed)
    # A fused step does not support tensors on different meshes.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    torch.manual_seed(3)
    model(torch.randn(4, 6)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def whole(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: whole(value) for key, value in tree.items()}
    return tree.full_tensor() if isinstance(tree, DTensor) else tree


def flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def save_models(folder: Path) -> None:
    for kind in MODELS:
        model, optimizer = trained(kind, seed=1)
        parameters, moments = get_state_dict(model, optimizer)
        dcp.save(
            {"model": parameters, "optimizer": moments},
            storage_writer=StorageWriter(folder / f"{SIZE}-{kind}"),
        )


def load_models(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        saved = holdfast.load(path)
        for kind in MODELS:
            model, optimizer = trained(kind, seed=2)
            parameters, moments = get_state_dict(model, optimizer)
            tree = {"model": parameters, "optimizer": moments}
            dcp.load(tree, storage_reader=StorageReader(path))
            set_state_dict(
                model,
                optimizer,
                model_state_dict=tree["model"],
                optim_state_dict=tree["optimizer"],
            )
            parameters, moments = get_state_dict(model, optimizer)
            for name, value in flat(whole(parameters)):
                stored = torch.from_numpy(saved["model"][name])
                assert torch.equal(value, stored), (path, kind, name)
            for name, each in whole(moments["state"]).items():
                for part, value in each.items():
                    stored = saved["optimizer"]["state"][name][part]
                    assert torch.equal(value, torch.from_numpy(stored)), name


def save_async(folder: Path) -> None:
    """Saves asynchronously: later changes of the tensors have no effect."""
    layout = layouts()["fsdp"]
    tree = state(layout)
    response = dcp.async_save(
        tree, storage_writer=StorageWriter(folder / "async")
    )
    upload = getattr(response, "upload_completion", response)
    tree["plain"].zero_()
    for tensor in tree["params"].values():
        local(tensor).zero_()
    upload.result()
    got = state(layout, empty=True)
    dcp.load(got, storage_reader=StorageReader(folder / "async"))
    check(got, layout, "async")


def cached_plans(folder: Path) -> None:
    """Saves with a planner that sends only the plans that have changed."""
    parameters = inspect.signature(DefaultSavePlanner).parameters
    if "enable_plan_caching" not in parameters:
        return  # an older torch
    trees = [state(layouts()["fsdp"]) for _ in range(4)]
    trees[2]["plain"] += 1  # another value does not make another plan
    if RANK == 0:
        trees[3]["more"] = torch.ones(2)  # only this rank's plan changes
    writer = StorageWriter()
    for i, tree in enumerate(trees):
        path = folder / f"cached-{i}"
        dcp.save(
            tree,
            checkpoint_id=path,
            # The last save has another writer.
            storage_writer=writer if i < 3 else StorageWriter(),
            planner=DefaultSavePlanner(enable_plan_caching=True),
        )
        got = state(layouts()["tp"], empty=True)
        dcp.load(got, storage_reader=StorageReader(path))
        if i == 2:
            got["plain"] -= 1
        check(got, layouts()["tp"], path.name)
    if RANK == 0:
        more = {"more": torch.zeros(2)}
        dcp.load(
            more,
            storage_reader=StorageReader(folder / "cached-3"),
            no_dist=True,
        )
        assert more["more"].tolist() == [1, 1]


@contextmanager
def raising(kind: type[BaseException], *words: str) -> Iterator[None]:
    try:
        yield
    except CheckpointException as failure:
        found = [
            error
            for error, _ in failure.failures.values()
            if isinstance(error, kind)
        ]
        assert found, failure
        for word in words:
            assert word in str(found[0]), found[0]
        return
    raise AssertionError(f"rank {RANK}: nothing was raised, want {words}")


def faults(folder: Path) -> None:
    path = folder / "faults"
    layout = layouts()["fsdp"]
    dcp.save(state(layout), storage_writer=StorageWriter(path))
    dist.barrier()
    with raising(errors.AlreadyExistsError, str(path)):
        dcp.save(
            state(layout), storage_writer=StorageWriter(path, overwrite=False)
        )
    with raising(errors.FailedPreconditionError, "rank 1", "elsewhere"):
        own = path if RANK != 1 else folder / "elsewhere"
        dcp.save(
            state(layout), storage_writer=StorageWriter(own, overwrite=True)
        )
    writer = StorageWriter(path, overwrite=True)
    tree = state(layout)
    if RANK == SIZE - 1:
        tree["bad"] = torch.eye(3).to_sparse()
    with raising(errors.InvalidArgumentError, "'bad'", "sparse"):
        dcp.save(tree, storage_writer=writer)
    del tree
    dist.barrier()
    got = state(layout, empty=True)
    dcp.load(got, storage_reader=StorageReader(path))
    check(got, layout, "after a save that failed")
    # The same writer saves again, and removes what it had left.
    dcp.save(state(layout), storage_writer=writer)
    dist.barrier()
    if RANK == 0:
        assert [each.name for each in folder.iterdir()] == ["faults"]
    missing = state(layout, empty=True)
    missing["params"]["even"] = distribute_tensor(torch.zeros(4, 4), *layout)
    with raising(ValueError, "params.even"):
        dcp.load(missing, storage_reader=StorageReader(path))
    with raising(AssertionError, "nowhere"):
        dcp.load(got, storage_reader=StorageReader(folder / "nowhere"))


def damaged(folder: Path) -> None:
    """Loads a damaged checkpoint: each rank names what it could not read."""
    path = folder / "damaged"
    layout = layouts()["fsdp"]
    if RANK == 0:
        # Without compression, every byte of the file matters.
        holdfast.save(
            path, {"w": torch.ones(64, 64)}, group=None, compression=None
        )
        data = max(path.glob("**/d/*"), key=lambda each: each.stat().st_size)
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    dist.barrier()
    tree = {"w": distribute_tensor(torch.zeros(64, 64), *layout)}
    with raising(errors.DataLossError, "leaf w", "/d/"):
        dcp.load(tree, storage_reader=StorageReader(path))


def killed(folder: Path) -> None:
    """Overwrites a checkpoint; the last rank dies before it writes."""
    path = folder / "killed"
    layout = layouts()["fsdp"]
    dcp.save(state(layout), storage_writer=StorageWriter(path))
    dist.barrier()
    if RANK == SIZE - 1:

        def die(*args: Any, **options: Any) -> Any:
            os.kill(os.getpid(), signal.SIGKILL)

        _engine.save_item_part = die
    tree = {**state(layout), "step": 99}
    try:
        dcp.save(tree, storage_writer=StorageWriter(path, overwrite=True))
        raise SystemExit("the save has ended well")
    except (RuntimeError, CheckpointException):
        pass
    if RANK == 0:
        assert holdfast.load(path)["step"] == 7
        assert holdfast.verify(path)
        print("the older one is there")


SCENARIOS = {
    "save_all": [save_all],
    "load_all": [load_all],
    "save_and_load": [save_all, load_all],
    "models": [save_models, load_models],
    "others": [faults, damaged, save_async, cached_plans],
    "killed": [killed],
}


def main() -> None:
    warnings.simplefilter("ignore")
    scenario, folder = sys.argv[4:]
    with in_group():
        for part in SCENARIOS[scenario]:
            part(Path(folder))
            if scenario == "killed":
                leave()
            dist.barrier()


if __name__ == "__main__":
    main()
