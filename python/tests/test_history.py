"""Step addresses, log and bisect."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import holdfast
import holdfast.orbax as ocp
from holdfast import errors


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """Returns a root with steps 10 to 80. `w` has a NaN from step 60 on; the
    loss falls to 0."""
    root = tmp_path / "run"
    options = ocp.CheckpointManagerOptions(
        best_fn=lambda metrics: metrics["loss"],
        enable_async_checkpointing=False,
    )
    with ocp.CheckpointManager(root, options=options) as manager:
        for step in range(10, 90, 10):
            value = np.nan if step >= 60 else 1.0
            state = {"w": np.array([value, step], np.float32)}
            manager.save(
                step,
                args=ocp.args.StandardSave(state),
                metrics={"loss": 80.0 - step},
            )
    return root


def test_readers_take_addresses(root: pathlib.Path) -> None:
    assert holdfast.resolve(f"{root}@step=20") == str(root / "20")
    assert holdfast.resolve(root) == str(root)
    with holdfast.open(f"{root}@latest") as checkpoint:
        assert checkpoint.step == 80
    assert holdfast.resolve(f"{root}@best:loss") == str(root / "80")
    assert holdfast.resolve(f"{root}@best:max:loss") == str(root / "10")
    assert holdfast.verify(f"{root}@0s ago")
    assert holdfast.stats(f"{root}@step=60")["default.w"].nan_count == 1
    assert holdfast.load(f"{root}@step=30") is not None
    with pytest.raises(errors.NotFoundError, match="nearest is 30 and 40"):
        holdfast.load(f"{root}@step=33")
    with pytest.raises(errors.NotFoundError, match="there are loss"):
        holdfast.open(f"{root}@best:accuracy")
    with pytest.raises(errors.InvalidArgumentError, match="known are @step=N"):
        holdfast.open(f"{root}@newest")


def test_nothing_is_saved_at_an_address(root: pathlib.Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="names a step"):
        holdfast.save(f"{root}@step=90", {"n": 1})
    assert not pathlib.Path(f"{root}@step=90").exists()


def test_log_lists_the_newest_step_first(root: pathlib.Path) -> None:
    entries = holdfast.log(root, count=2, moved=True, moved_count=1)
    assert [entry.step for entry in entries] == [80, 70]
    newest = entries[0]
    assert newest.committed and newest.problem == ""
    assert newest.metrics == {"loss": 0.0}
    assert newest.save_seconds is not None and newest.save_seconds >= 0
    assert newest.moved_against == "70"
    [(name, relative)] = newest.moved
    assert name == "default.w" and relative == pytest.approx(1 / 7)
    (root / "80" / "metrics" / "metrics").write_text("{")
    assert "metrics" in holdfast.log(root)[0].problem
    with pytest.raises(errors.NotFoundError):
        holdfast.log(root / "none")


def test_bisect_by_a_predicate(root: pathlib.Path) -> None:
    found = holdfast.bisect(root, "nan(*w)")
    assert found.first_bad is not None
    assert found.first_bad.step == 60
    assert found.first_bad.path == str(root / "60")
    assert found.last_good.step == 50
    assert [probe.step.step for probe in found.probes] == [80, 10, 40, 60, 50]
    assert found.leaf_count == 5 and found.bytes == 40
    assert holdfast.bisect(root, "metric(loss) < 25").leaf_count == 0
    narrow = holdfast.bisect(root, "nan(*w)", good=40, bad=70)
    assert narrow.step_count == 4
    with pytest.raises(errors.InvalidArgumentError, match="column 5"):
        holdfast.bisect(root, "nan('w)")
    with pytest.raises(errors.FailedPreconditionError, match="is good"):
        holdfast.bisect(root, "inf(*w)")


def test_bisect_by_a_function(root: pathlib.Path) -> None:
    asked = []

    def is_bad(path: str) -> bool | None:
        step = int(pathlib.Path(path).name)
        asked.append(step)
        return None if step == 40 else step > 30

    found = holdfast.bisect(root, is_bad)
    assert found.first_bad is None
    assert [step.step for step in found.candidates] == [40, 50]
    assert found.last_good.step == 30
    assert asked == [probe.step.step for probe in found.probes]
    assert [p.verdict for p in found.probes if p.step.step == 40] == ["skip"]

    def fails(path: str) -> bool:
        raise KeyError(path)

    with pytest.raises(KeyError, match="80"):
        holdfast.bisect(root, fails)
