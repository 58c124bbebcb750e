"""The drop-in and the engine's own API find the same steps."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
import holdfast.orbax as ocp
from holdfast import _engine, errors
from holdfast.orbax import options, v1
from holdfast.orbax.path import step as step_lib


def names_of(prefix: str | None, length: int | None, root: Path) -> list[str]:
    """Returns the names that the drop-in finds, and checks that the engine
    finds the same."""
    fmt = step_lib.standard_name_format(
        step_prefix=prefix, step_format_fixed_length=length
    )
    found = sorted(fmt.find_all(root), key=lambda m: m.step)
    rows = _engine.scan_steps(
        str(root),
        step_prefix=prefix,
        step_format_fixed_length=length,
        read_metadata=False,
    )
    assert [(m.step, m.path.name) for m in found] == [row[:2] for row in rows]
    for metadata in found:
        assert fmt.find_step(root, metadata.step) == metadata
    return [metadata.path.name for metadata in found]


@pytest.mark.parametrize("prefix", ["c++", "a.b", "(", "[x]", "^", "é"])
def test_a_prefix_is_plain_text(tmp_path: Path, prefix: str) -> None:
    for step in (3, 12):
        holdfast.save(tmp_path / f"{prefix}_{step}", {"w": np.arange(3)})
    for other in ("c_1", "ccc_1", "aXb_1", "x_1", "1", f"{prefix}_4x"):
        (tmp_path / other).mkdir()
    assert names_of(prefix, None, tmp_path) == [f"{prefix}_3", f"{prefix}_12"]
    chosen = ocp.CheckpointManagerOptions(step_prefix=prefix, read_only=True)
    assert ocp.CheckpointManager(tmp_path, options=chosen).all_steps() == [
        3,
        12,
    ]
    names = v1.path.step.standard_name_format(step_prefix=prefix)
    with v1.training.Checkpointer(tmp_path, step_name_format=names) as run:
        assert [c.step for c in run.checkpoints] == [3, 12]
    assert set(holdfast.steps(tmp_path)) >= {3, 12}


def test_leading_zeros_fill_up_to_the_length_alone(tmp_path: Path) -> None:
    for name in ("0", "7", "07", "0007", "12345", "01234", "-1", "7.0", "٧"):
        (tmp_path / name).mkdir()
    (tmp_path / "8").write_text("a file")
    (tmp_path / "9.orbax-checkpoint-tmp").mkdir()
    assert names_of(None, None, tmp_path) == ["0", "7", "12345"]
    assert names_of(None, 0, tmp_path) == ["0", "7", "12345"]
    assert names_of(None, 2, tmp_path) == ["07", "12345"]
    assert names_of(None, 4, tmp_path) == ["0007", "12345"]
    assert list(step_lib.standard_name_format().find_all("nowhere")) == []


@pytest.mark.parametrize("mode", list(options.AtomicityMode))
@pytest.mark.parametrize("allows_legacy", [False, True])
def test_what_counts_as_committed(
    tmp_path: Path, mode: options.AtomicityMode, allows_legacy: bool
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "commit_success.txt").touch()
    (tmp_path / "3.orbax-checkpoint-tmp").mkdir()
    chosen = options.AtomicityOptions(mode, allows_legacy)
    is_marked = mode is options.AtomicityMode.COMMIT_FILE and not allows_legacy
    fmt = step_lib.standard_name_format(atomicity_options=chosen)
    found = [metadata.step for metadata in fmt.find_all(tmp_path)]
    assert found == ([2] if is_marked else [1, 2])
    for step in (1, 2):
        final = step_lib.is_path_finalized(
            tmp_path / str(step), atomicity_options=chosen
        )
        assert final == (step in found)
    assert sorted(
        step_lib.tmp_checkpoints(tmp_path, atomicity_options=chosen)
    ) == sorted(
        (["1"] if is_marked else []) + ["3.orbax-checkpoint-tmp"]
    )


class Reversed(step_lib.NameFormat[step_lib.Metadata]):
    """A user's name format: the digits in reverse order, in a subdirectory."""

    def build_name(self, step: int) -> str:
        return "steps/" + str(step)[::-1]

    def find_all(self, base_path: Any) -> Iterator[step_lib.Metadata]:
        for path in (Path(base_path) / "steps").iterdir():
            yield step_lib.Metadata(step=int(path.name[::-1]), path=path)

    def find_step(self, base_path: Any, step: int) -> step_lib.Metadata:
        return step_lib.Metadata(
            step=step, path=Path(base_path) / self.build_name(step)
        )


