"""A root's steps and their trash, through the engine."""

from __future__ import annotations

import json
import pathlib

from holdfast import _engine


def put_step(
    root: pathlib.Path, name: str, time_ns: int, metrics: object = None
) -> None:
    """Makes a directory that looks like a committed step."""
    step = root / name
    (step / "default").mkdir(parents=True)
    (step / "default" / "metadata").write_text("{}")
    record = {"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": time_ns}
    (step / "_CHECKPOINT_METADATA").write_text(json.dumps(record))
    if metrics is not None:
        (step / "metrics").mkdir()
        (step / "metrics" / "metrics").write_text(json.dumps(metrics))


def test_scan_tells_times_and_metrics(tmp_path: pathlib.Path) -> None:
    put_step(tmp_path, "a_0010", 7, {"loss": 0.5})
    put_step(tmp_path, "a_0002", 8)
    put_step(tmp_path, "3", 9)
    (tmp_path / "a_0011.orbax-checkpoint-tmp").mkdir()
    root = str(tmp_path)
    assert _engine.scan_steps(
        root, step_prefix="a", step_format_fixed_length=4
    ) == [
        (2, "a_0002", True, 8, None),
        (10, "a_0010", True, 7, '{"loss": 0.5}'),
    ]
    assert _engine.scan_steps(root) == [(3, "3", True, 9, None)]
    everything = _engine.scan_steps(
        root, any_format=True, include_uncommitted=True
    )
    assert [row[:3] for row in everything] == [
        (2, "a_0002", True),
        (3, "3", True),
        (10, "a_0010", True),
        (11, "a_0011.orbax-checkpoint-tmp", False),
    ]
    assert _engine.scan_steps(root, read_metadata=False)[0][3] == 0
    assert _engine.scan_steps(root, commit_mode="commit_file") == []
    assert _engine.scan_steps(root + "/nowhere") == []
