"""Saves and restores by real jax processes on this machine."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ml_dtypes")
pytest.importorskip("jax")

sys.path.insert(0, str(Path(__file__).parents[1]))

from process_jobs import Job, Outcome  # noqa: E402

HERE = Path(__file__).parent
APIS = ("standard", "pytree", "v1")
ALL_APIS = (*APIS, "v1 async")
F = "process_functions:"


@pytest.fixture(scope="module")
def two() -> Iterator[Job]:
    with Job(2, modules=HERE) as job:
        yield job


@pytest.fixture(scope="module")
def three() -> Iterator[Job]:
    with Job(3, modules=HERE) as job:
        yield job


def values(outcomes: dict[int, Outcome]) -> list[object]:
    for index, outcome in outcomes.items():
        assert not outcome.error, f"process {index}: {outcome.error}"
    return [outcome.value for outcome in outcomes.values()]


@pytest.mark.parametrize("api", ALL_APIS)
def test_save_and_restore(two: Job, ckpt: Path, api: str) -> None:
    two.run(F + "save", path=str(ckpt), api=api)
    item = ckpt / "state" if api.startswith("v1") else ckpt
    names = {path.name for path in item.iterdir()}
    assert {"ocdbt.process_0", "ocdbt.process_1", "_METADATA"} <= names
    assert not any(name.startswith("_HOLDFAST_PART") for name in names)
    assert sorted(os.listdir(item / "array_metadatas")) == [
        "process_0",
        "process_1",
    ]
    assert os.listdir(ckpt.parent) == [ckpt.name]
    for flip in (False, True):
        found = two.run(F + "restore", path=str(ckpt), api=api, flip=flip)
        assert found == [[], []]


@pytest.mark.parametrize("api", APIS)
def test_other_numbers_of_processes_restore(
    two: Job, three: Job, ckpt: Path, api: str
) -> None:
    # Four devices save; six devices restore, on a mesh of another shape.
    two.run(F + "save", path=str(ckpt), api=api)
    one_item = {"type": "pytree", "path": "", "leaves": []}
    recorded = json.dumps({"items": [one_item]})
    expected = ckpt.parent / "expected.json"
    expected.write_text(recorded)
    item = ckpt / "state" if api == "v1" else ckpt
    three.run(
        F + "restore_recorded",
        path=str(item),
        expected=str(expected),
    )


def test_training(two: Job, ckpt: Path) -> None:
    assert two.run(F + "train", path=str(ckpt)) == [[], []]
    assert sorted(os.listdir(ckpt)) == ["4", "metadata"]


def test_partial_saves(two: Job, ckpt: Path) -> None:
    assert two.run(F + "save_partially", path=str(ckpt)) == [[], []]
    assert os.listdir(ckpt.parent) == [ckpt.name]


WRONG = {
    "tree": "number of params|another tree",
    "name": "different params",
    "dtype": "another tree",
    "mesh": "another tree|more than one|nobody",
    "leaf": "object",
    "path": "Directory path mismatch in multi-process save",
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("api", ["pytree", "v1"])
def test_process_with_something_else(
    three: Job, ckpt: Path, what: str, api: str
) -> None:
    outcomes = three.call(
        F + "save_other", path=str(ckpt), what=what, api=api, timeout=60
    )
    for index, outcome in outcomes.items():
        assert outcome.error, f"process {index} has saved"
        assert re.search(WRONG[what], outcome.error), outcome.error
        assert outcome.seconds < 30
    if what == "leaf":
        assert "rank 2: " in outcomes[0].error
    elif what != "path":
        assert re.search("process_index=2|rank 2", outcomes[0].error)
        assert "rank 0: " in outcomes[1].error
    assert list(ckpt.parent.iterdir()) == []
    three.run(F + "save", path=str(ckpt), api=api)
    assert three.run(F + "restore", path=str(ckpt), api=api) == [[]] * 3


@pytest.mark.parametrize("api", ["pytree", "v1"])
def test_restore_that_fails_on_one_process(
    three: Job, ckpt: Path, api: str
) -> None:
    three.run(F + "save", path=str(ckpt), api=api)
    outcomes = three.call(F + "restore_other", path=str(ckpt), api=api)
    assert "Requested shape: (13, 6)" in outcomes[2].error
    for index in (0, 1):
        error = outcomes[index].error
        assert "rank 2: " in error
        assert "Requested shape: (13, 6)" in error
    assert three.run(F + "restore", path=str(ckpt), api=api) == [[]] * 3


@pytest.mark.parametrize("process", [0, 2])
@pytest.mark.parametrize("api", APIS)
def test_full_disk_of_one_process(
    three: Job, ckpt: Path, process: int, api: str
) -> None:
    outcomes = three.call(
        F + "save_on_full_disk", path=str(ckpt), process=process, api=api
    )
    for index, outcome in outcomes.items():
        assert "File too large" in outcome.error, outcome
        if index != process:
            assert f"rank {process}: " in outcome.error
            assert str(ckpt) in outcome.error
    assert list(ckpt.parent.iterdir()) == []
    three.run(F + "save", path=str(ckpt), api=api)
    assert three.run(F + "restore", path=str(ckpt), api=api) == [[]] * 3


@pytest.mark.parametrize("api", APIS)
def test_process_that_never_arrives(three: Job, ckpt: Path, api: str) -> None:
    outcomes = three.call(
        F + "save_soon", path=str(ckpt), seconds=4, api=api, only=[0, 1]
    )
    for outcome in outcomes.values():
        assert outcome.error.startswith("DeadlineExceededError"), outcome
        assert "rank 2 of 3 did not arrive within 4 s" in outcome.error
        assert str(ckpt) in outcome.error
    assert list(ckpt.parent.iterdir()) == []
    # Process 2 has left out a save, and takes part in the next save.
    path = str(ckpt.with_name("next"))
    three.run(F + "save", path=path, api=api)
    assert three.run(F + "restore", path=path, api=api) == [[]] * 3


def test_process_that_waits_elsewhere(three: Job) -> None:
    for outcome in three.call(F + "stay_away", seconds=30).values():
        assert outcome.error == (
            "FailedPreconditionError: the next place: /some/where: the ranks"
            " are in different phases: ranks 0, 1 at the next place; rank 2 at"
            " another place"
        )
        assert outcome.seconds < 20
    three.run(F + "meet_often", count=50)


def test_process_that_leaves_early_was_there(three: Job) -> None:
    outcomes = three.call(F + "leave_early", seconds=[4, 2, 0])
    for index in (0, 1):
        assert "rank 2 of 3 did not arrive within 4 s" in outcomes[index].error
    assert outcomes[2].error == ""


PLACES = {
    "pytree": [
        "Checkpointer:save_start",
        "create_tmp_directory:pre",
        "create_tmp_directory:post",
        "Checkpointer:save",
        "Checkpointer:finalize",
    ],
    "standard": [
        "Checkpointer:save_start",
        "next_awaitable_signal_operation_id:sync",
        "create_tmp_directory:sync_before_directory_creation",
        "add_to_awaitable_signals_contract",
        "async_write_complete.ckpt",
        "async_commit_complete.ckpt",
    ],
    "v1": [
        "next_awaitable_signal_operation_id:sync",
        "save_checkpointables_async:maybe_overwrite_existing:pre",
        "create_directory:post",
        "save_and_finalize_ID.state_commit_complete",
        "save_and_finalize_ID.state_finalize_complete",
        "save_checkpointables_async:finalize",
    ],
}


@pytest.mark.parametrize("api", APIS)
def test_places_have_the_names_of_orbax(two: Job, ckpt: Path, api: str) -> None:
    for found in two.run(F + "places", path=str(ckpt), api=api):
        names = [re.sub("_[0-9a-f]{32}", "_ID", name) for name in found]
        assert names == PLACES[api]


def test_barrier_of_the_caller(two: Job, ckpt: Path) -> None:
    wanted = [
        [f"_async_{what}_complete.{ckpt.name}", True]
        for what in ("write", "commit")
    ]
    found = two.run(F + "barriers_of_a_caller", path=str(ckpt))
    assert found == [wanted, wanted]


def test_host_local_arrays_are_refused(two: Job, ckpt: Path) -> None:
    outcomes = two.call(F + "save_host_local", path=str(ckpt))
    for outcome in outcomes.values():
        assert (
            "Cannot serialize host local jax.Array (ParamInfo=[name=local,"
            "value_typestr=jax.Array], jax.Array=[value=[0 1 2],shape=(3,)"
        ) in outcome.error


def test_every_process_its_own_directory(two: Job, ckpt: Path) -> None:
    found = two.run(F + "save_locally", path=str(ckpt))
    for index, names in enumerate(found):
        assert f"ocdbt.process_{index}" in names
        assert f"array_metadatas/process_{index}" in names
        assert f"ocdbt.process_{1 - index}" not in names
        assert {"_METADATA", "_sharding", "manifest.ocdbt"} <= set(names)


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("api", ["v0", "v1"])
def test_one_replica_reads_for_all(
    two: Job, ckpt: Path, api: str, limit: int | None
) -> None:
    two.run(F + "save", path=str(ckpt), api=api)
    found = two.run(
        F + "restore_one_replica", path=str(ckpt), api=api, limit=limit
    )
    assert found == [[], []]


def test_broadcasts_keep_every_bit(two: Job) -> None:
    assert two.run(F + "broadcast_every_dtype") == [[], []]


@pytest.mark.parametrize(
    ("case", "item"),
    [
        ("mp2_zarr2_ocdbt", "ckpt"),
        ("mp2_zarr3_dirs", "ckpt"),
        ("mp2_v1", "ckpt/state"),
        ("mp3_zarr2_ocdbt", "ckpt"),
        ("mp3_replica_separate_zarr3", "ckpt"),
        ("mp2_manager", "ckpt/4/state"),
    ],
)
def test_recorded_checkpoints_of_many_processes(
    two: Job, three: Job, corpus: Path, case: str, item: str
) -> None:
    for job in (two, three):
        found = job.run(
            F + "restore_recorded",
            path=str(corpus / case / item),
            expected=str(corpus / case / "expected.json"),
        )
        assert found == [[]] * job.processes


def test_manager_reads_in_many_processes(three: Job, corpus: Path) -> None:
    path = str(corpus / "mp2_manager/ckpt")
    assert three.run(F + "restore_from_manager", path=path) == [[]] * 3


@pytest.mark.parametrize(
    "what", ["save_twice", "save_several", "save_with_own_handler"]
)
def test_other_saves(two: Job, ckpt: Path, what: str) -> None:
    assert two.run(F + what, path=str(ckpt)) == [[], []]
    names = os.listdir(ckpt.parent)
    assert not any("tmp" in name for name in names)


def test_some_of_the_processes(three: Job, ckpt: Path) -> None:
    outcomes = three.call(
        F + "save_actively",
        path=str(ckpt),
        active=[1, 2],
        primary=2,
        only=[1, 2],
    )
    assert values(outcomes) == [[], []]
    names = set(os.listdir(ckpt))
    assert {"ocdbt.process_1", "ocdbt.process_2"} <= names
    assert "ocdbt.process_0" not in names
    outcomes = three.call(
        F + "save_actively",
        path=f"{ckpt}-2",
        active=[1, 2],
        primary=2,
        only=[0],
    )
    assert "current process: 0 was not present" in outcomes[0].error


def test_steps_are_listed_once(two: Job, tmp_path: Path) -> None:
    for step in (1, 20, 3):
        (tmp_path / str(step)).mkdir()
    found = two.run(F + "list_steps", path=str(tmp_path))
    assert found == [[[1, 3, 20], True], [[1, 3, 20], False]]


def test_names_of_multihost(two: Job) -> None:
    assert two.run(F + "who") == [
        [0, 2, True, False, 5, False],
        [1, 2, False, False, 5, False],
    ]


@pytest.mark.parametrize(
    ("api", "place"), [("pytree", PLACES["pytree"][3]), ("v1", PLACES["v1"][2])]
)
def test_death_of_a_process(ckpt: Path, api: str, place: str) -> None:
    earlier = ckpt.with_name("earlier")
    with Job(2, modules=HERE) as job:
        job.run(F + "save", path=str(earlier), api=api)
        with pytest.raises(AssertionError, match="has died|no answer"):
            job.call(
                F + "save_until",
                path=str(ckpt),
                place=place,
                api=api,
                timeout=60,
            )
    assert not ckpt.exists()
    with Job(2, modules=HERE) as job:
        assert job.run(F + "restore", path=str(earlier), api=api) == [[], []]
        job.run(F + "save", path=str(ckpt), api=api)
        assert job.run(F + "restore", path=str(ckpt), api=api) == [[], []]
    assert sorted(os.listdir(ckpt.parent)) == [ckpt.name, "earlier"]