def put_step(path: Path, seconds: int, metrics: str | None) -> None:
    """Makes a committed step with the metrics file `metrics`."""
    path.mkdir(parents=True)
    record = {"commit_timestamp_nsecs": seconds * 10**9}
    (path / "_CHECKPOINT_METADATA").write_text(json.dumps(record))
    if metrics is not None:
        (path / "metrics").mkdir()
        (path / "metrics" / "metrics").write_text(metrics)


def test_a_users_own_format_has_times_and_metrics(tmp_path: Path) -> None:
    put_step(tmp_path / "steps" / "01", 5, '{"loss": 1.0}')
    put_step(tmp_path / "steps" / "31", 6, '{"loss": 0.5}')
    chosen = ocp.CheckpointManagerOptions(
        step_name_format=Reversed(),
        best_fn=lambda metrics: metrics["loss"],
        best_mode="min",
        create=False,
    )
    with ocp.CheckpointManager(tmp_path, options=chosen) as found:
        assert found.all_steps() == [10, 13]
        assert found.best_step() == 13
        assert [int(i.time.timestamp()) for i in found._checkpoints] == [5, 6]
    with v1.training.Checkpointer(
        tmp_path, step_name_format=Reversed()
    ) as run:
        assert [c.metrics for c in run.checkpoints] == [
            {"loss": 1.0},
            {"loss": 0.5},
        ]


@pytest.mark.parametrize("text", ["{", "", "{'loss': 1}", "\xff", '{"a": 1'])
def test_damaged_metrics_are_none_in_both_versions(
    tmp_path: Path, text: str
) -> None:
    put_step(tmp_path / "1", 5, '{"loss": 2.0, "x": NaN}')
    put_step(tmp_path / "2", 6, None)
    (tmp_path / "2" / "metrics").mkdir()
    (tmp_path / "2" / "metrics" / "metrics").write_bytes(text.encode("latin1"))
    chosen = ocp.CheckpointManagerOptions(
        best_fn=lambda metrics: metrics["loss"], create=False
    )
    with ocp.CheckpointManager(tmp_path, options=chosen) as found:
        assert found.all_steps() == [1, 2]
        assert found.best_step() == 1
        infos = list(found._checkpoints)
    with v1.training.Checkpointer(tmp_path) as run:
        assert [c.metrics for c in run.checkpoints] == [
            info.metrics for info in infos
        ]
        assert run.checkpoints[1].metrics is None
    assert infos[1].metrics is None
    assert _engine.scan_steps(str(tmp_path))[1][4] is None


def test_changed_metrics_and_times_do_not_count(tmp_path: Path) -> None:
    """v0, v1 and the engine ignore metrics and times whose checksums are
    wrong."""
    chosen = ocp.CheckpointManagerOptions(
        best_fn=lambda metrics: metrics["loss"]
    )
    with ocp.CheckpointManager(tmp_path, options=chosen) as saver:
        for step in (1, 2):
            saver.save(
                step,
                args=ocp.args.JsonSave({"n": step}),
                metrics={"loss": float(step)},
            )
    metrics = tmp_path / "2" / "metrics" / "metrics"
    metrics.write_text(metrics.read_text().replace("2.0", "9.0"))
    with ocp.CheckpointManager(tmp_path, options=chosen) as found:
        assert found.best_step() == 1
    with v1.training.Checkpointer(tmp_path) as run:
        assert [c.metrics for c in run.checkpoints] == [{"loss": 1.0}, None]
    record = tmp_path / "1" / "_CHECKPOINT_METADATA"
    record.write_text("[1]")
    with ocp.CheckpointManager(tmp_path, options=chosen) as found:
        seconds = int((tmp_path / "1").stat().st_mtime)
        time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
        assert found._checkpoints[0].time == time


def test_steps_of_names() -> None:
    for name, step in {
        "12": 12,
        "a_b_07": 7,
        "7.orbax-checkpoint-tmp-1712345678": 7,
        "a_12.orbax-checkpoint-tmp": 12,
    }.items():
        assert step_lib.step_from_checkpoint_name(name) == step
    with pytest.raises(ValueError) as raised:
        step_lib.step_from_checkpoint_name("abc")
    assert str(raised.value) == "Unrecognized name format: abc."
    assert isinstance(raised.value, errors.InvalidArgumentError)
