"""The events that listeners and loggers get, from Orbax and from holdfast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ours

jax = pytest.importorskip("jax")
orbax = pytest.importorskip("orbax.checkpoint")

pytestmark = pytest.mark.filterwarnings("ignore")

# Events that holdfast does not send.
NOT_TOLD = {
    # holdfast has no separate phases for metadata and for merging databases.
    "/jax/checkpoint/write/async/metadata_write_duration_secs",
    "/jax/checkpoint/write/async/ocdbt_merge_duration_secs",
    "/jax/orbax/write/background_meta_write_secs",
    "/jax/orbax/write/background_ocdbt_merge_secs",
    "/jax/orbax/write/merge_ocdbt_per_process_files_secs",
    # TensorStore's counters.
    *(
        f"/jax/orbax/{kind}/worker/io/{name}"
        for kind in ("read", "write")
        for name in (
            "compression_ratio",
            "raw/gbytes",
            "raw/throughput/gbytes_per_sec",
        )
    ),
    "/jax/orbax/write/sharded_array_gb",
    "/jax/orbax/write/replicated_array_gb",
    # Orbax's v1 handlers are built from other handlers.
    "/jax/orbax/array_handler/init",
}


@pytest.fixture
def heard() -> Iterator[list[tuple[str, str, Any]]]:
    """Returns a list that gets (kind, event, facts) for each event during the
    test."""
    notes: list[tuple[str, str, Any]] = []

    def note(kind: str) -> Callable[..., None]:
        def listen(event: str, *value: Any, **facts: Any) -> None:
            if event.startswith(("/jax/orbax", "/jax/checkpoint")):
                notes.append((kind, event, tuple(sorted(facts.items()))))

        return listen

    monitoring = jax.monitoring
    monitoring.register_event_listener(note("event"))
    monitoring.register_event_duration_secs_listener(note("duration"))
    monitoring.register_scalar_listener(note("scalar"))
    yield notes
    monitoring.clear_event_listeners()


def tree() -> dict[str, Any]:
    return {"a": jax.numpy.arange(8.0), "n": np.arange(3)}


def pytree(ocp: Any, root: Path) -> None:
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(root / "a", tree())
    checkpointer.restore(root / "a")


def standard(ocp: Any, root: Path) -> None:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(root / "a", tree())
        checkpointer.wait_until_finished()
        checkpointer.restore(root / "a", tree())


def manager(ocp: Any, root: Path) -> None:
    options = ocp.CheckpointManagerOptions(max_to_keep=1)
    with ocp.CheckpointManager(root / "a", options=options) as steps:
        for step in (1, 2):
            steps.save(step, args=ocp.args.StandardSave(tree()))
        steps.wait_until_finished()
        steps.restore(2, args=ocp.args.StandardRestore(tree()))


def manager_at_once(ocp: Any, root: Path) -> None:
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    args = ocp.args.Composite(
        x=ocp.args.StandardSave(tree()), j=ocp.args.JsonSave({})
    )
    with ocp.CheckpointManager(root / "a", options=options) as steps:
        steps.save(1, args=args)


def v1(ocp: Any, root: Path) -> None:
    ocp.v1.save(root / "a", tree())
    ocp.v1.load(root / "a")
    ocp.v1.save_async(root / "b", tree()).result()


PROGRAMS = [pytree, standard, manager, manager_at_once, v1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_is_told(program: Any, heard: Any, tmp_path: Path) -> None:
    (tmp_path / "orbax").mkdir()
    program(orbax, tmp_path / "orbax")
    want = {note for note in heard if note[1] not in NOT_TOLD}
    heard.clear()
    (tmp_path / "holdfast").mkdir()
    program(ours, tmp_path / "holdfast")
    assert {note for note in heard if note[1] not in NOT_TOLD} == want


def test_durations_are_those_of_the_save(tmp_path: Path) -> None:
    told: dict[str, float] = {}
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: told.update({event: duration})
    )
    jax.monitoring.register_scalar_listener(
        lambda event, value, **_: told.update({event: value})
    )
    try:
        pytree(ours, tmp_path)
    finally:
        jax.monitoring.clear_event_listeners()
    write = "/jax/orbax/write"
    blocking = told[f"{write}/blocking_duration_secs"]
    assert 0 < blocking <= told[f"{write}/total_duration_secs"] < 300
    assert told[f"{write}/gbytes"] == (8 * 4 + 3 * 8) / 2**30
    assert told["/jax/checkpoint/read/gbytes"] == (8 * 4 + 3 * 8) / 2**30
    began = told[f"{write}/start_time"] / 1000
    ended = told[f"{write}/blocking_end_time"] / 1000
    assert ended - began == pytest.approx(blocking, abs=1e-3)


class Notes:
    """Collects a logger's entries."""

    def __init__(self, ocp: Any) -> None:
        entries: list[dict[str, Any]] = []

        class Logger(ocp.logging.AbstractLogger):  # type: ignore[misc]
            def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
                entries.append(dict(msg))

        self.logger = ocp.logging.CompositeLogger(Logger(), object())
        self.entries = entries


@pytest.mark.parametrize("in_background", [True, False])
def test_loggers_hear_the_same(in_background: bool, tmp_path: Path) -> None:
    heard = []
    for ocp in (orbax, ours):
        notes = Notes(ocp)
        options = ocp.CheckpointManagerOptions(
            enable_async_checkpointing=in_background
        )
        root = tmp_path / ocp.__name__
        with ocp.CheckpointManager(
            root, options=options, logger=notes.logger
        ) as steps:
            for step in (1, 2):
                steps.save(step, args=ocp.args.StandardSave(tree()))
                steps.wait_until_finished()
            steps.restore(2, args=ocp.args.StandardRestore(tree()))
        heard.append(
            [
                {
                    name: type(value) if isinstance(value, float) else value
                    for name, value in entry.items()
                    if name != "directory"
                }
                for entry in notes.entries
            ]
        )
    assert heard[1] == heard[0]
    assert [entry["event_type"] for entry in heard[1]] == [
        "save",
        "save",
        "restore",
    ]


def test_the_cloud_logger() -> None:
    structs = []

    class Client:
        def logger(self, name: str) -> Any:
            self.name = name
            return self

        def log_struct(self, entry: Any, severity: str) -> None:
            structs.append((self.name, entry, severity))

    options = ours.logging.CloudLoggerOptions(job_name="job", client=Client())
    logger = ours.logging.CloudLogger(options)
    logger.log_entry({"a": 1})
    logger.log_entry({}, "CRITICAL")
    logger.log_entry({}, severity="odd")
    assert structs == [
        ("checkpoint_logger", {"a": 1, "job_name": "job"}, "INFO"),
        ("checkpoint_logger", {"job_name": "job"}, "CRITICAL"),
        ("checkpoint_logger", {"job_name": "job"}, "INFO"),
    ]


def test_the_cloud_logger_needs_its_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "google.cloud.logging", None)
    with pytest.raises(ImportError, match="needs google-cloud-logging"):
        ours.logging.CloudLogger()


def test_the_standard_logger_formats(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        ours.logging.StandardLogger().log_entry("%s of %d", "a", 3)
    assert caplog.records[-1].getMessage() == "a of 3"
