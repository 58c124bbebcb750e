"""Which part of a DTensor each rank holds and writes.

All ranks are in one process: with torch's fake process group, this process can
be any rank of a group of any size.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import _dtensor, _process_group, _spread, errors

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")
if not distributed.is_available():
    pytest.skip("torch without torch.distributed", allow_module_level=True)

from torch.distributed.device_mesh import DeviceMesh  # noqa: E402
from torch.distributed.tensor import (  # noqa: E402
    DTensor,
    Partial,
    Replicate,
    Shard,
)
from torch.distributed.tensor._utils import (  # noqa: E402
    compute_local_shape_and_global_offset,
)
from torch.distributed.tensor.placement_types import (  # noqa: E402
    _StridedShard,
)
from torch.testing._internal.distributed.fake_pg import (  # noqa: E402
    FakeStore,
)


@contextmanager
def being(rank: int, world_size: int) -> Iterator[None]:
    """Initializes torch.distributed as one rank, with collectives that do
    nothing."""
    distributed.init_process_group(
        "fake", rank=rank, world_size=world_size, store=FakeStore()
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()


def mesh_of(*shape: int, first: int = 0) -> Any:
    ranks = torch.arange(first, first + math.prod(shape)).reshape(shape)
    return DeviceMesh("cpu", ranks, _init_backend=False)


def empty_dtensor(shape: tuple[int, ...], mesh: Any, placements: Any) -> Any:
    """Returns a DTensor with a local tensor whose shape torch computes."""
    local_shape, _ = compute_local_shape_and_global_offset(
        shape, mesh, placements
    )
    whole = torch.empty(shape, device="meta")
    return DTensor.from_local(
        torch.empty(local_shape),
        mesh,
        placements,
        run_check=False,
        shape=whole.shape,
        stride=whole.stride(),
    )


def cut_by_torch(
    index: Any, mesh: Any, placements: Any, where: list[int]
) -> Any:
    """Returns the local tensor that torch's placements cut, axis by axis."""
    for mesh_axis, placement in enumerate(placements):
        if placement.is_replicate():
            continue
        pieces, _ = placement._split_tensor(
            index, mesh.size(mesh_axis), with_padding=False
        )
        index = pieces[where[mesh_axis]]
    return index


def random_case(draw: random.Random) -> tuple[Any, ...]:
    mesh_shape = draw.choice([(2,), (4,), (2, 2), (2, 3), (3, 2), (2, 2, 2)])
    rank = draw.randint(1, 3)
    shape = tuple(draw.choice([1, 2, 3, 5, 8, 12, 13]) for _ in range(rank))
    placements = []
    for axis in range(len(mesh_shape)):
        choice = draw.random()
        if choice < 0.25:
            placements.append(Replicate())
        elif choice < 0.4:
            later = math.prod(mesh_shape[axis + 1 :])
            placements.append(
                _StridedShard(draw.randrange(rank), split_factor=max(later, 2))
            )
        else:
            placements.append(Shard(draw.randrange(rank)))
    return mesh_shape, shape, tuple(placements)


@pytest.mark.parametrize("seed", range(60))
def test_layouts_are_what_torch_cuts(seed: int) -> None:
    mesh_shape, shape, placements = random_case(random.Random(seed))
    size = math.prod(mesh_shape)
    index = torch.arange(math.prod(shape)).reshape(shape)
    written = np.zeros(shape, int)
    for rank in range(size):
        with being(rank, size):
            mesh = mesh_of(*mesh_shape)
            tensor = empty_dtensor(shape, mesh, placements)
            layout = _dtensor.layout_of(tensor)
            where = mesh.get_coordinate()
            expected = cut_by_torch(index, mesh, placements, where).numpy()
            _, offset = compute_local_shape_and_global_offset(
                shape, mesh, placements
            )
        assert layout.local_shape == expected.shape
        local = np.full(layout.local_shape, -1)
        for part in layout.parts:
            box = tuple(
                slice(start, start + extent)
                for start, extent in zip(part.origin, part.shape, strict=True)
            )
            part.of(local)[...] = index.numpy()[box]
            written[box] += layout.is_writer
            # No chunk crosses a border between processes.
            for axis, (start, extent) in enumerate(
                zip(part.origin, part.shape, strict=True)
            ):
                step = layout.write_shape[axis]
                assert start % step == 0
                stop = start + extent
                assert stop % step == 0 or stop == shape[axis]
        np.testing.assert_array_equal(local, expected)
        if layout.parts:
            assert layout.parts[0].origin == offset
    assert (written == 1).all()  # exactly one rank writes each element


def test_even_cuts_are_written_as_they_are() -> None:
    with being(1, 4):
        tensor = empty_dtensor((8, 6), mesh_of(2, 2), (Shard(0), Shard(1)))
        layout = _dtensor.layout_of(tensor)
        assert layout.write_shape == (4, 3)
        assert [part.origin for part in layout.parts] == [(0, 3)]


def test_uneven_cuts_leave_the_last_ranks_less() -> None:
    shapes = []
    for rank in range(4):
        with being(rank, 4):
            tensor = empty_dtensor((5, 2), mesh_of(4), (Shard(0),))
            layout = _dtensor.layout_of(tensor)
            assert layout.write_shape == (2, 2)
            shapes.append(layout.local_shape)
    assert shapes == [(2, 2), (2, 2), (1, 2), (0, 2)]


