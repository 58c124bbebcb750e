"""Saves Grain's iterators in Orbax checkpoints, as Grain's guide does.

Grain's package has no tests of its checkpoint handler, so run_clients.py runs
these tests with Orbax and with holdfast.
"""

from __future__ import annotations

import json
import pathlib

import grain.python as grain
import numpy as np
import orbax.checkpoint as ocp
import pytest


def data_loader(seed: int) -> grain.DataLoader:
    source = grain.RangeDataSource(0, 40, 1)
    sampler = grain.IndexSampler(
        num_records=40,
        num_epochs=1,
        shard_options=grain.NoSharding(),
        shuffle=True,
        seed=seed,
    )
    return grain.DataLoader(data_source=source, sampler=sampler)


def dataset(seed: int) -> grain.IterDataset:
    numbers = grain.MapDataset.range(40).shuffle(seed)
    return numbers.map(lambda x: x * 3).batch(2).to_iter_dataset()


@pytest.mark.parametrize("make", [data_loader, dataset])
def test_an_iterator_goes_on(make, tmp_path: pathlib.Path) -> None:
    iterator = iter(make(5))
    for _ in range(7):
        next(iterator)
    with ocp.CheckpointManager(tmp_path) as manager:
        args = ocp.args.Composite(
            data=grain.PyGrainCheckpointSave(iterator),
            state=ocp.args.StandardSave({"w": np.arange(6.0)}),
        )
        assert manager.save(7, args=args)
        manager.wait_until_finished()
    rest = [np.asarray(each).tolist() for each in iterator]
    with ocp.CheckpointManager(tmp_path) as manager:
        fresh = iter(make(5))
        restored = manager.restore(
            manager.latest_step(),
            args=ocp.args.Composite(
                data=grain.PyGrainCheckpointRestore(fresh),
                state=ocp.args.StandardRestore(),
            ),
        )
    assert [np.asarray(each).tolist() for each in restored["data"]] == rest
    np.testing.assert_array_equal(restored["state"]["w"], np.arange(6.0))
    files = sorted(p.name for p in (tmp_path / "7" / "data").iterdir())
    assert files[-1] == "process_0-of-1.json"


def test_the_item_that_metadata_names(tmp_path: pathlib.Path) -> None:
    iterator = iter(dataset(1))
    with ocp.CheckpointManager(
        tmp_path, item_handlers={"data": grain.PyGrainCheckpointHandler()}
    ) as manager:
        args = ocp.args.Composite(data=grain.PyGrainCheckpointSave(iterator))
        manager.save(0, args=args)
    text = (tmp_path / "0" / "_CHECKPOINT_METADATA").read_text()
    (name,) = json.loads(text)["item_handlers"].values()
    assert name.endswith(".CheckpointHandler"), name


def test_without_the_file(tmp_path: pathlib.Path) -> None:
    iterator = iter(dataset(1))
    checkpointer = ocp.Checkpointer(grain.PyGrainCheckpointHandler())
    path = tmp_path / "a"
    checkpointer.save(path, args=grain.PyGrainCheckpointSave(iterator))
    (path / "process_0-of-1.json").unlink()
    with pytest.raises(ValueError, match="does not exist"):
        args = grain.PyGrainCheckpointRestore(iterator)
        checkpointer.restore(path, args=args)
