"""One rank of torch.distributed, which test_torch_ranks.py runs.

usage: torch_ranks.py RANK SIZE PORT SCENARIO FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, distribute_tensor
from torch_world import (
    MODELS,
    RANK,
    SHAPES,
    SIZE,
    fitting,
    in_group,
    layouts,
    leave_together,
    model_of,
)

import holdfast
from holdfast import _process_group, errors

DTYPES = {
    "even": torch.float32,
    "uneven": torch.bfloat16,
    "tall": torch.int64,
    "thin": torch.float32,
}


def values(name: str) -> Any:
    """Returns the complete values of the tensor `name`."""
    shape = SHAPES[name]
    count = torch.Size(shape).numel()
    return torch.arange(count).reshape(shape).to(DTYPES[name])


def on(name: str, layout: tuple[Any, Any], whole: Any) -> Any:
    mesh, placements = layout
    axes = fitting(name, placements)
    return distribute_tensor(whole, mesh, axes, src_data_rank=None)


def spread_tree(layout: tuple[Any, Any], blank: bool = False) -> dict[str, Any]:
    """Returns DTensors in one layout, and leaves that only rank 0 writes."""
    tensors = {
        name: on(
            name,
            layout,
            torch.zeros_like(values(name)) if blank else values(name),
        )
        for name in SHAPES
    }
    own = 0 if blank else RANK
    return {
        "params": tensors,
        "plain": torch.full((3,), float(own)),
        "step": own,
        "note": "" if blank else f"rank {RANK}",
    }


def check(got: dict[str, Any], layout_name: str) -> None:
    for name in SHAPES:
        tensor = got["params"][name]
        assert isinstance(tensor, DTensor)
        full = tensor.full_tensor()
        assert full.dtype == DTYPES[name]
        assert torch.equal(full, values(name)), (layout_name, name)
    assert got["plain"].tolist() == [0, 0, 0]
    assert got["step"] == 0 and got["note"] == "rank 0"


def save_all(folder: Path) -> None:
    """Saves a checkpoint for each layout, and one for each kind of model."""
    for name, layout in layouts().items():
        path = folder / "trees" / f"{SIZE}-{name}"
        stats = holdfast.save(path, spread_tree(layout))
        assert stats.total_seconds > 0
    save_models(folder / "models")


def load_all(folder: Path) -> None:
    """Loads all checkpoints, whatever their number of ranks, in all layouts."""
    for path in sorted((folder / "trees").iterdir()):
        for name, layout in layouts().items():
            got = holdfast.load(path, spread_tree(layout, blank=True))
            check(got, f"{path.name} on {name}")
    load_models(folder / "models")


def save_and_load(folder: Path) -> None:
    save_all(folder)
    load_all(folder)
    background(folder / "background")
    formats(folder / "formats")
    alone(folder / f"alone-{SIZE}")


def background(path: Path) -> None:
    """Makes two background saves at once; checks snapshots, and progress on one
    rank."""
    tree = spread_tree(layouts()["fsdp"])
    said: list[str] = []

    def progress(phase: str, done: int, total: int) -> None:
        said.append(phase)

    futures = [
        holdfast.save(
            path.with_name(f"{path.name}-{SIZE}-{i}"),
            tree,
            background=True,
            progress=progress,
        )
        for i in range(2)
    ]
    for tensor in tree["params"].values():
        tensor.to_local().zero_()
    for future in futures:
        assert future.result(timeout=60).copied_bytes >= 0
    assert bool(said) == (RANK == 0), said
    blank = spread_tree(layouts()["tp"], blank=True)
    for i in range(2):
        got = holdfast.load(path.with_name(f"{path.name}-{SIZE}-{i}"), blank)
        check(got, "background")


def formats(folder: Path) -> None:
    tree = spread_tree(layouts()["2d"])
    blank = spread_tree(layouts()["fsdp"], blank=True)
    for i, options in enumerate(
        (
            {"format": "orbax-v1"},
            {"ocdbt": False},
            {"zarr_format": 3, "compression": None},
        )
    ):
        path = folder / f"{SIZE}-{i}"
        holdfast.save(path, tree, **options)  # type: ignore[call-overload]
        check(holdfast.load(path, blank), str(options))


def alone(folder: Path) -> None:
    """Saves plain tensors, and with subgroups: no other rank has to wait."""
    if RANK == 0:
        holdfast.save(folder / "rank0", {"w": torch.ones(3)})
        assert holdfast.load(folder / "rank0")["w"].tolist() == [1, 1, 1]
    half = dist.new_group(list(range(SIZE // 2, SIZE)))
    if SIZE // 2 <= RANK:
        tree = {"w": torch.full((2,), float(RANK))}
        holdfast.save(folder / "half", tree, group=half)
        assert holdfast.load(folder / "half")["w"][0] == SIZE // 2
    dist.barrier()


def whole_state(model: Any) -> dict[str, Any]:
    return {
        name: t.full_tensor() if isinstance(t, DTensor) else t
        for name, t in model.state_dict().items()
    }


def save_models(folder: Path) -> None:
    for kind in MODELS:
        state = dict(model_of(kind, seed=1).state_dict())
        placements = {
            type(placement).__name__
            for tensor in state.values()
            for placement in getattr(tensor, "placements", ())
        }
        # Makes sure that the model has the placements that the test is about.
        assert "Shard" in placements
        is_strided = kind == "both" and SIZE == 4
        assert ("_StridedShard" in placements) == is_strided
        holdfast.save(folder / f"{SIZE}-{kind}", state, group="torch")


def load_models(folder: Path) -> None:
    wanted = whole_state(model_of("fsdp", seed=1))
    for path in sorted(folder.iterdir()):
        for kind in MODELS:
            model = model_of(kind, seed=2)
            got = holdfast.load(path, dict(model.state_dict()))
            model.load_state_dict(got)
            for name, value in whole_state(model).items():
                assert torch.equal(value, wanted[name]), (path, kind, name)


@contextmanager
def raising(kind: type[BaseException], *words: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        text = str(error)
        for word in words:
            assert word in text, text
        return
    raise AssertionError(f"rank {RANK}: nothing was raised, want {words}")


def absent(folder: Path) -> None:
    """Saves while one rank is missing; the next save succeeds."""
    tree = spread_tree(layouts()["fsdp"])
    path = folder / "absent"
    if RANK != 1:
        with raising(errors.DeadlineExceededError, "rank 1 of", str(path)):
            holdfast.save(path, tree, timeout_seconds=1.0)
        assert not path.exists()
    dist.barrier()
    if RANK == 1:  # calls save when the others have given up
        with raising(errors.DeadlineExceededError, "rank 1"):
            holdfast.save(path, tree, timeout_seconds=1.0)
    dist.barrier()
    holdfast.save(path, tree)
    check(holdfast.load(path, spread_tree(layouts()["tp"], True)), "absent")


def different(folder: Path) -> None:
    """Saves different trees: all ranks get an error that names a rank."""
    path = folder / "different"
    odd = SIZE - 1

    def refused(kind: type[BaseException], change: Any, *words: str) -> None:
        tree = spread_tree(layouts()["fsdp"])
        if RANK == odd:
            change(tree)
        with raising(kind, *words):
            holdfast.save(path, tree, timeout_seconds=20)
        assert not path.exists()
        dist.barrier()

    refused(
        errors.HoldfastError, lambda tree: tree.update(more=1), f"rank {odd}"
    )
    refused(
        errors.HoldfastError,
        lambda tree: tree["params"].update(
            even=on("even", layouts()["fsdp"], values("even").double())
        ),
        f"rank {odd}",
        "params.even",
    )
    refused(
        errors.HoldfastError,
        lambda tree: tree["params"].update(
            even=on("even", layouts()["tp"], values("even"))
        ),
        "params.even",
    )
    refused(
        errors.InvalidArgumentError,
        lambda tree: tree.update(plain={1, 2}),
        "plain" if RANK == odd else f"rank {odd}",
    )
    holdfast.save(path, spread_tree(layouts()["fsdp"]))


def faults(folder: Path) -> None:
    absent(folder)
    different(folder)


def replicas(folder: Path) -> None:
    """Saves when one rank's copy differs by a bit: the error names the rank,
    and nothing is written."""
    odd = SIZE - 1
    for name in ("replicated", "hsdp"):
        tree = spread_tree(layouts()[name])
        own = {"params": tree["params"], "plain": torch.ones(3)}
        counts = holdfast.check_replicas(own)
        assert counts.compared_count == counts.replica_count, counts
        holdfast.save(
            folder / name, own, check_replicas=True, fingerprints=True
        )
        whole = {
            "params": {each: values(each) for each in SHAPES},
            "plain": torch.ones(3),
        }
        if RANK == 0:
            saved = holdfast.open(folder / name).fingerprints()
            assert saved == holdfast.fingerprint(whole)
        if RANK == odd:
            local = own["params"]["even"].to_local()
            local.view(torch.int32)[-1, -1] ^= 4
        with raising(
            errors.DataLossError, "replicas differ: tensor params.even",
            f"rank {odd}",
        ):
            holdfast.save(folder / "bad", own, check_replicas=True)
        assert not (folder / "bad").exists()
    # Plain tensors, as in DistributedDataParallel.
    state = {"w": torch.arange(5.0)}
    if RANK == odd:
        state["w"][2] += 1
    with raising(
        errors.DataLossError,
        f"replicas differ: tensor w: rank {odd} differs from ranks 0-2",
    ):
        holdfast.save(folder / "bad", state, check_replicas=True)
    assert not (folder / "bad").exists()


class DyingTransport:
    """Kills its process at its n-th message, in the middle of a save."""

    def __init__(self, inner: Any, sends_left: int) -> None:
        self._inner = inner
        self._sends_left = sends_left
        self.rank = inner.rank
        self.size = inner.size

    def send(self, to: int, topic: str, message: bytes) -> None:
        if self._sends_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._sends_left -= 1
        self._inner.send(to, topic, message)

    def receive(
        self, from_: int, topic: str, timeout_seconds: float
    ) -> bytes | None:
        got: bytes | None = self._inner.receive(from_, topic, timeout_seconds)
        return got


def killed(folder: Path, sends_left: str) -> None:
    """Overwrites a checkpoint; the last rank dies during the save."""
    path = folder / "killed"
    whole = holdfast.process_group("torch")
    assert whole is not None
    before = spread_tree(layouts()["fsdp"])
    holdfast.save(path, before, overwrite=True)
    transport: Any = whole.transport
    if RANK == SIZE - 1:
        transport = DyingTransport(transport, int(sends_left))
    after = {**before, "step": 99}
    group = _process_group.ProcessGroup(
        PrefixedTransport(transport), torch_ranks=range(SIZE)
    )
    with raising(
        errors.DeadlineExceededError, f"rank {SIZE - 1} of", str(path)
    ):
        holdfast.save(
            path, after, overwrite=True, group=group, timeout_seconds=2.0
        )
    if RANK == 0:
        assert holdfast.load(path)["step"] == 0
        assert holdfast.verify(path)
    print("others went on")
    leave_together(set(range(SIZE - 1)))


class PrefixedTransport:
    """Carries the messages of another group over the same store."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.rank = inner.rank
        self.size = inner.size

    def send(self, to: int, topic: str, message: bytes) -> None:
        self._inner.send(to, f"other/{topic}", message)

    def receive(
        self, from_: int, topic: str, timeout_seconds: float
    ) -> bytes | None:
        got: bytes | None = self._inner.receive(
            from_, f"other/{topic}", timeout_seconds
        )
        return got


SCENARIOS = {
    "save_and_load": save_and_load,
    "load_all": load_all,
    "save_all": save_all,
    "faults": faults,
    "killed": killed,
    "replicas": replicas,
}


def main() -> None:
    scenario, folder, *rest = sys.argv[4:]
    with in_group():
        SCENARIOS[scenario](Path(folder), *rest)  # type: ignore[operator]


if __name__ == "__main__":
    main()