def test_fsdp_over_tensor_parallel() -> None:
    origins = {}
    for rank in range(4):
        with being(rank, 4):
            placements = (_StridedShard(0, split_factor=2), Shard(0))
            tensor = empty_dtensor((8, 2), mesh_of(2, 2), placements)
            (part,) = _dtensor.layout_of(tensor).parts
            origins[rank] = part.origin[0]
    assert origins == {0: 0, 1: 4, 2: 2, 3: 6}


def test_the_lowest_replica_writes() -> None:
    writers = []
    for rank in range(4):
        with being(rank, 4):
            mesh = DeviceMesh(
                "cpu", torch.tensor([[3, 1], [0, 2]]), _init_backend=False
            )
            tensor = empty_dtensor((4,), mesh, (Replicate(), Shard(0)))
            if _dtensor.layout_of(tensor).is_writer:
                writers.append(rank)
    assert writers == [0, 1]


def test_a_rank_outside_of_the_mesh_has_nothing() -> None:
    with being(0, 4):
        mesh = mesh_of(2, first=2)
        tensor = empty_dtensor((4,), mesh, (Shard(0),))
        layout = _dtensor.layout_of(tensor)
        assert layout.parts == () and not layout.is_writer
        assert layout.write_shape == (2,)


def test_sums_that_are_yet_to_be_made_are_refused() -> None:
    with being(0, 2):
        tensor = DTensor.from_local(
            torch.ones(2), mesh_of(2), (Partial(),), run_check=False
        )
        with pytest.raises(
            errors.InvalidArgumentError, match=r"leaf 'p\.w'.*P.*redistribute"
        ):
            _dtensor.array_leaf(tensor, "p.w")


def test_other_local_tensors_than_the_placements_say_are_refused() -> None:
    with being(0, 2):
        tensor = DTensor.from_local(
            torch.ones(3, 2),
            mesh_of(2),
            (Shard(0),),
            run_check=False,
            shape=torch.Size((10, 2)),
            stride=(2, 1),
        )
        with pytest.raises(errors.InvalidArgumentError, match=r"\(5, 2\)"):
            _dtensor.array_leaf(tensor, "w")


def test_one_rank_alone_cannot_save_a_spread_tensor(ckpt: Path) -> None:
    with being(0, 2):
        tensor = empty_dtensor((4,), mesh_of(2), (Shard(0),))
        with pytest.raises(
            errors.InvalidArgumentError, match=r"'w'.*ranks \[0, 1\].*only"
        ):
            holdfast.save(ckpt, {"w": tensor}, group=None)


def test_plain_tensors_do_not_wait_for_other_ranks(ckpt: Path) -> None:
    with being(0, 2):
        holdfast.save(ckpt, {"w": torch.ones(3)})
    assert holdfast.load(ckpt)["w"].tolist() == [1, 1, 1]


def test_mesh_of_one_rank(ckpt: Path) -> None:
    with being(0, 1):
        mesh = mesh_of(1)
        value = torch.arange(6.0).reshape(3, 2)
        tensor = DTensor.from_local(value, mesh, (Shard(0),), run_check=False)
        holdfast.save(ckpt, {"w": tensor, "v": value})
        got = holdfast.load(ckpt, {"w": tensor, "v": value})
        assert isinstance(got["w"], DTensor)
        assert torch.equal(got["w"].to_local(), value)
    np.testing.assert_array_equal(holdfast.load(ckpt)["w"], value.numpy())


def test_targets_take_each_ranks_part(ckpt: Path) -> None:
    whole = torch.arange(30.0).reshape(5, 6)
    holdfast.save(ckpt, {"w": whole})
    for rank in range(4):
        with being(rank, 4):
            mesh = mesh_of(2, 2)
            for placements in itertools.product(
                [Shard(0), Shard(1), Replicate()], repeat=2
            ):
                target = empty_dtensor((5, 6), mesh, placements)
                got = holdfast.load(ckpt, {"w": target}, group=None)["w"]
                expected = cut_by_torch(
                    whole, mesh, placements, mesh.get_coordinate()
                )
                assert got.placements == placements
                assert got.shape == (5, 6) and got.stride() == (6, 1)
                assert torch.equal(got.to_local(), expected)
    with being(0, 2):
        wrong = empty_dtensor((5, 5), mesh_of(2), (Shard(0),))
        with pytest.raises(errors.InvalidArgumentError, match="shape"):
            holdfast.load(ckpt, {"w": wrong}, group=None)


def test_parameters_stay_parameters(ckpt: Path) -> None:
    holdfast.save(ckpt, {"w": torch.arange(4.0), "n": torch.arange(4.0)})
    with being(1, 2):
        target = {
            "w": torch.nn.Parameter(
                empty_dtensor((4,), mesh_of(2), (Shard(0),))
            ),
            "n": empty_dtensor((4,), mesh_of(2), (Shard(0),)),
        }
        got = holdfast.load(ckpt, target, group=None)
        assert isinstance(got["w"], torch.nn.Parameter)
        assert got["w"].requires_grad and not got["n"].requires_grad
        assert got["w"].to_local().tolist() == [2, 3]


def test_which_trees_are_spread() -> None:
    with being(0, 2):
        tensor = empty_dtensor((4,), mesh_of(2), (Shard(0),))
        tree: dict[str, Any] = {"a": [1, {"b": (tensor,)}], "c": np.ones(2)}
        assert _spread.has_spread(tree, "torch")
        assert not _spread.has_spread(tree, "jax")
        inside: list[Any] = [torch.ones(2)]
        inside.append(inside)
        assert not _spread.has_spread(inside, "torch")
        chosen = _process_group.chosen(
            "auto", takes_all_jax=True, has_spread=lambda kind: True
        )
        assert chosen is not None and chosen.name == "torch"
        assert chosen is holdfast.process_group("torch")
